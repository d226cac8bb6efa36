"""rows of a step -> their tokens, from shuffle buffers that are filled as the order comes to them.

The order says which rows a buffer holds, so a buffer is a cache and nothing else: a row that is in none is read alone,
and gives the same tokens. Steps that follow each other move the buffers on: blocks are read at the pace at which rows
are used, those that are needed first before the others, and no step waits for one. A look at some other step disturbs
nothing; where a second one follows it, the buffers go there.
"""

import os
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatmix.errors import ReadError
from flatmix.loader.blocks import Blocks, blocks_of
from flatmix.loader.budget import demands_of, lanes_of, share_memory
from flatmix.loader.plan import Planner, Rows
from flatmix.loader.rows import Reading, RowSource, finish_all, start_read
from flatmix.loader.sections import Section, Sections
from flatmix.loader.staging import Staging
from flatmix.order import Order

CLOSED = "this loader is closed: make a new one"

_UNDER_WAY = 16  # blocks: enough to keep all cores and a disk busy, and to hide 50 ms of a far store
_LOOKS = 4  # of so many steps, the buffers go to that from which a second one goes on
_NEAR = 64  # steps: one so little after another look is taken for going on from it
_PLACED = 64  # lanes that a step puts into place; each takes some 0.1 ms
_AT_ONCE = 2**14  # windows of sections that a step prepares itself, some 0.5 ms; others are prepared in a thread
_OPENING = 2**11  # windows that cost as much as a section by itself
_PACE = 2  # blocks are begun for so many times the rows that are used: their reading is spread over the steps


@dataclass
class Metrics:
    """What reading has cost so far."""

    seconds_waited: float = 0.0  # in which a caller of `load` or of an iterator got no batch
    rows: int = 0  # given out
    rows_read_alone: int = 0
    bytes_read: int = 0  # of encoded tokens, before any compression
    buffers_filled: int = 0  # or parts of them, where the memory holds parts


@dataclass(eq=False)
class _Block:
    """A block on its way: the rows of a section that it brings, into memory that is not the pool's."""

    section: Section
    number: int
    rows: int
    memory: NDArray[np.uint32]
    reading: Reading
    outdated: bool = False  # begun before an error that the caller knows of

    @property
    def offsets(self) -> NDArray[np.int32]:
        """Where its rows stand in the section."""
        return self.section.blocks.result().offsets[self.number]


