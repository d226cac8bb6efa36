"""A run of an array -> its blocks, one after another, the next being read while one is looked at.

What cannot be read is no error here: it is a block without entries, and the chunks that fail. Memory is that of two
blocks for each run that is under way, and used again: new memory would cost as much as the reading.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import NamedTuple

import numpy as np

from flatmix.errors import ReadError
from flatmix.store.arrays import ArrayMetadata
from flatmix.store.reader import Future, TensorStoreReader

_BLOCK = 2**20  # entries that are read at once, in whole chunks: 4 or 8 MB
_LONGEST = 2**22  # where chunks are longer than that, they are decoded more than once


class Memory:
    """Buffers that were used and may be used again; for any number of threads."""

    def __init__(self) -> None:
        self._free: SimpleQueue[np.ndarray] = SimpleQueue()

    def take(self, size: int) -> np.ndarray:
        """At least so many bytes, uint8[n]."""
        try:
            buffer = self._free.get_nowait()
        except Empty:
            buffer = np.empty(0, np.uint8)
        return buffer if len(buffer) >= size else np.empty(size, np.uint8)

    def give_back(self, buffer: np.ndarray) -> None:
        self._free.put(buffer)


@dataclass(frozen=True)
class Damage:
    """Entries [start, stop) of an array that cannot be read: whole chunks, or a block that cannot be said more of."""

    start: int
    stop: int
    reason: str


class Block(NamedTuple):
    """Entries of an array from `start` on; None where some of them cannot be read."""

    start: int
    entries: np.ndarray | None
    damages: list[Damage]


def read_blocks(reader: TensorStoreReader, start: int, stop: int, memory: Memory) -> Iterator[Block]:
    """The entries [start, stop), as they are stored. Those of a block are gone when the next is asked for."""
    array = reader.metadata
    step = block_entries(array)
    spans = [(first, min(first + step, stop)) for first in range(start, stop, step)]
    if not spans:
        return
    entry = reader.dtype.itemsize * int(np.prod(array.shape[1:], dtype=np.int64))
    buffers = [memory.take(min(step, stop - start) * entry) for _ in spans[:2]]

    def begin(number: int) -> tuple[np.ndarray, Future]:
        first, last = spans[number]
        out = buffers[number % 2][: (last - first) * entry].view(reader.dtype).reshape(last - first, *array.shape[1:])
        return out, reader.read(first, last, out)

    under_way = begin(0)
    for number, (first, last) in enumerate(spans):
        out, future = under_way
        if number + 1 < len(spans):
            under_way = begin(number + 1)
        try:
            future.result()
        except ReadError:
            buffers[number % 2] = np.empty_like(buffers[number % 2])  # what failed may still be written to
            yield _read_again(reader, first, last)
        else:
            yield Block(first, out, [])
    for buffer in buffers:
        memory.give_back(buffer)


def block_entries(array: ArrayMetadata) -> int:
    """Entries of a block: whole chunks, if these are not too long. Differences are undone from a chunk's start only."""
    step = max(1, _BLOCK // array.chunk) * array.chunk
    return step if array.delta else min(step, _LONGEST)


def _read_again(reader: TensorStoreReader, start: int, stop: int) -> Block:
    """A block that failed: its damaged chunks; or the block, where what failed has passed."""
    damages = [Damage(first, last, _reason(error)) for first, last, error in reader.damaged_chunks(start, stop)]
    if damages:
        return Block(start, None, damages)
    out = np.empty((stop - start, *reader.metadata.shape[1:]), reader.dtype)
    try:
        reader.read(start, stop, out).result()
    except ReadError as error:
        return Block(start, None, [Damage(start, stop, str(error))])
    return Block(start, out, [])


def _reason(error: Exception) -> str:
    """One line of what TensorStore says, without the places in its own source."""
    return " ".join(str(error).split(" [source locations=")[0].split())
