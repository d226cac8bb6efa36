"""where the rows of a table lie -> stretches of about equal bytes, and how far each row reaches."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

from flatmix.convert.inputs import Cut

BATCH_ROWS = 1024  # decoded at once, at most
_BATCH_BYTES = 2**22  # decoded at once, about


class Layout(NamedTuple):
    """After row_ends[i] rows byte_ends[i] bytes have passed; both begin with 0, and between two of them rows are taken
    to be equally long."""

    row_ends: np.ndarray
    byte_ends: np.ndarray

    @property
    def rows(self) -> int:
        return int(self.row_ends[-1])

    def bytes_before(self, start: int, stop: int) -> np.ndarray:
        """About how many bytes lie before each of the rows [start, stop), int64[stop - start]."""
        return np.interp(np.arange(start, stop), self.row_ends, self.byte_ends).astype(np.int64)


def even_layout(rows: int, size: int) -> Layout:
    """All rows equally long."""
    return Layout(np.array([0, rows]), np.array([0, size]))


def batch_rows(rows: int, size: int) -> int:
    """How many rows to decode at once where so many have so many bytes."""
    return max(1, min(BATCH_ROWS, _BATCH_BYTES * rows // max(1, size)))


def cut_rows(layout: Layout, size: int, whole: bool) -> list[Cut]:
    """Stretches of about `size` bytes that end where the layout has an end, and between two of those that are farther
    apart unless `whole`; at least one."""
    stops: list[int] = []
    begin = 0
    for row, byte in zip(*_ends(layout, size, whole), strict=True):
        if byte - begin >= size / 2:
            stops.append(int(row))
            begin = byte
    if not stops or stops[-1] != layout.rows:
        stops.append(layout.rows)
    passed = [int(layout.bytes_before(row, row + 1)[0]) for row in [0, *stops]]
    sizes = [after - before for before, after in pairwise(passed)]
    return [Cut(*one) for one in zip([0, *stops[:-1]], stops, sizes, strict=True)]


def _ends(layout: Layout, size: int, whole: bool) -> tuple[list[int], list[int]]:
    """The rows at which a stretch may end, and the bytes before them."""
    if whole:
        return layout.row_ends[1:].tolist(), layout.byte_ends[1:].tolist()
    rows: list[int] = []
    for (first, begin), (last, end) in pairwise(zip(layout.row_ends.tolist(), layout.byte_ends.tolist(), strict=True)):
        parts = max(1, min(last - first, round((end - begin) / size)))
        rows += [first + (last - first) * part // parts for part in range(1, parts + 1)]
    return rows, np.interp(rows, layout.row_ends, layout.byte_ends).astype(np.int64).tolist()
