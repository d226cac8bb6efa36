"""Windows -> rows, over a reader that is an array in memory."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import pytest

from flatmix.loader import rows as module
from flatmix.loader.rows import PackedRows, finish_all, start_in_turn, start_read
from flatmix.order.windows import window_count

TOKENS = np.arange(500, 700, dtype=np.uint32)


@dataclass
class Waiting:
    """A read that fills its memory only when it is waited for."""

    start: int
    stop: int
    out: np.ndarray
    done: list[tuple[int, int]]

    def result(self, timeout: float | None = None) -> None:
        self.out[:] = TOKENS[self.start : self.stop]
        self.done.append((self.start, self.stop))


@dataclass
class ArrayReader:
    started: list[tuple[int, int]] = field(default_factory=list)
    done: list[tuple[int, int]] = field(default_factory=list)

    def read(self, start: int, stop: int, out: np.ndarray) -> Any:
        assert out.shape == (stop - start,)
        assert out.flags.c_contiguous
        self.started.append((start, stop))
        return Waiting(start, stop, out, self.done)


def rows_of(window: int, stride: int) -> tuple[PackedRows, ArrayReader, int]:
    reader = ArrayReader()
    windows = window_count(len(TOKENS), window, stride)
    return PackedRows(reader, windows, window, stride), reader, windows


@pytest.mark.parametrize("window", [1, 7, 8])
@pytest.mark.parametrize("stride", [1, 3, 7, 8, 11])
def test_a_run_of_windows_is_cut_from_one_read(window: int, stride: int):
    rows, reader, windows = rows_of(window, stride)
    for first in (0, 1, windows - 4):
        for count in (1, 2, 4):
            out = np.zeros((count, window), np.uint32)
            reader.started.clear()
            start_read(rows, first, out)()
            starts = stride * np.arange(first, first + count)
            np.testing.assert_array_equal(out, TOKENS[starts[:, None] + np.arange(window)])
            assert reader.started == [(stride * first, stride * (first + count - 1) + window)]


@pytest.mark.parametrize("stride", [5, 8, 11])
def test_a_run_goes_on_at_the_first_window_after_the_last(stride: int):
    rows, reader, windows = rows_of(8, stride)
    out = np.zeros((5, 8), np.uint32)
    start_read(rows, windows - 2, out)()
    starts = stride * np.array([windows - 2, windows - 1, 0, 1, 2])
    np.testing.assert_array_equal(out, TOKENS[starts[:, None] + np.arange(8)])
    assert len(reader.started) == 2


def test_nothing_is_waited_for_before_it_is_asked():
    rows, reader, _ = rows_of(8, 8)
    out = np.zeros((2, 8), np.uint32)
    finish = start_read(rows, 3, out)
    assert reader.started == [(24, 40)]
    assert reader.done == []
    finish()
    assert reader.done == [(24, 40)]


def test_every_read_is_waited_for_and_the_first_error_is_raised():
    called: list[int] = []

    def finish(number: int) -> None:
        called.append(number)
        if number in (1, 3):
            raise OSError(f"disk {number}")

    with pytest.raises(OSError, match="disk 1"):
        finish_all([lambda number=number: finish(number) for number in range(5)])
    assert called == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("stride", "span"), [(3, 20), (11, 20), (11, 40), (3, 8), (30, 20)])
def test_what_is_copied_is_read_in_spans_of_limited_length(monkeypatch: pytest.MonkeyPatch, stride: int, span: int):
    monkeypatch.setattr(module, "_SPAN", span)
    monkeypatch.setattr(module, "_GAP", 8)
    rows, reader, windows = rows_of(8, stride)
    out = np.zeros((windows, 8), np.uint32)
    start_read(rows, 0, out)()
    np.testing.assert_array_equal(out, TOKENS[stride * np.arange(windows)[:, None] + np.arange(8)])
    assert max(stop - start for start, stop in reader.started) <= max(span, 8)
    if stride == 30:  # the gaps are wide: nothing of them is read
        assert {stop - start for start, stop in reader.started} == {8}


def test_of_many_reads_a_few_are_under_way_at_a_time():
    begun, done = [], []

    def start(number: int) -> Any:
        begun.append(number)
        assert len(begun) - len(done) <= 32
        return lambda: done.append(number)

    finish = start_in_turn(partial(start, number) for number in range(100))
    assert begun == list(range(32))
    finish()
    assert begun == done == list(range(100))
