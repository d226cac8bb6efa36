"""section -> the read blocks that bring its rows, in the sequence in which they are needed.

Costs a permutation of each of the shuffle buffers, 14 ns a window, where it is not known yet, and 10 ns a row.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from flatmix.loader import kernels
from flatmix.loader.plan import Lane


@dataclass(frozen=True)
class Blocks:
    """The read blocks of a section that hold rows of it, in the sequence in which they are needed.

    Block `i` begins at window firsts[i] of the language; its rows of the section stand at offsets[i] of the section and
    windows[i] of the block (int32[rows]).
    """

    firsts: list[int]
    offsets: list[NDArray[np.int32]]
    windows: list[NDArray[np.int32]]
    unread: list[int]  # rows of this block and those after it


def blocks_of(lane: Lane, number: int, offset: int) -> Blocks:
    """The blocks of a section, for its rows from `offset` on."""
    first, stop = lane.span(number)
    pieces: list[_Piece] = []
    at = first
    while at < stop:  # one shuffle buffer after another
        epoch, index = divmod(at, lane.shuffle.windows_per_stream)
        minipoch, index = divmod(index, lane.shuffle.buffer_windows)
        places, firsts = lane.shuffle.buffer(epoch, minipoch, lane.stream)
        own = places[index : index + stop - at]
        pieces += _by_block(own, firsts, lane.shuffle.block_windows, max(0, offset - (at - first)), at - first)
        at += len(own)
    pieces.sort(key=lambda piece: piece.need)
    unread = np.array([len(piece.offsets) for piece in pieces])[::-1].cumsum()[::-1].tolist()
    return Blocks(
        [piece.first for piece in pieces],
        [piece.offsets for piece in pieces],
        [piece.windows for piece in pieces],
        unread,
    )


class _Piece(NamedTuple):
    """A block of a section: where it is needed first, its first window, and its rows as in `Blocks`."""

    need: int
    first: int
    offsets: NDArray[np.int32]
    windows: NDArray[np.int32]


def _by_block(places: NDArray, firsts: NDArray[np.int64], block_windows: int, passed: int, before: int) -> list[_Piece]:
    """The blocks of places in a shuffle buffer, without those of the first `passed`; offsets count from `before`."""
    offsets, windows = (np.empty(len(places), np.int32) for _ in range(2))
    starts = np.empty(len(firsts) + 1, np.int64)
    kernels.sort_by_block(places, block_windows, passed, offsets, windows, starts)
    offsets += before
    bounds = starts.tolist()
    return [
        _Piece(int(offsets[start]), first, offsets[start:stop], windows[start:stop])
        for first, start, stop in zip(firsts.tolist(), bounds[:-1], bounds[1:], strict=True)
        if start < stop
    ]
