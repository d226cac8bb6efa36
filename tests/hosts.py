"""What each process does in the tests of runs with several.

What one process gives alone was written to a folder before, and what is found here is written there too. Nothing is
compared by way of JAX, so that no process has to wait for another.
"""

import json
import os
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import Disk, watch
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P
from layouts import BATCH, DEVICES, LAYOUTS, SETTINGS, another, loader, rows_of, sharding_of
from stores import FIELDS, ShufflingLoader

STEPS = 200
HALF = STEPS // 2
IN_TURN = ("data", "columns divided over processes")


class Host:
    """Process `number` of `count`."""

    def __init__(self, store: str, folder: Path, count: int, number: int):
        self.store, self.folder, self.count, self.number = store, folder, count, number
        self.expected = {name: dict(np.load(folder / f"{name}.npz")) for name in SETTINGS}
        self.states = json.loads((folder / "states.json").read_text())
        self.saved: dict[str, str] = {}

    def loader(self, name: str, **more: Any) -> ShufflingLoader:
        return loader(self.store, LAYOUTS[name].settings, sharding_of(LAYOUTS[name]), **more)

    def assert_right(self, name: str, first: int, batches: Sequence[Any]) -> int:
        """Compares every shard of every field with the arrays of one process; returns how many there were."""
        count = 0
        for field in FIELDS:
            arrays = [getattr(batch, field) for batch in batches]
            assert len({array.sharding for array in arrays}) == 1
            wanted = self.expected[LAYOUTS[name].settings][field][first : first + len(batches)]
            for place, shard in enumerate(arrays[0].addressable_shards):
                found = np.stack([array.addressable_data(place) for array in arrays])
                part = wanted[(slice(None), *shard.index)]
                np.testing.assert_array_equal(found, part, err_msg=f"{field} on {shard.device}", strict=True)
                count += len(found)
        return count

    def run(self, name: str, start: int, state: str | None) -> int:
        """Half of the steps: the first with every row read alone and each read noted, the second with buffers, from a
        state that another layout has saved."""
        settings, rows = LAYOUTS[name].settings, rows_of(LAYOUTS[name], self.number, self.count)
        with (
            jax.thread_guard(True),
            watched() as disk,
            self.loader(name, **({} if state else {"memory_budget": 0})) as own,
        ):
            if state is not None:
                assert own.restore(json.loads(state)) == start
            shards = self.assert_right(name, start, list(own.steps(start, start + HALF)))
            assert own.metrics()["rows"] == HALF * len(rows)
            for step in (start, start + 1, start + HALF):
                assert own.state(step) == self.states[settings][str(step)]
            if state is None:
                self.saved[name] = json.dumps(own.state(HALF))
                assert_read_once(own, disk.spans(), rows)
        return shards

    def buffers_read(self, name: str) -> list[tuple[str, int, int]]:
        """The reads of buffers in the first epoch: (language, first token, end)."""
        with watched() as disk, self.loader(name) as own:
            for _ in own.steps(0, 20):
                pass
            return disk.spans(at_least=own.token_batch_params.window + 1)

    def check_layouts(self) -> dict[str, Any]:
        """Every layout, each process beginning with another one: nothing lets one wait for another."""
        names = list(LAYOUTS)
        names = names[3 * self.number :] + names[: 3 * self.number]
        report: dict[str, Any] = {name: {"shards": 0, "errors": []} for name in names}
        for start in (0, HALF):
            for name in names:
                with noted(report[name]["errors"]):
                    state = None if start == 0 else self.saved[another(name)]
                    report[name]["shards"] += self.run(name, start, state)
        report["data"]["buffers"] = self.buffers_read("data")
        return report

    def check_in_turn(self) -> None:
        """Each process makes its batches while the others sleep: those after it have not begun, those before it have
        ended; and each at steps of its own."""
        self.loader("data").load_host(0)  # so that what is loaded at first use is there
        if self.number:
            wait_for(self.folder / f"ended-{self.count}-{self.number - 1}")
        try:
            for name in IN_TURN:
                with jax.thread_guard(True), self.loader(name) as own:
                    step = 20 * self.number + 3
                    assert self.assert_right(name, step, [own.load(step), *own.steps(step + 1, step + 4)])
        finally:
            (self.folder / f"ended-{self.count}-{self.number}").touch()
        wait_for(self.folder / f"ended-{self.count}-{self.count - 1}")

    def train(self, batch: int, sharding: NamedSharding, stop: int | None) -> None:
        """A run with a sum over all devices in each step, from the saved state on, if there is one.

        Every process writes down its part of the targets, and then process 0 saves the state of every fourth step.
        """
        file = self.folder / "state.json"
        total = jax.jit(masked_sum, out_shardings=NamedSharding(sharding.mesh, P()))
        with jax.thread_guard(True), loader(self.store, "one token more", sharding, batch=batch) as own:
            start = own.restore(json.loads(file.read_text())) if file.exists() else 0
            for step, data in enumerate(own.steps(start, stop), start):
                np.save(self.folder / f"targets-{self.count}-{step}-{self.number}.npy", own_part(data.targets))
                int(total(data))
                if self.number == 0 and step % 4 == 3:
                    unfinished = file.with_suffix(".new")
                    unfinished.write_text(json.dumps(own.state(step + 1)))
                    unfinished.rename(file)


