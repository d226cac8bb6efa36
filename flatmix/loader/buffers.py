"""rows -> their tokens, from shuffle buffers that are filled as the order comes to them.

The order says which rows a buffer holds, so a buffer is a cache and nothing else: a row that is in none is read alone,
and gives the same tokens. A buffer is filled, all its blocks at once, when rows of it are asked for a second time; the
first batch waits for no buffer, and a look at some far step disturbs none. Languages share the memory budget in the
sequence of their weights; one whose buffers do not fit is read through, row by row.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from flatmix.loader.rows import Finish, RowSource, finish_all, start_in_turn, start_read
from flatmix.order import Addresses
from flatmix.order.shuffle import Shuffle


@dataclass
class Metrics:
    """What reading has cost so far."""

    seconds_waited: float = 0.0  # in which a caller of `load` or of an iterator got no batch
    rows: int = 0  # given out
    rows_read_alone: int = 0
    bytes_read: int = 0  # of encoded tokens, before any compression
    buffers_filled: int = 0


@dataclass
class _Buffer:
    """The rows of one shuffle buffer; its memory is used again for the next one."""

    memory: NDArray[np.uint32]  # uint32[windows of a full buffer, words]
    asked: tuple[int, int] = (-1, -1)  # the (epoch, minipoch) last asked for
    held: tuple[int, int] = (-1, -1)  # the one that memory holds


@dataclass
class Buffers:
    """The buffers of some languages (by index) and of the streams whose rows this process has; `words` are a row's
    uint32 values. Rows of other streams are read alone.

    `budget` is in bytes. Safe to use from several threads, which wait for each other.
    """

    sources: Mapping[int, RowSource]
    shuffles: Mapping[int, Shuffle]
    weights: Mapping[int, float]
    streams: frozenset[int]
    words: int
    budget: int
    metrics: Metrics = field(default_factory=Metrics)

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._buffers: dict[tuple[int, int], _Buffer] = {}
        self._closed = False
        self.buffered = self._languages_that_fit()

    def _languages_that_fit(self) -> frozenset[int]:
        left, fitting = self.budget, set[int]()
        for language in sorted(self.shuffles, key=lambda index: (-self.weights[index], index)):
            need = self.shuffles[language].buffer_windows * self.words * 4 * len(self.streams)
            if need <= left:
                left -= need
                fitting.add(language)
        return frozenset(fitting)

    def fill_rate(self) -> float:
        """The share of the buffers' memory that holds rows of the buffer last asked for; 0.0 where there is none."""
        buffers = list(self._buffers.values())
        return sum(buffer.held == buffer.asked != (-1, -1) for buffer in buffers) / len(buffers) if buffers else 0.0

    def fetch(self, rows: Addresses, out: NDArray[np.uint32]) -> None:
        """Fills uint32[rows, words] with the encoded tokens of the rows. Raises ReadError; `out` is then worthless."""
        with self._lock:
            fill, alone, ready = self._sort_out(rows)
            finish_all([*fill, *self._start_alone(rows, alone, out)])
            for row, buffer in ready:
                out[row] = buffer.memory[rows.place[row]]
            self.metrics.rows += len(out)
            self.metrics.rows_read_alone += len(alone)
            self.metrics.bytes_read += len(alone) * self.words * 4

    def close(self) -> None:
        """Gives the memory back. Waits for no read, so a buffer that is being filled keeps its own until then."""
        self._closed = True
        self._buffers.clear()

    def _sort_out(self, rows: Addresses) -> tuple[list[Finish], list[int], list[tuple[int, _Buffer]]]:
        """Starts the buffers whose turn it is. Returns their reads, the rows to read alone, and rows with a buffer."""
        fills: list[Finish] = []
        alone: list[int] = []
        ready: list[tuple[int, _Buffer]] = []
        usable: dict[tuple[int, int], tuple[_Buffer, tuple[int, int]]] = {}  # with what each holds after the fills
        addresses = zip(
            rows.language.tolist(), rows.stream.tolist(), rows.epoch.tolist(), rows.minipoch.tolist(), strict=True
        )
        for row, (language, stream, epoch, minipoch) in enumerate(addresses):
            if language not in self.buffered or stream not in self.streams:
                alone.append(row)
                continue
            key, wanted = (language, stream), (epoch, minipoch)
            if key not in usable:
                buffer = self._buffers.get(key) or self._new_buffer(key)
                usable[key] = buffer, buffer.held
                if buffer.asked == wanted != buffer.held:
                    fills.append(self._start_fill(key, buffer, wanted))
                    usable[key] = buffer, wanted
            buffer, held = usable[key]
            buffer.asked = wanted
            if held == wanted:
                ready.append((row, buffer))
            else:
                alone.append(row)
        return fills, alone, ready

    def _new_buffer(self, key: tuple[int, int]) -> _Buffer:
        buffer = _Buffer(np.empty((self.shuffles[key[0]].buffer_windows, self.words), np.uint32))
        if not self._closed:
            self._buffers[key] = buffer
        return buffer

    def _start_fill(self, key: tuple[int, int], buffer: _Buffer, wanted: tuple[int, int]) -> Finish:
        """Starts to read all blocks of a buffer, each to its place.

        Until they are there the buffer is none of ours: whatever goes wrong, a read may still write into its memory.
        """
        language, stream = key
        source, size = self.sources[language], self.shuffles[language].block_windows
        firsts = self.shuffles[language].first_windows(*wanted, stream).tolist()
        self._buffers.pop(key, None)
        reads = start_in_turn(
            partial(start_read, source, first, buffer.memory[number * size : (number + 1) * size])
            for number, first in enumerate(firsts)
        )

        def finish() -> None:
            reads()
            buffer.held = wanted
            if not self._closed:
                self._buffers[key] = buffer
            self.metrics.buffers_filled += 1
            self.metrics.bytes_read += len(firsts) * size * self.words * 4

        return finish

    def _start_alone(self, rows: Addresses, alone: list[int], out: NDArray[np.uint32]) -> list[Finish]:
        languages, windows = rows.language.tolist(), rows.window.tolist()
        return [start_read(self.sources[languages[row]], windows[row], out[row : row + 1]) for row in alone]
