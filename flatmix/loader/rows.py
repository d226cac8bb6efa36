"""window -> its encoded tokens, in memory that the caller owns.

A run of consecutive windows is one span of the store where windows lie end to end, so that a read block comes with one
read, straight to its place. Overlapping windows, or windows with gaps, are read as one span too and copied from there.
"""

from collections.abc import Callable, Iterable

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from flatmix.order.windows import window_span
from flatmix.store.reader import Reader

Finish = Callable[[], None]


class PackedRows:
    """The windows of one split: `window` tokens each, one every `stride` tokens."""

    def __init__(self, reader: Reader, windows: int, window: int, stride: int):
        self._reader, self._windows, self._window, self._stride = reader, windows, window, stride

    def start_read(self, first: int, rows: NDArray[np.uint32]) -> Finish:
        """Starts to read windows first, first + 1, ... into uint32[count, window], going on at 0 after the last.

        Returns what waits for them; it raises the ReadError of a read that failed.
        """
        until_end = min(len(rows), self._windows - first)
        finishes = [self._start_span(first, rows[:until_end])]
        if until_end < len(rows):
            finishes.append(self._start_span(0, rows[until_end:]))
        return lambda: finish_all(finishes)

    def _start_span(self, first: int, rows: NDArray[np.uint32]) -> Finish:
        start, _ = window_span(first, self._window, self._stride)
        _, stop = window_span(first + len(rows) - 1, self._window, self._stride)
        if stop - start == rows.size:
            return self._reader.read(start, stop, rows.reshape(-1)).result
        span = np.empty(stop - start, np.uint32)
        future = self._reader.read(start, stop, span)

        def finish() -> None:
            future.result()
            step = span.itemsize
            rows[:] = as_strided(span, rows.shape, (self._stride * step, step), writeable=False)

        return finish


def finish_all(finishes: Iterable[Finish]) -> None:
    """Waits for every read, also after one has failed, since all write into memory; then raises the first error."""
    error: Exception | None = None
    for finish in finishes:
        try:
            finish()
        except Exception as failed:
            error = error or failed
    if error is not None:
        raise error
