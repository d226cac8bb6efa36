"""Hosts, devices, threads, memory, copies of a store and the sequence of calls change no batch."""

import random
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import Disk, Read, after_asking, watch
from hypothesis import given, settings
from hypothesis import strategies as st
from processes import outputs, run_python
from stores import (
    EN_ALONE,
    FIELDS,
    assert_same,
    expected_batch,
    first_ids,
    host_batches,
    loader,
    num,
    over_devices,
    tokens_digest,
    write_store,
)
from typeguard import suppress_type_checks

from flatmix.loader import buffers, rows


@pytest.fixture(scope="module")
def unbroken(standard: str) -> list[Any]:
    """30 batches of one loader, made one after another."""
    return host_batches(loader(standard), 0, 30)


@pytest.mark.parametrize(
    ("devices", "settings", "reseed"),
    [
        (1, {"prefetch": 0}, False),
        (1, {"prefetch": 1, "threads": 16}, False),
        (8, {"prefetch": 4, "threads": 1}, False),
        (8, {"prefetch": 2}, True),
    ],
)
def test_devices_prefetch_threads_and_global_seeds_change_no_batch(
    standard: str, unbroken: list[Any], devices: int, settings: dict[str, int], reseed: bool
):
    with loader(standard, sharding=over_devices(devices), **settings) as own:
        for step, batch in enumerate(own.steps(0, 30)):
            if reseed:
                random.seed(0)
                np.random.seed(0)  # noqa: NPY002  the global state is what is tested
            assert_same(unbroken[step], batch)


def test_global_random_states_are_left_alone(standard: str):
    before = random.getstate(), np.random.get_state()  # noqa: NPY002
    with loader(standard, prefetch=2) as own:
        list(own.steps(0, 12))
        own.restore(own.state(3))
        own.stats(12)
    after = random.getstate(), np.random.get_state()  # noqa: NPY002
    assert before[0] == after[0]
    assert all(np.array_equal(one, other) for one, other in zip(before[1], after[1], strict=True))


def test_two_hosts_show_each_window_of_an_epoch_once_between_them(standard: str):
    hosts = [loader(standard, EN_ALONE), loader(standard, EN_ALONE)]
    shown = [
        [first for step in range(10) for first in first_ids(host.load_host(step, rows))]
        for host, rows in zip(hosts, (range(4), range(4, 8)), strict=True)
    ]
    assert not set(shown[0]) & set(shown[1])
    assert sorted(shown[0] + shown[1]) == [1000 + 8 * window for window in range(80)]


def test_rows_of_hosts_make_up_the_batch(standard: str):
    whole = loader(standard)
    hosts = [(loader(standard), rows) for rows in ([0, 1, 2], [3, 4, 5, 6], [7])]
    for step in range(20):
        parts = [host.load_host(step, rows) for host, rows in hosts]
        expected = whole.load_host(step)
        for name in FIELDS:
            joined = np.concatenate([getattr(part, name) for part in parts])
            np.testing.assert_array_equal(joined, getattr(expected, name))


FRESH = """
import sys
import stores
names = ["zh", "ar", "en", "de", "sw", "no"]
for path in sys.argv[1:]:
    own = stores.loader(path, dict.fromkeys(names, 1), batch=4, sequences_per_read_block=2)
    print(stores.tokens_digest(own.load_host(step) for step in range(50)))
"""


def test_a_fresh_process_and_copies_of_a_store_give_the_same_batches(tmp_path: Path):
    names = ["zh", "ar", "en", "de", "sw", "no"]
    store = write_store(tmp_path / "a.zarr", {name: num(64, 1000 * at) for at, name in enumerate(names)})
    subprocess.run(["cp", "-r", store, tmp_path / "b.zarr"], check=True)
    with tarfile.open(tmp_path / "c.tar", "w") as tar:
        tar.add(store, "c.zarr")
    with tarfile.open(tmp_path / "c.tar") as tar:
        tar.extractall(tmp_path, filter="data")
    digests = set(outputs(run_python(FRESH, store, tmp_path / "b.zarr", tmp_path / "c.zarr"))[0].splitlines())
    own = loader(store, dict.fromkeys(names, 1), batch=4, sequences_per_read_block=2)
    assert digests == {tokens_digest(host_batches(own, 0, 50))}


def test_a_copy_of_a_store_restores_the_same_run(own_standard: Path, tmp_path: Path, standard: str):
    state = loader(standard).state(9)
    shutil.move(own_standard, tmp_path / "elsewhere.zarr")
    own = loader(tmp_path / "elsewhere.zarr")
    assert own.restore(state) == 9
    assert_same(loader(standard).load_host(9), own.load_host(9))