class Buffers:
    """The buffers of some languages (by index of `sources`) and of the streams whose rows this process has. Rows of
    other streams are read alone. `words` are a row's uint32 values, `batch` the rows of a step, `budget` bytes.

    Safe to use from several threads, which wait for each other.
    """

    def __init__(
        self, sources: Mapping[int, RowSource], order: Order, streams: frozenset[int], tokens: int, words: int,
        batch: int, budget: int,
    ):  # fmt: skip
        self.metrics = Metrics()
        self._sources, self._words, self._budget = sources, words, budget
        self._demands = demands_of(order, len(streams), tokens, batch)
        self._share = share_memory(self._demands, words, batch, budget)
        lanes = lanes_of(order, self._share, sorted(streams), self._demands)
        self._by_weight = np.argsort([-lane.weight for lane in lanes], kind="stable")
        self._planner = Planner(lanes, len(order.names), order.streams)
        self._sections = Sections(lanes, words, self._share.spare, batch)
        self._staging = Staging(words, self._share.staging)
        self._lock = threading.Lock()
        self._opener: ThreadPoolExecutor | None = None  # prepares sections: a permutation may take some milliseconds
        self._closed = False
        self._at_once = 0
        self._process = os.getpid()
        self._forget()

    def _forget(self) -> None:
        self._sections.forget()
        self._staging.forget()
        self._at: tuple[Order, int, Rows] | None = None  # the step that the buffers are at
        self._to_place = self._by_weight[:0]
        self._looks: deque[tuple[Order, int]] = deque(maxlen=_LOOKS)  # at other steps, since then
        self._opening: list[tuple[int, Future]] = []
        self._under_way: list[_Block] = []
        self._credit = 0

    def fill_rate(self) -> float:
        """The share of the buffers' rows that are there."""
        size = int(self._sections.sizes.sum())
        return min(1.0, self._sections.held / size) if size else 0.0

    def memory(self, names: Sequence[str]) -> dict[str, Any]:
        """How the memory is split, as `ShufflingLoader.memory` says; `names` are those of all languages."""
        row, result = 4 * self._words, dict[str, dict[str, int | float]]()
        for index, demand in self._demands.items():
            sizes = self._share.sizes[index]
            times = [-(-demand.windows // size) for size in sizes if size]
            result[names[index]] = {
                "whole": demand.windows // demand.buffers * demand.lanes * row,
                "held": sum(sizes) * row,
                "times_read": sum(times) / len(times) if times else 0.0,
                "read_alone": sizes.count(0) / len(sizes) if sizes else 1.0,
            }
        return {"budget": self._budget, "buffers": self._share.bytes, "languages": result}

    def fetch(
        self, order: Order, step: int, chosen: NDArray[np.int64] | None, out: NDArray[np.uint32]
    ) -> NDArray[np.int64]:
        """Fills uint32[rows, words] with the encoded tokens of the chosen rows of a step, all without it; returns the
        language of each, int64[rows]. Raises ReadError; `out` is then worthless."""
        if os.getpid() != self._process:  # the lock and the threads are the parent's
            raise ReadError("this loader was made before the process was forked: make a new one, in a spawned process")
        try:
            with self._lock:
                if self._closed:
                    raise ValueError(CLOSED)
                return self._fetch(order, step, chosen, out)
        except Exception:  # what it comes from may be mended before the next call
            with self._lock:
                self._sections.forget_errors()
                for block in self._under_way:
                    block.outdated = True
            raise
        except BaseException:  # ctrl-C, anywhere: what is held, and on its way, is not known any more
            with self._lock:
                self._forget()
            raise
        finally:
            if self._closed:
                self.close()

    def close(self) -> None:
        """Gives the memory back. Waits for no read: who is reading gives it back in the end."""
        self._closed = True
        if self._lock.acquire(blocking=False):
            try:
                self._let_go()
            finally:
                self._lock.release()

    def _let_go(self) -> None:
        self._forget()
        self._sections = Sections([], self._words, 0, 1)
        if self._opener is not None:
            self._opener.shutdown(wait=False, cancel_futures=True)

    def _fetch(
        self, order: Order, step: int, chosen: NDArray[np.int64] | None, out: NDArray[np.uint32]
    ) -> NDArray[np.int64]:
        self._at_once = _AT_ONCE
        every = self._planner.rows(order, step)
        follows = self._follow(order, step, every)
        if follows:
            self._place_lanes(order, step)
            self._store(self._done())
        rows = every if chosen is None else every.chosen(chosen)
        missing = self._sections.take(rows, np.arange(len(out)), out)
        if len(missing):
            self._read_missing(order, rows, missing, out, follows)
        if follows:
            self._store(self._done())
            self._start_blocks(len(out), late=len(missing) > 0 and bool((rows.lane[missing] >= 0).any()))
        self.metrics.rows += len(out)
        self.metrics.buffers_filled = self._sections.filled
        return rows.language

    def _read_missing(
        self, order: Order, rows: Rows, missing: NDArray[np.int64], out: NDArray[np.uint32], follows: bool
    ) -> None:
        """Waits for the blocks on their way that bring a row that is missing, and reads the other rows alone; what
        blocks are to be read next comes behind those."""
        needed, late = [], np.zeros(len(out), np.bool_)
        for block in self._under_way:
            ours = self._sections.rows_of(rows, missing, block.section, block.offsets)
            if ours.size:
                needed.append(block)
                late[ours] = True
        alone = missing[~late[missing]]
        reads = self._start_alone(order, rows, alone, out)
        if follows:
            self._sections.mark_used(rows, alone)
            self._start_blocks(0, late=True)
        self._store(needed)
        finish_all(reads)
        self._sections.raise_error(rows, missing)
        left = self._sections.take(rows, missing[late[missing]], out)
        finish_all(self._start_alone(order, rows, left, out))

    def _done(self) -> list[_Block]:
        return [block for block in self._under_way if block.reading.done()]

    def _follow(self, order: Order, step: int, rows: Rows) -> bool:
        """Moves the buffers to a step that follows the one they are at, or goes on from another look. Returns whether
        they are there."""
        if self._at is not None and self._at[0] is order:
            if step == self._at[1]:
                return True
            if step == self._at[1] + 1 and order.timeline.goes_on(step):
                for move in self._sections.pass_rows(self._at[2]):
                    self._move(*move)
                self._arrive(order, step, rows)
                return True
        begun = [*self._looks, *([self._at[:2]] if self._at is not None and step == self._at[1] + 1 else [])]
        if not any(other is order and look < step <= look + _NEAR for other, look in begun):
            self._looks.append((order, step))
            return False
        self._to_place = self._by_weight
        self._arrive(order, step, rows)
        return True

    def _place_lanes(self, order: Order, step: int) -> None:
        """Puts some more lanes where they are at a step, after the buffers have gone elsewhere: the others come with
        the next steps, or when they are passed."""
        now, self._to_place = self._to_place[:_PLACED], self._to_place[_PLACED:]
        if now.size:
            starts = self._planner.starts(order, step).chosen(now)
            for move in zip(now.tolist(), starts.section.tolist(), starts.offset.tolist(), strict=True):
                self._move(*move)

    def _arrive(self, order: Order, step: int, rows: Rows) -> None:
        self._at = order, step, rows
        self._looks.clear()

    def _move(self, number: int, section: int, offset: int) -> None:
        """Puts a lane before a row."""
        lane = self._sections.lanes[number]
        for wanted, first in self._sections.wanted(number, section, offset):
            if self._at_once > 0:
                self._at_once -= lane.size + _OPENING
                blocks: Future[Blocks] = Future()
                blocks.set_result(blocks_of(lane, wanted, first))
            else:
                if self._opener is None:
                    self._opener = ThreadPoolExecutor(1, thread_name_prefix="flatmix-buffers")
                blocks = self._opener.submit(blocks_of, lane, wanted, first)
            self._sections.hold(number, wanted, first, blocks)
            self._opening.append((number, blocks))

    def _start_alone(
        self, order: Order, rows: Rows, which: NDArray[np.int64], out: NDArray[np.uint32]
    ) -> list[Reading]:
        reads: list[Reading] = []
        own = (array[which].tolist() for array in (rows.language, rows.stream, rows.occurrence))
        places = zip(which.tolist(), *own, strict=True)
        for row, language, stream, occurrence in places:
            window = order.shuffles[language].window(stream, occurrence)
            reads.append(start_read(self._sources[language], window, out[row : row + 1]))
        self.metrics.rows_read_alone += len(which)
        self.metrics.bytes_read += len(which) * self._words * 4
        return reads

    def _store(self, blocks: list[_Block]) -> None:
        """Takes over blocks that have been read; waits for those that have not."""
        for block in blocks:
            self._under_way.remove(block)
            try:
                block.reading.result()
            except Exception as error:
                self._give_up(block.section, block.number, block.rows, block.memory, None if block.outdated else error)
                continue
            self._sections.store(block.section, block.number, block.rows, block.memory)
            self._staging.give(block.memory)
            self.metrics.bytes_read += block.memory.nbytes

    def _start_blocks(self, rows: int, late: bool) -> None:
        """Begins to read blocks, at the pace at which rows are used; as many as may be where rows are late."""
        if self._opening:
            opened = [lane for lane, blocks in self._opening if blocks.done()]
            self._opening = [(lane, blocks) for lane, blocks in self._opening if not blocks.done()]
            for lane in opened:
                self._sections.note(lane)
        self._credit = min(self._credit, 0) + _PACE * rows
        while (late or self._credit > 0) and len(self._under_way) < max(_UNDER_WAY, rows):
            section = self._sections.next_block()
            if section is None:
                return
            lane = self._sections.lanes[section.lane]
            memory = self._staging.take(lane.shuffle.block_windows)
            if memory is None:
                return
            number, count = self._sections.reserve(section)
            self._credit -= count
            try:
                reading = start_read(self._sources[lane.language], section.blocks.result().firsts[number], memory)
            except Exception as error:
                self._give_up(section, number, count, memory, error)
            else:
                self._under_way.append(_Block(section, number, count, memory, reading))

    def _give_up(
        self, section: Section, number: int, rows: int, memory: NDArray[np.uint32], error: Exception | None
    ) -> None:
        self._staging.lose(memory)
        self._sections.give_up(section, number, rows, error)
