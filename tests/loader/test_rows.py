"""Windows -> rows, over a reader that is an array in memory and finishes its reads when the test says."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flatmix.loader import rows as module
from flatmix.loader.rows import PackedRows, finish_all, start_read
from flatmix.order.windows import window_count

TOKENS = np.arange(500, 700, dtype=np.uint32)


@dataclass
class Waiting:
    """A read that fills its memory only when it is waited for."""

    reader: "ArrayReader"
    start: int
    stop: int
    out: np.ndarray

    def done(self) -> bool:
        return self.reader.arrived((self.start, self.stop))

    def result(self, timeout: float | None = None) -> None:
        self.reader.done.append((self.start, self.stop))
        if (self.start, self.stop) in self.reader.failing:
            raise OSError(f"disk at {self.start}")
        self.out[:] = TOKENS[self.start : self.stop]


@dataclass
class ArrayReader:
    arrived: Callable[[tuple[int, int]], bool] = lambda span: False
    failing: set[tuple[int, int]] = field(default_factory=set)
    started: list[tuple[int, int]] = field(default_factory=list)
    done: list[tuple[int, int]] = field(default_factory=list)

    def read(self, start: int, stop: int, out: np.ndarray) -> Waiting:
        assert out.shape == (stop - start,)
        assert out.flags.c_contiguous
        out[:] = 0xDEADBEEF
        self.started.append((start, stop))
        return Waiting(self, start, stop, out)


def rows_of(window: int, stride: int) -> tuple[PackedRows, ArrayReader, int]:
    reader = ArrayReader()
    windows = window_count(len(TOKENS), window, stride)
    return PackedRows(reader, windows, window, stride), reader, windows


def tokens_of(window: int, stride: int, windows: np.ndarray) -> np.ndarray:
    return TOKENS[(stride * windows)[:, None] + np.arange(window)]


@pytest.mark.parametrize("window", [1, 7, 8])
@pytest.mark.parametrize("stride", [1, 3, 7, 8, 11])
def test_a_run_of_windows_is_cut_from_one_read(window: int, stride: int):
    rows, reader, windows = rows_of(window, stride)
    for first in (0, 1, windows - 4):
        for count in (1, 2, 4):
            out = np.zeros((count, window), np.uint32)
            reader.started.clear()
            start_read(rows, first, out).result()
            np.testing.assert_array_equal(out, tokens_of(window, stride, np.arange(first, first + count)))
            assert reader.started == [(stride * first, stride * (first + count - 1) + window)]


@pytest.mark.parametrize("stride", [5, 8, 11])
def test_a_run_goes_on_at_the_first_window_after_the_last(stride: int):
    rows, reader, windows = rows_of(8, stride)
    out = np.zeros((5, 8), np.uint32)
    reading = start_read(rows, windows - 2, out)
    assert len(reader.started) == 2  # both at once
    reading.result()
    np.testing.assert_array_equal(out, tokens_of(8, stride, np.array([windows - 2, windows - 1, 0, 1, 2])))


def test_nothing_is_waited_for_before_it_is_asked():
    rows, reader, _ = rows_of(8, 8)
    out = np.zeros((2, 8), np.uint32)
    reading = start_read(rows, 3, out)
    assert reader.started == [(24, 40)]
    assert not reading.done()
    assert reader.done == []
    reading.result()
    assert reader.done == [(24, 40)]


@pytest.mark.parametrize("stride", [5, 8, 11])
def test_a_read_is_done_when_all_its_parts_are(stride: int):
    """Here a run that goes on at the first window, of which the second part comes before the first."""
    rows, reader, windows = rows_of(8, stride)
    out, here = np.zeros((4, 8), np.uint32), set[tuple[int, int]]()
    reader.arrived = here.__contains__
    reading = start_read(rows, windows - 2, out)
    for span in reversed(reader.started):
        assert not reading.done()
        here.add(span)
    assert reading.done()
    reading.result()
    np.testing.assert_array_equal(out, tokens_of(8, stride, np.array([windows - 2, windows - 1, 0, 1])))


@pytest.fixture
def short_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_SPAN", 20)
    monkeypatch.setattr(module, "_GAP", 8)


@pytest.mark.usefixtures("short_spans")
def test_parts_that_are_read_in_turn_go_on_whenever_somebody_asks():
    """Nobody has to wait in `result` for any of them."""
    rows, reader, windows = rows_of(8, 3)
    reader.arrived = lambda span: len(reader.started) < 4 or span == reader.started[-1]
    out = np.zeros((windows, 8), np.uint32)
    reading = start_read(rows, 0, out)
    assert len(reader.started) == 1
    assert reading.done()
    assert len(reader.started) == len(reader.done) > 5
    reading.result()
    np.testing.assert_array_equal(out, tokens_of(8, 3, np.arange(windows)))


@pytest.mark.usefixtures("short_spans")
@pytest.mark.parametrize("asked", [False, True])
def test_no_part_is_begun_after_one_has_failed(asked: bool):
    """Whether the failure is met by `done` or by `result`, it is `result` that raises it, each time."""
    rows, reader, windows = rows_of(8, 3)
    reader.arrived = lambda span: asked
    start_read(rows, 0, np.zeros((windows, 8), np.uint32)).result()
    third = reader.started[2]
    reader.failing = {third}
    reader.started.clear()
    reading = start_read(rows, 0, np.zeros((windows, 8), np.uint32))
    assert reading.done() is asked
    for _ in range(2):
        with pytest.raises(OSError, match=f"disk at {third[0]}"):
            reading.result()
        assert len(reader.started) == 3


def test_both_parts_are_waited_for_when_one_fails():
    """Both write into memory that may be used again only afterwards."""
    rows, reader, windows = rows_of(8, 8)
    reading = start_read(rows, windows - 1, np.zeros((3, 8), np.uint32))
    reader.failing = {reader.started[0]}
    with pytest.raises(OSError, match="disk at"):
        reading.result()
    assert reader.done == reader.started


class Numbered:
    """A Reading that notes that it was waited for, and fails for some numbers."""

    def __init__(self, number: int, called: list[int]):
        self.number, self.called = number, called

    def done(self) -> bool:
        return True

    def result(self) -> None:
        self.called.append(self.number)
        if self.number in (1, 3):
            raise OSError(f"disk {self.number}")


def test_every_read_is_waited_for_and_the_first_error_is_raised():
    called: list[int] = []
    with pytest.raises(OSError, match="disk 1"):
        finish_all([Numbered(number, called) for number in range(5)])
    assert called == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("stride", "span"), [(3, 20), (11, 20), (11, 40), (3, 8), (30, 20)])
def test_what_is_copied_is_read_in_spans_of_limited_length(monkeypatch: pytest.MonkeyPatch, stride: int, span: int):
    monkeypatch.setattr(module, "_SPAN", span)
    monkeypatch.setattr(module, "_GAP", 8)
    rows, reader, windows = rows_of(8, stride)
    out = np.zeros((windows, 8), np.uint32)
    start_read(rows, 0, out).result()
    np.testing.assert_array_equal(out, tokens_of(8, stride, np.arange(windows)))
    assert max(stop - start for start, stop in reader.started) <= max(span, 8)
    if stride == 30:  # the gaps are wide: nothing of them is read
        assert {stop - start for start, stop in reader.started} == {8}


@settings(deadline=None, derandomize=True, max_examples=80)
@given(
    window=st.integers(1, 12), stride=st.integers(1, 30), first=st.floats(0, 1), count=st.integers(1, 12),
    span=st.integers(1, 40), gap=st.integers(0, 20), asks=st.integers(0, 5),
)  # fmt: skip
def test_any_run_of_windows_holds_its_own_tokens(
    window: int, stride: int, first: float, count: int, span: int, gap: int, asks: int
):
    rows, reader, windows = rows_of(window, stride)
    start, count = int(first * (windows - 1)), min(count, windows)
    reader.arrived = lambda span: (span[0] + len(reader.done)) % 3 > 0
    out = np.full((count + 2, window), 77, np.uint32)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_SPAN", span)
        patch.setattr(module, "_GAP", gap)
        reading = start_read(rows, start, out[1:-1])
        for _ in range(asks):
            reading.done()
        reading.result()
    np.testing.assert_array_equal(out[1:-1], tokens_of(window, stride, np.arange(start, start + count) % windows))
    assert (out[[0, -1]] == 77).all()