# Documents of many lengths, none among them; enough tokens for a window of each stream under any of the settings below.
MIX = {
    "en": [list(range(start, start + start % 11)) for start in range(60)],
    "ar": [list(range(1000, 1100)), [], list(range(1100, 1160))],
    "sw": [[2000 + token] * (token % 3) for token in range(60)],
}
DOCUMENTS = {"en": 0.5, "sw": 0.5}  # of "ar" there are too few

ANY_SETTINGS = st.fixed_dictionaries(
    {
        "len": st.integers(1, 9),
        "extra_tokens": st.integers(0, 2),
        "stride": st.one_of(st.none(), st.integers(1, 12)),
        "batch": st.sampled_from([2, 4, 6, 16]),
        "streams": st.sampled_from([1, 2]),
        "selector": st.sampled_from(["hash", "balanced"]),
        "seed": st.sampled_from([0, 7, 2**64 - 1]),
        "sequences_per_read_block": st.sampled_from([1, 2, {"en": 7, "ar": 5, "sw": 1}, "auto"]),
        "read_blocks_per_shuffle_buffer": st.sampled_from([1, 3, {"en": 4}, "auto", 1000]),
        "memory_budget": st.sampled_from([0, 36, 3000, 20_000, "auto"]),
        "prefetch": st.integers(0, 3),
        "threads": st.sampled_from([None, 1, 4]),
    }
)


