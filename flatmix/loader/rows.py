"""window -> its encoded tokens, in memory that the caller owns.

A run of consecutive windows is one span of the store where windows lie end to end, so that a read block comes with one
read, straight to its place. Overlapping windows, windows with gaps and documents, one a row, are read as spans of
neighbours and copied from there, a limited span at a time; what lies between two rows is read where it is less than a
chunk, and left out where it is more.
"""

from collections.abc import Callable, Iterable
from functools import partial
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from flatmix.order.windows import window_span
from flatmix.store import Split
from flatmix.store.format import SEQ_STARTS
from flatmix.store.reader import Future, Reader
from flatmix.store.split import ArrayRead

_SPAN = 2**18  # tokens of several rows that are read at once to be copied: 1 MB beside the rows for each read
_GAP = 2**14  # tokens between two documents' parts that are sooner read than left out: those of a chunk


class Reading(Protocol):
    """Rows that are under way. Until `result` has returned, and after an error, a read may still write into them."""

    def done(self) -> bool:
        """Whether `result` would wait for nothing."""
        ...

    def result(self) -> None:
        """Waits for the rows; raises the ReadError of a read that failed."""
        ...


class RowSource(Protocol):
    """The windows of one split. `windows` says how many there are, for those that go on at 0 after the last."""

    windows: int

    def start_span(self, first: int, rows: NDArray[np.uint32]) -> Reading:
        """Starts to read windows first, first + 1, ... into uint32[count, words]."""
        ...


def start_read(source: RowSource, first: int, rows: NDArray[np.uint32]) -> Reading:
    """Starts to read windows first, first + 1, ... into uint32[count, words], going on at 0 after the last."""
    until_end = min(len(rows), source.windows - first)
    if until_end == len(rows):
        return source.start_span(first, rows)
    return _Both(source.start_span(first, rows[:until_end]), source.start_span(0, rows[until_end:]))


class PackedRows:
    """Windows of `window` tokens, one every `stride` tokens, over documents laid end to end."""

    def __init__(self, reader: Reader, windows: int, window: int, stride: int):
        self.windows = windows
        self._reader, self._window, self._stride = reader, window, stride

    def start_span(self, first: int, rows: NDArray[np.uint32]) -> Reading:
        if self._stride == self._window or len(rows) == 1:
            return self._start_part(first, rows)
        near = self._stride - self._window <= _GAP
        step = max(1, (_SPAN - self._window) // self._stride + 1) if near else 1
        parts = (partial(self._start_part, first + at, rows[at : at + step]) for at in range(0, len(rows), step))
        return _InTurn(parts)

    def _start_part(self, first: int, rows: NDArray[np.uint32]) -> Reading:
        start, _ = window_span(first, self._window, self._stride)
        _, stop = window_span(first + len(rows) - 1, self._window, self._stride)
        if stop - start == rows.size:
            return self._reader.read(start, stop, rows.reshape(-1))
        span = np.empty(stop - start, np.uint32)

        def copy() -> None:
            step = span.itemsize
            rows[:] = as_strided(span, rows.shape, (self._stride * step, step), writeable=False)

        return _Copied(self._reader.read(start, stop, span), copy)


class DocumentRows:
    """One document a row: its first `window` tokens, 0 after its end, and as the last word how many are real."""

    def __init__(self, split: Split, reader: Reader, window: int, threads: int | None = None):
        self.windows = split.documents
        self._split, self._reader, self._window = split, reader, window
        self._starts = split.array_reader(SEQ_STARTS, threads)

    def start_span(self, first: int, rows: NDArray[np.uint32]) -> Reading:
        read = self._split.start_seq_starts(first, first + len(rows) + 1, self._starts)
        return _After(read, lambda: self._start_documents(read.result().astype(np.int64), rows))

    def _start_documents(self, starts: NDArray[np.int64], rows: NDArray[np.uint32]) -> Reading:
        lengths = np.minimum(np.diff(starts), self._window)
        stops = starts[:-1] + lengths
        rows[:, self._window] = lengths
        parts = (
            partial(self._start_part, rows[a:b], starts[a:b], lengths[a:b], int(stops[b - 1]))
            for a, b in pairwise(_neighbours(starts[:-1].tolist(), stops.tolist()))
        )
        return _InTurn(parts)

    def _start_part(
        self, rows: NDArray[np.uint32], starts: NDArray[np.int64], lengths: NDArray[np.int64], stop: int
    ) -> Reading:
        first = int(starts[0])
        span = np.empty(stop - first, np.uint32)

        def copy() -> None:
            for row, offset, length in zip(rows, (starts - first).tolist(), lengths.tolist(), strict=True):
                row[:length] = span[offset : offset + length]
                row[length : self._window] = 0

        return _Copied(self._reader.read(first, stop, span), copy)


def _neighbours(starts: list[int], stops: list[int]) -> list[int]:
    """Where to divide documents, 0 and their count included: each group a span of limited length without wide gaps."""
    bounds = [0]
    for number in range(1, len(starts)):
        if starts[number] - stops[number - 1] > _GAP or stops[number] - starts[bounds[-1]] > _SPAN:
            bounds.append(number)
    return [*bounds, len(starts)]


class _Copied:
    """A read of a span, and what copies the rows out of it."""

    def __init__(self, future: Future, copy: Callable[[], None]):
        self._future, self._copy = future, copy

    def done(self) -> bool:
        return self._future.done()

    def result(self) -> None:
        self._future.result()
        self._copy()


class _Both:
    """Two reads at once."""

    def __init__(self, one: Reading, other: Reading):
        self._reads = one, other

    def done(self) -> bool:
        return all(read.done() for read in self._reads)

    def result(self) -> None:
        finish_all(self._reads)


class _After:
    """A read that can be begun when something else has been read."""

    def __init__(self, first: ArrayRead, then: Callable[[], Reading]):
        self._first, self._then = first, then
        self._read: Reading | None = None
        self._error: Exception | None = None

    def done(self) -> bool:
        if self._read is None and self._error is None and self._first.done():
            try:
                self._read = self._then()
            except Exception as error:  # for `result` to raise
                self._error = error
        return self._error is not None or (self._read is not None and self._read.done())

    def result(self) -> None:
        if self._error is not None:
            raise self._error
        if self._read is None:
            self._read = self._then()
        self._read.result()


class _InTurn:
    """Reads of which each begins when the one before it is done, so that what they hold beside the rows stays small.

    After an error no more begin.
    """

    def __init__(self, starts: Iterable[Callable[[], Reading]]):
        self._left = iter(starts)
        self._read = self._next()
        self._error: Exception | None = None

    def done(self) -> bool:
        while self._read is not None and self._read.done():
            try:
                self._go_on(self._read)
            except Exception as error:  # for `result` to raise
                self._error, self._read = error, None
        return self._read is None

    def result(self) -> None:
        while self._read is not None:
            self._go_on(self._read)
        if self._error is not None:
            raise self._error

    def _go_on(self, read: Reading) -> None:
        read.result()
        self._read = self._next()

    def _next(self) -> Reading | None:
        start = next(self._left, None)
        return None if start is None else start()


def finish_all(reads: Iterable[Reading]) -> None:
    """Waits for every read, also after one has failed, since all write into memory; then raises the first error."""
    error: Exception | None = None
    for read in reads:
        try:
            read.result()
        except Exception as failed:
            error = error or failed
    if error is not None:
        raise error
