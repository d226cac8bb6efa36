"""Hosts, devices, threads, memory, copies of a store and the sequence of calls change no batch."""

import random
import shutil
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
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
        "memory_budget": st.sampled_from([0, 36, 400, 3000, "auto"]),
        "prefetch": st.integers(0, 3),
        "threads": st.sampled_from([None, 1, 4]),
    }
)


ANY_USES = st.lists(
    st.one_of(
        st.tuples(st.just("load_host"), st.integers(0, 40)),
        st.tuples(st.just("run"), st.integers(0, 40)),
        st.tuples(st.just("rows"), st.integers(0, 40), st.lists(st.integers(0, 1), max_size=4)),
        st.tuples(st.just("resume"), st.integers(0, 40)),
        st.tuples(st.just("resume elsewhere"), st.integers(0, 40)),
        st.tuples(st.just("far"), st.integers(0, 10**6)),
    ),
    min_size=1,
    max_size=6,
)


@pytest.fixture(scope="module")
def mix(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_store(tmp_path_factory.mktemp("mix") / "s.zarr", MIX)


@settings(deadline=None, derandomize=True, max_examples=25)
@given(changes=ANY_SETTINGS, uses=ANY_USES)
def test_no_setting_or_sequence_of_calls_changes_a_token(mix: str, changes: dict[str, Any], uses: list[Any]):
    own = loader(mix, **changes)
    for what, step, *rows in uses:
        if what in ("load_host", "far"):
            assert_same(expected_batch(own, MIX, step), own.load_host(step))
        elif what == "run":
            for later in range(step, step + 6):
                assert_same(expected_batch(own, MIX, later), own.load_host(later))
        elif what == "rows":
            assert_same(expected_batch(own, MIX, step, rows[0]), own.load_host(step, rows[0]))
        elif what == "resume":
            assert own.restore(own.state(step)) == step
        else:
            state = own.state(step)
            own = loader(mix, **changes)
            assert own.restore(state) == step
            assert own.state(step) == state


@settings(deadline=None, derandomize=True, max_examples=4)
@given(changes=ANY_SETTINGS, start=st.integers(0, 30))
def test_no_setting_changes_an_iterated_batch(mix: str, changes: dict[str, Any], start: int):
    with loader(mix, **changes) as own:
        for step, batch in enumerate(own.steps(start, start + 5), start):
            assert_same(expected_batch(own, MIX, step), batch)
