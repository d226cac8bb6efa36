"""The floor: every window of a language once an epoch, languages by weight, and the fields that a loader delivers."""

from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import jax
import numpy as np
import pytest

from flatmix.bench.floor import WAYS, Floor, Way, array_batches, end, fastest_way, host_batches, splitmix64
from flatmix.loader.batch import TokenBatch
from flatmix.loader.host import RowFormat, host_batch

LENGTH, BATCH = 16, 8
WEIGHTS = {"la": 0.5, "lb": 0.25, "lc": 0.25}
WINDOWS = {"la": 13, "lb": 7, "lc": 200}
FIELDS = ("inputs", "targets", "is_seq_start", "loss_mask", "language")


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """Raw files whose every window is another; each ends in a part of a window."""
    random = np.random.default_rng(3)
    result = {}
    for name, windows in WINDOWS.items():
        values = random.integers(0, 64_000, windows * LENGTH + 5).astype("<u2")
        values.tofile(tmp_path / f"{name}.bin")
        result[name] = tmp_path / f"{name}.bin"
    return result


@pytest.fixture
def make_floor(files: dict[str, Path]):
    def make(slot: int = 0) -> Floor:
        return Floor(files, WEIGHTS, LENGTH, BATCH, slot)

    return make


def numbered(files: dict[str, Path]) -> dict[tuple[int, bytes], int]:
    """(language, content of a window) -> its number."""
    found = {}
    for index, path in enumerate(files.values()):
        values = np.fromfile(path, "<u2")
        for window in range(len(values) // LENGTH):
            found[index, values[window * LENGTH : (window + 1) * LENGTH].tobytes()] = window
    return found


def windows_of(floor: Floor, batches: int, files: dict[str, Path]) -> list[tuple[int, int]]:
    """(language, window) of each row of the next batches."""
    known = numbered(files)
    rows = [pair for _ in range(batches) for pair in zip(*floor.rows(), strict=True)]
    return [(int(language), known[int(language), row.tobytes()]) for row, language in rows]


def reference_mix(value: int) -> int:
    """splitmix64 in Python's integers, from the state that the floor's seed gives."""
    mask = 2**64 - 1
    mixed = (value + 11) * 0x9E3779B97F4A7C15 & mask
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 & mask
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB & mask
    return mixed ^ mixed >> 31


def test_each_window_comes_once_an_epoch_in_another_sequence(make_floor, files):
    drawn = windows_of(make_floor(), 100, files)

    for index, windows in enumerate(WINDOWS.values()):
        own = [window for language, window in drawn if language == index]
        epochs = [own[first : first + windows] for first in range(0, len(own) - windows + 1, windows)]
        assert all(sorted(epoch) == list(range(windows)) for epoch in epochs)
        assert all(epochs[0] != epoch for epoch in epochs[1:])
    assert sum(language == 0 for language, _ in drawn) > 4 * WINDOWS["la"]


def test_languages_are_those_that_splitmix64_draws(make_floor):
    floor = make_floor()
    for batch in range(70):
        _, language = floor.rows()
        draws = [reference_mix(slot) / 2**64 for slot in range(batch * BATCH, (batch + 1) * BATCH)]
        expected = Counter(0 if draw < 0.5 else 1 if draw < 0.75 else 2 for draw in draws)
        assert Counter(language.tolist()) == expected


def test_mixing_equals_the_reference():
    values = np.array([0, 1, 2**63, 2**64 - 12], np.uint64)

    assert splitmix64(values).tolist() == [reference_mix(int(value)) for value in values]


def test_a_floor_begun_at_a_slot_goes_on_as_an_unbroken_one(make_floor):
    unbroken, later = make_floor(), make_floor(slot=90 * BATCH)
    for _ in range(90):
        unbroken.rows()

    for _ in range(5):
        for expected, found in zip(unbroken.rows(), later.rows(), strict=True):
            np.testing.assert_array_equal(expected, found)


@pytest.mark.parametrize("way", WAYS, ids=str)
def test_arrays_hold_the_fields_of_the_rows(make_floor, way: Way):
    reference, batches = make_floor(), array_batches(make_floor(), way)

    for batch in islice(batches, 5):
        rows, language = reference.rows()
        expected = host_batch(rows.astype(np.uint32), RowFormat(LENGTH), language.astype(np.int64))
        assert isinstance(batch, TokenBatch)
        for name in FIELDS:
            found = getattr(batch, name)
            assert isinstance(found, jax.Array)
            assert found.dtype == getattr(expected, name).dtype
            np.testing.assert_array_equal(found, getattr(expected, name))
    end(batches)


def test_numpy_batches_hold_the_fields_of_the_rows(make_floor):
    reference = make_floor()

    for batch in islice(host_batches(make_floor()), 5):
        rows, language = reference.rows()
        encoded = rows.astype(np.int64)
        before = np.concatenate([np.zeros_like(encoded[:, :1]), encoded[:, :-1] >> 1], axis=1)
        np.testing.assert_array_equal(batch.targets, encoded >> 1)
        np.testing.assert_array_equal(batch.is_seq_start, encoded % 2 == 1)
        np.testing.assert_array_equal(batch.inputs, np.where(encoded % 2 == 1, 0, before))
        np.testing.assert_array_equal(batch.loss_mask[:, 1:], True)
        np.testing.assert_array_equal(batch.loss_mask[:, 0], encoded[:, 0] % 2 == 1)
        np.testing.assert_array_equal(batch.language, language)
        assert (batch.targets.dtype, batch.language.dtype) == (np.uint32, np.int32)


def test_batches_that_are_kept_do_not_change(make_floor):
    kept = [floor_rows.copy() for floor_rows, _ in [make_floor().rows()]]
    floor = make_floor()
    first, _ = floor.rows()
    for _ in range(100):
        floor.rows()

    np.testing.assert_array_equal(first, kept[0])


def test_touching_reads_every_page(make_floor, files):
    values = [np.fromfile(path, "<u2")[: WINDOWS[name] * LENGTH] for name, path in files.items()]

    assert make_floor().touch() == sum(int(part[::2048].sum(dtype=np.int64)) for part in values)


def test_the_fastest_way_is_the_one_of_the_best_turn(monkeypatch: pytest.MonkeyPatch):
    """A clock that the batches move on."""
    now = [0.0]
    monkeypatch.setattr("flatmix.bench.floor.time.perf_counter", lambda: now[0])

    def batches(seconds: list[float]) -> Iterator[TokenBatch]:
        for number in range(100):
            now[0] += seconds[number % len(seconds)]
            yield TokenBatch(*[jax.numpy.zeros(1)] * 5)

    slow, fast, uneven = WAYS[:3]
    tried = [(slow, batches([4.0])), (fast, batches([2.0])), (uneven, batches([3.0, 3.0, 3.0, 9.0]))]

    way, seconds = fastest_way(tried, 3)

    assert way == fast
    assert seconds == {str(slow): 4.0, str(fast): 2.0, str(uneven): pytest.approx(5.0)}
