"""The sections of shuffle buffers that are held: their rows, in cells of one pool of memory.

A lane holds the section that it is at and, as the cells of that one become free, more and more of the next. A cell
that the order has passed serves any lane: the memory stays near that of one section a lane, and no buffer waits for
another to be used up.
"""

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flatmix.loader import kernels
from flatmix.loader.blocks import Blocks
from flatmix.loader.plan import Lane, Rows

_STEPS_AHEAD = 4  # by which a section should be complete, where a block is less


@dataclass(eq=False)
class Section:
    """A section of a lane's shuffle buffers; `next` is the block to be read next."""

    lane: int
    number: int
    blocks: Future[Blocks]
    next: int = 0
    being_filled: bool = False  # a block was begun, and one is left to be read


class Sections:
    """The pool, and what each lane holds of it. `rows_a_step` are those of all lanes; `spare` cells may be borrowed.

    Not safe to use from several threads at once.
    """

    def __init__(self, lanes: Sequence[Lane], words: int, spare: int, rows_a_step: int):
        self.lanes = lanes
        self.sizes = np.array([lane.size for lane in lanes], np.int64)
        self._spare = spare
        self.filled = 0  # sections so far
        self.pool = np.empty((int(self.sizes.sum()) + spare if lanes else 0, words), np.uint32)
        self._weights = np.array([lane.weight for lane in lanes], np.float64)
        self._ahead = np.array(
            [max(lane.shuffle.block_windows, _STEPS_AHEAD * rows_a_step * lane.weight) for lane in lanes], np.int64
        )
        ends = self.sizes.repeat(2).cumsum()
        self._base = (ends - self.sizes.repeat(2)).reshape(-1, 2)
        self._cells = np.empty(2 * int(self.sizes.sum()), np.int32)
        self._free = np.empty(len(self.pool), np.int32)
        self.forget()

    def forget(self) -> None:
        """Holds nothing any more."""
        lanes = len(self.lanes)
        self._cells[:] = kernels.USED
        self._free[:] = np.arange(len(self._free))[::-1]  # the first cells are taken first
        self._free_count = len(self._free)
        self._owner = np.full((lanes, 2), -1)
        self._length, self._reached = np.zeros((lanes, 2), np.int64), np.zeros((lanes, 2), np.int64)
        self._turn, self._held, self._reserved, self._todo, self._unread, self._due = np.zeros((6, lanes), np.int64)
        self._errors: list[tuple[Section, NDArray[np.int32], Exception]] = []  # of blocks: where their rows stand
        self._moved = np.zeros(lanes, np.bool_)
        self._sections: list[list[Section | None]] = [[None, None] for _ in self.lanes]

    @property
    def held(self) -> int:
        """Rows held."""
        return int(self._held.sum())

    def take(self, rows: Rows, which: NDArray[np.int64], out: NDArray[np.uint32]) -> NDArray[np.int64]:
        """Copies those of the rows that are held to their place in `out`; returns the others of `which`."""
        missing = np.empty(len(which), np.int64)
        count = kernels.take(
            which, rows.lane, rows.section, rows.offset, self._owner, self._base, self._cells, self.pool, out, missing
        )
        return missing[:count]

    def mark_used(self, rows: Rows, missing: NDArray[np.int64]) -> None:
        """Notes that rows which were missing have been read alone, and need no block any more."""
        kernels.mark_used(missing, rows.lane, rows.section, rows.offset, self._owner, self._base, self._cells)

    def pass_rows(self, rows: Rows) -> list[tuple[int, int, int]]:
        """Frees the cells of all rows of a step. Returns the lanes that come to another section, as (lane, section,
        offset) of their next row."""
        self._free_count = kernels.release(
            rows.lane, rows.section, rows.offset, self._owner, self._base, self._length, self._cells, self._free,
            self._free_count, self._held, self._reached, self._moved,
        )  # fmt: skip
        moved = np.flatnonzero(self._moved).tolist()
        self._moved[moved] = False
        result: list[tuple[int, int, int]] = []
        for lane in moved:
            last = int(np.flatnonzero(rows.lane == lane)[-1])
            section, offset = int(rows.section[last]), int(rows.offset[last]) + 1
            first, stop = self.lanes[lane].span(section)
            if offset == stop - first:
                section, offset = self.lanes[lane].following(section), 0
            result.append((lane, section, offset))
        return result

    def wanted(self, lane: int, section: int, offset: int) -> list[tuple[int, int]]:
        """Puts a lane before one of its rows, keeping what it holds from there on. Returns the sections that it does
        not hold yet, with the first offset of need; `hold` is to be called for each of them."""
        own = self._sections[lane]
        keep = {section: offset, self.lanes[lane].following(section): 0}
        for side, held in enumerate(own):
            passed = keep.get(int(self._owner[lane, side]))
            if held is not None and (passed is None or passed < self._reached[lane, side]):
                self._drop(lane, side)
            elif held is not None and passed:
                self._pass_over(lane, side, passed)
                self._reached[lane, side] = passed
        numbers = [held.number for held in own if held]
        if section in numbers:
            self._turn[lane] = 0 if own[0] and own[0].number == section else 1
        else:
            self._turn[lane] = 0 if own[0] is None else 1
        self.note(lane)
        return [(number, first) for number, first in keep.items() if number not in numbers]

    def hold(self, lane: int, section: int, offset: int, blocks: Future[Blocks]) -> None:
        """Takes up a section, from `offset` on."""
        own = self._sections[lane]
        turn = int(self._turn[lane])
        side = turn if own[turn] is None else 1 - turn
        own[side] = Section(lane, section, blocks)
        first, stop = self.lanes[lane].span(section)
        start = int(self._base[lane, side])
        self._cells[start : start + offset] = kernels.USED
        self._cells[start + offset : start + stop - first] = kernels.MISSING
        self._owner[lane, side], self._length[lane, side], self._reached[lane, side] = section, stop - first, offset

    def note(self, lane: int) -> Section | None:
        """Notes which block a lane reads next, one of its own section first, then of the one after it; returns the
        section, None where there is no block to read."""
        self._todo[lane] = 0
        turn = int(self._turn[lane])
        for side in (turn, 1 - turn):
            section = self._sections[lane][side]
            if section is None or not section.blocks.done():
                return None
            blocks = section.blocks.result()
            while section.next < len(blocks.firsts):
                offsets = blocks.offsets[section.next]
                todo = kernels.count_missing(self._cells, self._base[lane, side], offsets)
                if todo:
                    after = 0 if side == turn else int(self._length[lane, turn])
                    self._todo[lane], self._unread[lane] = todo, blocks.unread[section.next]
                    self._due[lane] = after + int(offsets[0])
                    return section
                section.next += 1
            self.filled += section.being_filled
            section.being_filled = False
        return None

    def next_block(self) -> Section | None:
        """The section whose next block is to be read first, of those that may be read now."""
        spare = self._free_count - int(self._reserved.sum())
        while True:
            lane = kernels.most_urgent(
                self._todo, self._unread, self._due, self._turn, self._reached, self._held, self._reserved, self.sizes,
                self._ahead, self._weights, spare, self._spare,
            )  # fmt: skip
            if lane < 0:
                return None
            todo, due = self._todo[lane], self._due[lane]
            section = self.note(lane)
            if section is not None and (self._todo[lane], self._due[lane]) == (todo, due):
                return section

    def reserve(self, section: Section) -> tuple[int, int]:
        """Takes the next block of a section in hand. Returns its number and the rows to come, for which there will be
        cells until `store` or `give_up`."""
        number, rows = section.next, int(self._todo[section.lane])
        section.next += 1
        section.being_filled = True
        self._reserved[section.lane] += rows
        self.note(section.lane)
        return number, rows

    def store(self, section: Section, number: int, rows: int, block: NDArray[np.uint32]) -> None:
        """Takes over the rows of a block that has been read."""
        lane = section.lane
        self._reserved[lane] -= rows
        side = next((side for side, own in enumerate(self._sections[lane]) if own is section), None)
        if side is None:  # the lane has gone elsewhere
            return
        blocks = section.blocks.result()
        self._free_count = kernels.store(
            block, blocks.windows[number], blocks.offsets[number], self._cells, self._base[lane, side], lane, self.pool,
            self._free, self._free_count, self._held,
        )  # fmt: skip

    def give_up(self, section: Section, number: int, rows: int, error: Exception | None) -> None:
        """A block could not be read: its error is that of the first of its rows that is asked for; with None, they are
        only read alone."""
        self._reserved[section.lane] -= rows
        if error is not None:
            self._errors.append((section, section.blocks.result().offsets[number], error))

    def raise_error(self, rows: Rows, missing: NDArray[np.int64]) -> None:
        """Raises the error of a block that missing rows are in. Errors are raised once: what is asked for again is read
        anew."""
        found, kept = [], []
        for entry in self._errors:
            section, offsets, error = entry
            if self.rows_of(rows, missing, section, offsets).size:
                found.append(error)
            elif section in self._sections[section.lane]:
                kept.append(entry)
        self._errors = kept
        if found:
            raise found[0]

    def forget_errors(self) -> None:
        """Lets all rows of blocks that could not be read be read alone."""
        self._errors = []

    def rows_of(
        self, rows: Rows, which: NDArray[np.int64], section: Section, offsets: NDArray[np.int32]
    ) -> NDArray[np.int64]:
        """Those of the rows that stand at one of the offsets of a section."""
        ours = which[(rows.lane[which] == section.lane) & (rows.section[which] == section.number)]
        return ours[np.isin(rows.offset[ours], offsets)] if ours.size else ours

    def _drop(self, lane: int, side: int) -> None:
        self._pass_over(lane, side, int(self._length[lane, side]))
        self._sections[lane][side] = None
        self._owner[lane, side] = -1

    def _pass_over(self, lane: int, side: int, until: int) -> None:
        start = int(self._base[lane, side])
        self._free_count = kernels.pass_over(
            self._cells, start, start + until, lane, self._free, self._free_count, self._held
        )