@pytest.fixture(scope="module")
def mix(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_store(tmp_path_factory.mktemp("mix") / "s.zarr", MIX)


# How a run uses its loader. Numbers are steps, from where the run stands or from the start; after "fail", reads.
ANY_USE = st.one_of(
    st.tuples(st.just("run"), st.integers(1, 12)),
    st.tuples(st.just("run"), st.integers(1, 12)),
    st.tuples(st.just("run"), st.integers(1, 12)),
    st.tuples(st.just("repeat"), st.integers(1, 3)),
    st.tuples(st.just("jump"), st.integers(-9, 20)),
    st.tuples(st.just("look"), st.integers(0, 60)),
    st.tuples(st.just("look"), st.integers(0, 10**6)),
    st.tuples(st.just("rows"), st.lists(st.integers(0, 1), max_size=4)),
    st.tuples(st.just("iterate"), st.integers(-9, 20)),
    st.tuples(st.just("next"), st.integers(1, 6)),
    st.tuples(st.just("fail"), st.integers(0, 12)),
    st.tuples(st.just("resume"), st.integers(-9, 20)),
    st.tuples(st.just("resume elsewhere"), st.integers(-9, 20)),
)

# Reads are done when they have been asked for so many times: at once, never before somebody waits, in any sequence.
ANY_DELAYS = st.one_of(st.just([0]), st.just([10**9]), st.lists(st.sampled_from([0, 1, 2, 5, 20, 10**9]), min_size=2))


class Use:
    """One loader over MIX as a run uses it; every batch is compared with the documents cut token by token."""

    def __init__(self, store: str, disk: Disk, changes: dict[str, Any], part: float | None, timeline: list[int]):
        self.store, self.disk, self.changes = store, disk, changes
        batch = changes["batch"]
        if timeline:  # (steps, slots in batches) from one entry to the next
            entries, step, slot = [(0, 0, 2 * batch)], 0, 0
            for number, by in enumerate(timeline):
                step, slot = step + 3 + number, max(0, slot + by) * batch
                entries.append((step, slot, batch))
            self.changes = {**changes, "timeline": entries}
        if part is not None:
            with loader(store, **self.changes) as whole:
                self.changes["memory_budget"] = int(part * whole.memory()["buffers"])
        self.own = loader(store, **self.changes)
        self.at, self.elsewhere = 0, 0
        self.steps: Iterator[Any] = iter(())

    def check(self, step: int, rows: list[int] | None = None) -> None:
        while True:
            try:
                batch = self.own.load_host(step, rows)
            except OSError:
                continue  # as often as a read was made to fail
            break
        assert_same(expected_batch(self.own, MIX, step, rows), batch)
        for name in FIELDS:
            getattr(batch, name)[:] = 1  # it is the caller's own

    def run(self, number: int) -> None:
        for _ in range(number):
            self.check(self.at)
            self.at += 1

    def repeat(self, number: int) -> None:
        for _ in range(number):
            self.check(self.at)

    def jump(self, number: int) -> None:
        self.at = max(0, self.at + number)

    def look(self, number: int) -> None:
        self.check(number)

    def rows(self, rows: list[int]) -> None:
        for _ in range(3):
            self.check(self.at, rows)
            self.at += 1

    def iterate(self, number: int) -> None:
        """An iterator beside the run, over jax.Arrays."""
        self.elsewhere = max(0, self.at + number)
        self.steps = self.own.steps(self.elsewhere)

    def next(self, number: int) -> None:
        for step in range(self.elsewhere, self.elsewhere + number):
            try:
                batch = next(self.steps)
            except StopIteration:
                return
            except OSError:
                with pytest.raises(OSError, match="disk"):  # the same at each later call
                    next(self.steps)
                self.steps = self.own.steps(step)
                self.elsewhere = step
                return
            assert_same(expected_batch(self.own, MIX, step), batch)
            self.elsewhere = step + 1

    def fail(self, number: int) -> None:
        self.disk.failing.add(len(self.disk.reads) + number)

    def resume(self, number: int) -> None:
        self.jump(number)
        assert self.own.restore(self.own.state(self.at)) == self.at

    def resume_elsewhere(self, number: int) -> None:
        """In a loader with batches of twice as many rows, which goes on with the same slots."""
        self.jump(number)
        state = self.own.state(self.at)
        self.own.close()
        if "timeline" not in self.changes:
            self.changes = {**self.changes, "batch": 2 * self.changes["batch"] % 62}
        self.own = loader(self.store, **self.changes)
        assert self.own.restore(state) == self.at
        assert self.own.order.timeline.first_slot(self.at) == first_slot(state)
        self.steps = iter(())


def first_slot(state: dict[str, Any]) -> int:
    step, slot, batch = [entry for entry in state["timeline"] if entry[0] <= state["step"]][-1]
    return slot + (state["step"] - step) * batch


@dataclass
class Failing:
    """The reads that fail, once each."""

    disk: Disk

    def __call__(self, read: Read) -> None:
        if read.number in self.disk.failing:
            self.disk.failing.discard(read.number)
            raise OSError(f"disk {read.number}")


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    changes=ANY_SETTINGS,
    part=st.sampled_from([None, None, 1.0, 0.7, 0.33, 0.1]),
    timeline=st.one_of(st.just([]), st.lists(st.integers(-12, 12), min_size=1, max_size=4)),
    delays=ANY_DELAYS,
    behind=st.booleans(),
    when=st.sampled_from(["on_read", "on_result"]),
    uses=st.lists(ANY_USE, min_size=3, max_size=16),
)
def test_no_setting_delay_failure_or_sequence_of_calls_changes_a_token(
    mix: str, changes: dict[str, Any], part: float | None, timeline: list[int], delays: list[int], behind: bool,
    when: str, uses: list[tuple[str, Any]],
):  # fmt: skip
    """`part` is how much of the memory that all buffers take there is; `behind` has their sections prepared in another
    thread, as those of large buffers are."""
    with pytest.MonkeyPatch.context() as patch, suppress_type_checks():  # they take two thirds of the time
        patch.setattr(buffers, "_AT_ONCE", 0 if behind else 2**13)
        patch.setattr(rows, "_SPAN", 20)
        disk = watch(patch, arrived=after_asking(delays))
        setattr(disk, when, Failing(disk))
        use = Use(mix, disk, changes, part, timeline)
        for what, argument in uses:
            getattr(use, what.replace(" ", "_"))(argument)
        use.own.close()


@settings(deadline=None, derandomize=True, max_examples=4)
@given(changes=ANY_SETTINGS, start=st.integers(0, 30))
def test_no_setting_changes_an_iterated_batch(mix: str, changes: dict[str, Any], start: int):
    with loader(mix, **changes) as own:
        for step, batch in enumerate(own.steps(start, start + 5), start):
            assert_same(expected_batch(own, MIX, step), batch)


@settings(deadline=None, derandomize=True, max_examples=3)
@given(changes=ANY_SETTINGS, delays=ANY_DELAYS, start=st.integers(0, 30))
def test_no_setting_or_delay_changes_a_row_that_is_a_document(
    mix: str, changes: dict[str, Any], delays: list[int], start: int
):
    """Against rows that are all read alone."""
    changes |= {"sequence_packing": False, "stride": None, "read_blocks_per_shuffle_buffer": 3}
    changes["sequences_per_read_block"] = 1 + start % 4
    with (
        pytest.MonkeyPatch.context() as patch,
        suppress_type_checks(),
        loader(mix, DOCUMENTS, **{**changes, "memory_budget": 0}) as alone,
    ):
        watch(patch, arrived=after_asking(delays))
        with loader(mix, DOCUMENTS, **changes) as own:
            for step in [*range(start, start + 8), *range(start + 5, start + 12)]:
                assert_same(alone.load_host(step), own.load_host(step))