@contextmanager
def watched() -> Iterator[Disk]:
    with pytest.MonkeyPatch.context() as patch:
        yield watch(patch)


def assert_read_once(own: ShufflingLoader, reads: list[tuple[str, int, int]], rows: list[int]) -> None:
    """Of the first half of the steps, each of these rows was one read, and there were no others."""
    shape, expected = own.token_batch_params, list[tuple[str, int, int]]()
    for step in range(HALF):
        order = own.order.rows(step, rows=rows)
        for language, window in zip(order.language.tolist(), order.window.tolist(), strict=True):
            first = window * shape.window_stride
            expected.append((own.languages[language], first, first + shape.window))
    if own.params.sequence_packing:
        assert sorted(reads) == sorted(expected)
    else:  # documents, which are as long as they are
        assert len(reads) == len(expected)


def masked_sum(batch: Any) -> jax.Array:
    return jnp.where(batch.loss_mask, batch.targets, jnp.zeros_like(batch.targets)).sum()


def own_part(array: jax.Array) -> np.ndarray:
    """What this process has of it, and -1 elsewhere: int64 of the shape of the whole."""
    part = np.full(array.shape, -1, np.int64)
    for shard in array.addressable_shards:
        part[shard.index] = shard.data
    return part


@contextmanager
def noted(errors: list[str]) -> Iterator[None]:
    try:
        yield
    except Exception:
        errors.append(traceback.format_exc())


def wait_for(file: Path, limit: float = 60) -> None:
    deadline = time.monotonic() + limit
    while not file.exists():
        assert time.monotonic() < deadline, f"no {file}"
        time.sleep(0.02)


def main() -> None:
    """Arguments: address, count, number, store, folder. Four processes train until they are killed, and two go on."""
    address, count, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    jax.distributed.initialize(address, count, number)
    assert len(jax.devices()) == DEVICES  # the first look at them waits until all processes are there
    assert jax.local_device_count() == DEVICES // count
    host = Host(sys.argv[4], Path(sys.argv[5]), count, number)
    in_turn: list[str] = []
    with noted(in_turn):
        host.check_in_turn()
    report = {**host.check_layouts(), "in turn": in_turn}
    (host.folder / f"report-{count}-{number}.json").write_text(json.dumps(report))
    for other in range(count):  # training goes in step, and so begins together
        wait_for(host.folder / f"report-{count}-{other}.json")
    if count == 4:
        host.train(BATCH, NamedSharding(jax.make_mesh((DEVICES,), ("data",)), P("data")), None)
    else:
        state = json.loads((host.folder / "state.json").read_text())
        host.train(2 * BATCH, sharding_of(LAYOUTS["columns divided over processes"]), state["step"] + 10)


def fail() -> None:
    """Arguments: address, count, number, store, "raise" or "end at once"; process 1 fails after some steps."""
    address, count, number = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    jax.distributed.initialize(address, count, number, heartbeat_timeout_seconds=5, shutdown_timeout_seconds=3)
    try:
        sharding = NamedSharding(jax.make_mesh((DEVICES,), ("data",)), P("data"))
        total = jax.jit(masked_sum, out_shardings=NamedSharding(sharding.mesh, P()))
        for step, data in enumerate(loader(sys.argv[4], "windows", sharding).steps()):
            int(total(data))
            if number == 1 and step == 5:
                raise ValueError("the loss is not finite")
    except Exception:
        if sys.argv[5] == "raise":
            raise
        traceback.print_exc()
        os._exit(1)
