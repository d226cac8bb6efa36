"""(stream, occurrence) -> (epoch, window) of one language: read blocks in a shuffled sequence, then windows within a
shuffle buffer of several blocks.

A stream goes through its share of the language's windows once an epoch. Blocks are permuted over the whole language, so
that buffers are filled from anywhere; within a buffer single windows are permuted. Both permutations come from keys, so
any epoch and buffer is reached at once; what is kept here are permutations, and they may be forgotten at any time.
Each epoch begins at the window where the one before it ended, going round, so that no window is left out for ever.
"""

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from flatmix.order.permutation import MASK, epoch_key, fisher_yates

_BLOCK_ORDERS_KEPT = 2  # epochs of a language: streams are seldom more than one epoch apart
_BLOCK_ORDERS_BYTES = 2**24  # and more epochs, of small languages
_BUFFER_ORDERS_BYTES = 2**30  # of all languages together: 200 with 64 streams take 0.8 GB


Permutation = NDArray[np.uint16] | NDArray[np.uint32]  # the shorter type where it holds all places


class PermutationCache:
    """The permutations used last: at least `least` of them, more while all fit in `budget` bytes."""

    def __init__(self, budget: int, least: int = 1):
        self._budget, self._least = budget, least
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Permutation] = OrderedDict()
        self._bytes = 0

    def get(self, key: Hashable, make: Callable[[], NDArray[np.uint32]]) -> Permutation:
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                found = make()
                found = self._kept[key] = found.astype(np.uint16) if len(found) <= 2**16 else found
                self._bytes += found.nbytes
                while len(self._kept) > self._least and self._bytes > self._budget:
                    self._bytes -= self._kept.popitem(last=False)[1].nbytes
            else:
                self._kept.move_to_end(key)
            return found


def buffer_orders() -> PermutationCache:
    """The cache that the languages of an order share for the permutations of their shuffle buffers."""
    return PermutationCache(_BUFFER_ORDERS_BYTES)


@dataclass(frozen=True)
class Places:
    """Where the rows of one language stand: int64[rows] each.

    `place` counts the windows of a shuffle buffer as its blocks hold them, before they are shuffled.
    """

    epoch: NDArray[np.int64]
    minipoch: NDArray[np.int64]
    place: NDArray[np.int64]
    window: NDArray[np.int64]


class Shuffle:
    """The order of one language. Sizes count windows (`windows`, N; `block_windows`, Q) and read blocks (`blocks` of an
    epoch, R; `buffer_blocks`, P).

    Raises ValueError where there are fewer blocks than streams.
    """

    def __init__(
        self, name: str, windows: int, streams: int, block_windows: int, buffer_blocks: int, key: int,
        buffers: PermutationCache,
    ):  # fmt: skip
        self.name, self.windows, self.streams, self.key = name, windows, streams, key
        self.block_windows, self.buffer_blocks = block_windows, buffer_blocks
        self.blocks = windows // block_windows // streams * streams if block_windows else 0
        if self.blocks == 0:
            raise ValueError(
                f"language {name!r} has {windows} windows: {streams} streams with read blocks of "
                f"{max(1, block_windows)} windows need at least {streams * max(1, block_windows)}; take fewer streams, "
                f"smaller blocks or shorter windows, or leave the language out"
            )
        if self.blocks >= 2**32 or self.buffer_windows >= 2**32:
            raise ValueError(
                f"language {name!r} would have {self.blocks} read blocks and {self.buffer_windows} windows a shuffle "
                f"buffer: both must be below 2^32; change sequences_per_read_block or read_blocks_per_shuffle_buffer"
            )
        self._buffers = buffers
        self._block_orders = PermutationCache(_BLOCK_ORDERS_BYTES, _BLOCK_ORDERS_KEPT)

    @property
    def buffer_windows(self) -> int:
        """Windows of a full buffer; no more than a stream has in an epoch."""
        return min(self.buffer_blocks, self.blocks // self.streams) * self.block_windows

    @property
    def windows_per_stream(self) -> int:
        """E: windows of one stream in one epoch."""
        return self.blocks // self.streams * self.block_windows

    @property
    def windows_per_epoch(self) -> int:
        """R * Q: windows of all streams in one epoch."""
        return self.blocks * self.block_windows

    @property
    def left_out(self) -> int:
        """Windows that an epoch leaves out, others each time."""
        return self.windows - self.windows_per_epoch

    def locate(self, stream: NDArray[np.int64], occurrence: NDArray[np.int64]) -> Places:
        """Where the given occurrences (int64[rows]) of the given streams (int64[rows]) stand."""
        per_stream = self.windows_per_stream
        epoch, index = np.divmod(occurrence, per_stream)
        minipoch, index = np.divmod(index, self.buffer_windows)
        place = np.empty_like(index)
        block = np.empty_like(index)
        runs = np.flatnonzero((np.diff(stream) != 0) | (np.diff(epoch) != 0) | (np.diff(minipoch) != 0)) + 1
        bounds = [0, *runs.tolist(), len(index)] if len(index) else []
        for start, stop in pairwise(bounds):  # rows that share a shuffle buffer
            e, c, r = int(epoch[start]), int(minipoch[start]), int(stream[start])
            y = self.window_order(e, c, r)[index[start:stop]].astype(np.int64)
            place[start:stop] = y
            block[start:stop] = self._block_numbers(e, c, r, y // self.block_windows)
        base = epoch * (self.windows_per_epoch % self.windows) % self.windows
        window = (base + block * self.block_windows + place % self.block_windows) % self.windows
        return Places(epoch, minipoch, place, window)

    def window_order(self, epoch: int, minipoch: int, stream: int) -> Permutation:
        """The permutation of a buffer: [windows of that buffer], the place of each of its rows in sequence."""
        key = (epoch_key(self.key, epoch) + 1 + minipoch * self.streams + stream) & MASK
        length = self.blocks_in_buffer(minipoch) * self.block_windows
        return self._buffers.get((key, length), lambda: fisher_yates(key, length))

    def block_order(self, epoch: int) -> Permutation:
        """The permutation of an epoch's read blocks: [blocks]."""
        return self._block_orders.get(epoch, lambda: fisher_yates(epoch_key(self.key, epoch), self.blocks))

    def blocks_in_buffer(self, minipoch: int) -> int:
        """Read blocks of buffer `minipoch` of an epoch; the last may have fewer than the others."""
        return min(self.buffer_blocks, self.blocks // self.streams - self.buffer_blocks * minipoch)

    def first_windows(self, epoch: int, minipoch: int, stream: int) -> NDArray[np.int64]:
        """The first window of each read block of a buffer: int64[blocks of that buffer].

        A block goes on from there, and at `windows` from 0 again.
        """
        block = self._block_numbers(epoch, minipoch, stream, np.arange(self.blocks_in_buffer(minipoch)))
        start = epoch * self.windows_per_epoch % self.windows
        return (start + block * self.block_windows) % self.windows

    def _block_numbers(self, epoch: int, minipoch: int, stream: int, block: NDArray[np.int64]) -> NDArray[np.int64]:
        """Which read blocks of the epoch the blocks of a buffer are."""
        index = (minipoch * self.buffer_blocks + block) * self.streams + stream
        return self.block_order(epoch)[index].astype(np.int64)
