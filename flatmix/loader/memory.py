"""How much memory a process may use."""

import os
from collections.abc import Iterator
from pathlib import Path

_CGROUPS = Path("/sys/fs/cgroup")
_OWN_CGROUP = Path("/proc/self/cgroup")
# How many processes a launcher has started on this machine, where it says so: torchrun, Open MPI, MPICH, Slurm.
_LOCAL_PROCESSES = ("LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE")


def usable_memory() -> int:
    """Bytes: the machine's memory, or the limit of this process's container where that is lower."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _cgroup_limits():
        try:
            limits.append(int(path.read_text()))
        except (OSError, ValueError):  # no such cgroup version here, or "max"
            continue
    return min(limits)


def _cgroup_limits() -> Iterator[Path]:
    """The files that may hold a limit: of this process's group and of those around it, in both versions."""
    try:
        lines = _OWN_CGROUP.read_text().splitlines()
    except OSError:
        lines = []
    own = {line.split(":", 2)[1]: line.split(":", 2)[2].strip("/") for line in lines if line.count(":") >= 2}
    for controller, folder, name in (("", "", "memory.max"), ("memory", "memory", "memory.limit_in_bytes")):
        group = _CGROUPS / folder / own.get(controller, "")
        yield from (parent / name for parent in (group, *group.parents) if parent.is_relative_to(_CGROUPS / folder))


def processes_here() -> int:
    """Processes of the run on this machine, as far as the launcher tells; 1 where it does not."""
    told = [os.environ.get(name, "") for name in _LOCAL_PROCESSES]
    return max([1, *(int(number) for number in told if number.isdecimal())])


def resolve_budget(budget: int | str) -> int:
    """The bytes that all shuffle buffers of this process may take together."""
    return usable_memory() // 4 // processes_here() if isinstance(budget, str) else budget
