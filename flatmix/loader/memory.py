"""How much memory a process may use."""

import os
from pathlib import Path

_CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def usable_memory() -> int:
    """Bytes: the machine's memory, or the limit of this process's container where that is lower."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in map(Path, _CGROUP_LIMITS):
        try:
            limits.append(int(path.read_text()))
        except (OSError, ValueError):  # no such cgroup version here, or "max"
            continue
    return min(limits)


def resolve_budget(budget: int | str) -> int:
    """The bytes that all shuffle buffers of this process may take together."""
    return usable_memory() // 4 if isinstance(budget, str) else budget
