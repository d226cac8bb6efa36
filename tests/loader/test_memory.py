"""The memory that a process may use, and the share of it that buffers take."""

from pathlib import Path

import pytest

from flatmix.loader import memory


def limits(monkeypatch: pytest.MonkeyPatch, folder: Path, *contents: str) -> None:
    for number, content in enumerate(contents):
        (folder / str(number)).write_text(content)
    files = [str(folder / str(number)) for number in range(len(contents))]
    monkeypatch.setattr(memory, "_CGROUP_LIMITS", (*files, str(folder / "missing")))


def test_a_container_with_a_limit_has_that_much(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    limits(monkeypatch, tmp_path, "100000000\n")
    assert memory.usable_memory() == 100_000_000


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
