"""Several processes of one JAX run: every shard is right, each process reads its own rows only, none waits for another,
and a run that was killed goes on with fewer of them.

The processes are started once for each number of them, and do there what `hosts` says.
"""

import inspect
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from hosts import HALF, STEPS
from layouts import LAYOUTS, SETTINGS, devices_of, loader
from processes import Run, end, outputs, run_together
from stores import FIELDS, write_store

LIMIT = 150
Reports = dict[int, list[dict[str, Any]]]


def documents(lengths: list[int], base: int) -> list[list[int]]:
    """Documents of those lengths; their ids go on from one to the next."""
    ends = np.cumsum(lengths).tolist()
    return [list(range(base + end - length, base + end)) for end, length in zip(ends, lengths, strict=True)]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    languages = {
        "en": documents([7 * number % 23 + 1 for number in range(160)], 1000),
        "ar": documents([5 * number % 17 + 1 for number in range(80)], 5000),
        "sw": documents([3 * number % 11 + 1 for number in range(36)], 9000),
    }
    return write_store(tmp_path_factory.mktemp("processes") / "s.zarr", languages)


@pytest.fixture(scope="module")
def alone(store: str) -> dict[str, dict[str, np.ndarray]]:
    """What one process gives: of each field, all steps."""
    arrays: dict[str, dict[str, np.ndarray]] = {}
    for name in SETTINGS:
        own = loader(store, name)
        batches = [own.load_host(step) for step in range(STEPS)]
        arrays[name] = {field: np.stack([getattr(batch, field) for batch in batches]) for field in FIELDS}
    return arrays


@pytest.fixture(scope="module")
def folder(store: str, alone: dict[str, dict[str, np.ndarray]], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the processes find what one process gives, and leave what they have to say."""
    folder, states = tmp_path_factory.mktemp("hosts"), {}
    for name, arrays in alone.items():
        np.savez(folder / f"{name}.npz", **arrays)
        own = loader(store, name)
        states[name] = {str(step): own.state(step) for step in (0, 1, HALF, HALF + 1, STEPS)}
    (folder / "states.json").write_text(json.dumps(states))
    return folder


def wait_until(happened: Callable[[], bool], runs: list[Run]) -> None:
    deadline = time.monotonic() + LIMIT
    while not happened():
        if time.monotonic() > deadline or any(run.process.poll() is not None for run in runs):
            for run in runs:
                run.process.kill()
            pytest.fail("\n\n".join(ended.out + ended.errors for ended in map(end, runs)))
        time.sleep(0.05)


@pytest.fixture(scope="module")
def killed_at(store: str, folder: Path) -> int:
    """Four processes check all layouts and train until they are killed; the step of the last state they saved."""
    file = folder / "state.json"
    runs = run_together("import hosts; hosts.main()", 4, store, folder)
    wait_until(lambda: file.exists() and json.loads(file.read_text())["step"] >= 12, runs)
    for run in runs:
        run.process.kill()
    assert all(end(run).code < 0 for run in runs)
    return json.loads(file.read_text())["step"]


@pytest.fixture(scope="module")
def reports(store: str, folder: Path, killed_at: int) -> Reports:
    """What the four have written of the layouts, and then two, which go on with the run of the four."""
    outputs(*run_together("import hosts; hosts.main()", 2, store, folder, limit=LIMIT))
    return {
        count: [json.loads((folder / f"report-{count}-{number}.json").read_text()) for number in range(count)]
        for count in (2, 4)
    }


@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("name", LAYOUTS)
def test_every_shard_is_what_one_process_gives(reports: Reports, count: int, name: str):
    """For 200 steps, the second half from a state that was saved under another layout; states are equal everywhere, and
    a process reads its own rows, once."""
    layout = LAYOUTS[name]
    for number, report in enumerate(reports[count]):
        assert report[name]["errors"] == []
        assert report[name]["shards"] == STEPS * len(FIELDS) * len(devices_of(layout, number, count))


@pytest.mark.parametrize("count", [2, 4])
def test_a_loader_waits_for_no_other_process(reports: Reports, count: int):
    """Each makes its batches while the others sleep, at steps that no other process loads."""
    assert [report["in turn"] for report in reports[count]] == [[]] * count


@pytest.mark.parametrize("count", [2, 4])
def test_with_streams_enough_no_two_processes_read_the_same_shuffle_buffer(reports: Reports, count: int):
    read = [
        {(start, stop) for language, start, stop in report["data"]["buffers"] if language == "en"}
        for report in reports[count]
    ]
    assert all(read)
    assert len(set.union(*read)) == sum(map(len, read))


def test_four_killed_processes_are_taken_up_by_two_with_another_batch(
    reports: Reports, folder: Path, killed_at: int, alone: dict[str, dict[str, np.ndarray]]
):
    """The slots go on without a gap, and the steps count on."""

    def targets(count: int, step: int) -> np.ndarray:
        parts = [np.load(folder / f"targets-{count}-{step}-{number}.npy") for number in range(count)]
        return np.max(parts, axis=0)

    before = [targets(4, step) for step in range(killed_at)]
    after = [targets(2, step) for step in range(killed_at, killed_at + 10)]
    assert not list(folder.glob(f"targets-2-{killed_at - 1}-*"))
    assert [len(part) for part in before + after] == [8] * killed_at + [16] * 10
    expected = alone["one token more"]["targets"][: killed_at + 20]
    np.testing.assert_array_equal(np.concatenate(before + after), expected.reshape(-1, 8))
    state = json.loads((folder / "state.json").read_text())
    assert state["timeline"] == [[0, 0, 8], [killed_at, 8 * killed_at, 16]]
    assert state["step"] > killed_at


@pytest.mark.skipif(
    "heartbeat_timeout_seconds" not in inspect.signature(jax.distributed.initialize).parameters,
    reason="an older jax, whose timeouts are fixed",
)
def test_when_one_process_fails_all_end(store: str):
    """With heartbeat_timeout_seconds=5 and shutdown_timeout_seconds=3, where JAX has 100 and 300.

    A process that ends by `os._exit` is gone at once, and the other ends 4 to 5 seconds later. One that lets its error
    out waits at its end for the other, as JAX does at every end, and its heart beats on: both end after 3.5 to 5
    seconds.
    """
    failing = {how: run_together("import hosts; hosts.fail()", 2, store, how) for how in ("raise", "end at once")}
    ends = {how: [end(run) for run in runs] for how, runs in failing.items()}
    assert ends["end at once"][1].code == 1
    for other, failed in ends.values():
        assert failed.code
        assert "ValueError: the loss is not finite" in failed.errors
        assert other.code
        assert "JAX distributed service detected fatal errors" in other.errors
