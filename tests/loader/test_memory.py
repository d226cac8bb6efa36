"""The memory that a process may use, and the share of it that buffers take."""

from pathlib import Path

import pytest

from flatmix.loader import memory


def cgroups(monkeypatch: pytest.MonkeyPatch, folder: Path, own: str, **files: str) -> None:
    """A machine with these limit files ("__" for "/" in names); this process is in the groups that `own` names."""
    (folder / "own").write_text(own)
    for name, content in files.items():
        path = folder / "cgroup" / name.replace("__", "/").replace("_max", ".max")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    monkeypatch.setattr(memory, "_OWN_CGROUP", folder / "own")
    monkeypatch.setattr(memory, "_CGROUPS", folder / "cgroup")


def limits(monkeypatch: pytest.MonkeyPatch, folder: Path, content: str) -> None:
    cgroups(monkeypatch, folder, "0::/\n", memory_max=content)


def test_a_container_with_a_limit_has_that_much(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    limits(monkeypatch, tmp_path, "100000000\n")
    assert memory.usable_memory() == 100_000_000


def test_the_lowest_limit_around_a_process_counts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    groups = {"job__step__memory_max": "max", "job__memory_max": "300000000\n", "memory_max": "900000000"}
    cgroups(monkeypatch, tmp_path, "0::/job/step\n", **groups)
    assert memory.usable_memory() == 300_000_000


def test_the_older_cgroups_are_understood(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    cgroups(monkeypatch, tmp_path, "5:cpu:/x\n4:memory:/job\n")
    path = tmp_path / "cgroup" / "memory" / "job" / "memory.limit_in_bytes"
    path.parent.mkdir(parents=True)
    path.write_text("200000000\n")
    assert memory.usable_memory() == 200_000_000


@pytest.mark.parametrize("content", ["max\n", str(2**63 - 4096), ""])
def test_without_a_limit_it_is_that_of_the_machine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str):
    limits(monkeypatch, tmp_path, content)
    lines = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
    assert memory.usable_memory() // 1024 == int(lines["MemTotal"].split()[0])


def test_auto_is_a_quarter_and_a_number_is_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    limits(monkeypatch, tmp_path, "100000000\n")
    assert memory.resolve_budget("auto") == 25_000_000
    assert memory.resolve_budget(0) == 0
    assert memory.resolve_budget(10**12) == 10**12


@pytest.mark.parametrize("launcher", memory._LOCAL_PROCESSES)
def test_auto_is_shared_by_the_processes_that_a_launcher_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, launcher: str
):
    limits(monkeypatch, tmp_path, "100000000\n")
    for value, budget in (("4", 6_250_000), ("0", 25_000_000), ("2(x3)", 25_000_000), ("", 25_000_000)):
        monkeypatch.setenv(launcher, value)
        assert memory.resolve_budget("auto") == budget
    assert memory.resolve_budget(10**9) == 10**9
