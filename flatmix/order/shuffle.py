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
from functools import partial
from itertools import pairwise
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from flatmix.order.permutation import MASK, epoch_key, fisher_yates

_BLOCK_ORDERS_KEPT = 2  # epochs of a language: streams are seldom more than one epoch apart
_BLOCK_ORDERS_BYTES = 2**24  # and more epochs, of small languages
_ENTRY_BYTES = 600  # of an entry in a cache, beside its arrays
_BUFFER_ORDERS_BYTES = 2**30  # of all languages together: 200 with 64 streams take 0.8 GB


Permutation = NDArray[np.uint16] | NDArray[np.uint32]  # the shorter type where it holds all places
Buffer = tuple[Permutation, NDArray[np.int64]]  # places in sequence, and the first window of each block
Kept = TypeVar("Kept", bound=tuple[NDArray[Any], ...])


class ArrayCache(Generic[Kept]):
    """The arrays used last: at least `least` entries, more while all fit in `budget` bytes."""

    def __init__(self, budget: int, least: int = 1):
        self._budget, self._least = budget, least
        self._lock = threading.Lock()
        self._kept: OrderedDict[Hashable, Kept] = OrderedDict()
        self._bytes = 0

    def get(self, key: Hashable, make: Callable[[], Kept]) -> Kept:
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                found = self._kept[key] = make()
                self._bytes += _size(found)
                while len(self._kept) > self._least and self._bytes > self._budget:
                    self._bytes -= _size(self._kept.popitem(last=False)[1])
            else:
                self._kept.move_to_end(key)
            return found


def _size(arrays: tuple[NDArray[Any], ...]) -> int:
    return _ENTRY_BYTES + sum(array.nbytes for array in arrays)


def buffer_cache() -> ArrayCache[Buffer]:
    """What the languages of an order share, to keep the permutations of their shuffle buffers."""
    return ArrayCache(_BUFFER_ORDERS_BYTES)


def _permutation(key: int, length: int) -> Permutation:
    shuffled = fisher_yates(key, length)
    return shuffled.astype(np.uint16) if length <= 2**16 else shuffled


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
        buffers: ArrayCache[Buffer],
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
        self._block_orders: ArrayCache[tuple[Permutation]] = ArrayCache(_BLOCK_ORDERS_BYTES, _BLOCK_ORDERS_KEPT)

    @property
    def buffer_windows(self) -> int:
        """Windows of a full buffer; no more than a stream has in an epoch."""
        return min(self.buffer_blocks, self.blocks // self.streams) * self.block_windows

    @property
    def buffers_per_epoch(self) -> int:
        """Shuffle buffers of one stream in one epoch; the last may be smaller than the others."""
        return -(-self.blocks // self.streams // self.buffer_blocks)

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
        epoch, index = np.divmod(occurrence, self.windows_per_stream)
        minipoch, index = np.divmod(index, self.buffer_windows)
        place, first = np.empty_like(index), np.empty_like(index)
        changes = (stream[1:] != stream[:-1]) | (epoch[1:] != epoch[:-1]) | (minipoch[1:] != minipoch[:-1])
        bounds = [0, *(np.flatnonzero(changes) + 1).tolist(), len(index)] if len(index) else []
        for start, stop in pairwise(bounds):  # rows that share a shuffle buffer
            places, firsts = self.buffer(int(epoch[start]), int(minipoch[start]), int(stream[start]))
            own = places[index[start:stop]]
            place[start:stop] = own
            first[start:stop] = firsts[own // self.block_windows]
        return Places(epoch, minipoch, place, (first + place % self.block_windows) % self.windows)

    def window(self, stream: int, occurrence: int) -> int:
        """The window of one occurrence, as `locate` finds those of many."""
        epoch, index = divmod(occurrence, self.windows_per_stream)
        minipoch, index = divmod(index, self.buffer_windows)
        places, firsts = self.buffer(epoch, minipoch, stream)
        block, place = divmod(int(places[index]), self.block_windows)
        return (int(firsts[block]) + place) % self.windows

    def buffer(self, epoch: int, minipoch: int, stream: int) -> Buffer:
        """A shuffle buffer, both read-only: the place of each of its windows in the sequence in which they come, and
        the first window of each of its read blocks (int64), which goes on from there, and at `windows` from 0 again."""
        return self._buffers.get(
            (self.name, epoch, minipoch, stream), lambda: self._make_buffer(epoch, minipoch, stream)
        )

    def _make_buffer(self, epoch: int, minipoch: int, stream: int) -> Buffer:
        blocks = self.blocks_in_buffer(minipoch)
        key = (epoch_key(self.key, epoch) + 1 + minipoch * self.streams + stream) & MASK
        number = (minipoch * self.buffer_blocks + np.arange(blocks)) * self.streams + stream
        block = self.block_order(epoch)[number].astype(np.int64)
        start = epoch * self.windows_per_epoch % self.windows
        firsts = (start + block * self.block_windows) % self.windows
        places = _permutation(key, blocks * self.block_windows)
        places.flags.writeable = firsts.flags.writeable = False
        return places, firsts

    def block_order(self, epoch: int) -> Permutation:
        """The permutation of an epoch's read blocks: [blocks]."""
        make = partial(_permutation, epoch_key(self.key, epoch), self.blocks)
        return self._block_orders.get(epoch, lambda: (make(),))[0]

    def blocks_in_buffer(self, minipoch: int) -> int:
        """Read blocks of buffer `minipoch` of an epoch; the last may have fewer than the others."""
        return min(self.buffer_blocks, self.blocks // self.streams - self.buffer_blocks * minipoch)
