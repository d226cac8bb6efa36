"""The pool of rows: every cell is free or holds one row, and what is taken is what was stored, whatever happens."""

from concurrent.futures import Future

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flatmix.loader import kernels
from flatmix.loader.blocks import Blocks, blocks_of
from flatmix.loader.plan import Lane, Planner
from flatmix.loader.sections import Section, Sections
from flatmix.order import Order
from flatmix.order.shuffle import Shuffle

WORDS = 2
BATCH = 8


def make_order(block: int, blocks: int) -> Order:
    return Order(
        {"en": 160, "ar": 82, "sw": 23}, {"en": 0.6, "ar": 0.3, "sw": 0.1}, seed=7, streams=2, batch=BATCH,
        selector="balanced", sequences_per_read_block=block, read_blocks_per_shuffle_buffer=blocks,
    )  # fmt: skip


def lane_of(language: int, stream: int, shuffle: Shuffle, parts: int) -> Lane:
    """Its buffers in so many sections; with a number below 0, so many buffers in one section."""
    if parts < 0:
        return Lane(language, stream, shuffle, -parts * shuffle.buffer_windows, -parts, 0.2)
    return Lane(language, stream, shuffle, -(-shuffle.buffer_windows // min(parts, shuffle.buffer_windows)), 1, 0.2)


class Pool:
    """Sections over some lanes, and the blocks on their way: a loader without threads, whose every move is a test's.

    A row of language `l` is the words (l, window).
    """

    def __init__(self, block: int = 3, blocks: int = 4, parts: tuple[int, int, int] = (1, 2, 0), spare: int = 7):
        self.order = make_order(block, blocks)
        self.lanes = [
            lane_of(language, stream, shuffle, count)
            for (language, shuffle), count in zip(self.order.shuffles.items(), parts, strict=True)
            for stream in range(2)
            if count
        ]
        self.planner = Planner(self.lanes, 3, 2)
        self.sections = Sections(self.lanes, WORDS, spare, BATCH)
        self.way: list[tuple[Section, int, int]] = []
        self.closed: list[tuple[Future[Blocks], Blocks]] = []  # not told yet

    def move(self, step: int, late: bool = False) -> None:
        starts = self.planner.starts(self.order, step)
        for lane, section, offset in zip(range(len(self.lanes)), starts.section, starts.offset, strict=True):
            self._move(lane, int(section), int(offset), late)

    def _move(self, lane: int, section: int, offset: int, late: bool = False) -> None:
        for wanted, first in self.sections.wanted(lane, section, offset):
            blocks: Future[Blocks] = Future()
            made = blocks_of(self.lanes[lane], wanted, first)
            self.sections.hold(lane, wanted, first, blocks)
            if late:
                self.closed.append((blocks, made))
            else:
                blocks.set_result(made)
        self.sections.note(lane)

    def open_all(self) -> None:
        for blocks, made in self.closed:
            blocks.set_result(made)
        self.closed.clear()
        for lane in range(len(self.lanes)):
            self.sections.note(lane)

    def pass_step(self, step: int, late: bool = False) -> None:
        for lane, section, offset in self.sections.pass_rows(self.planner.rows(self.order, step)):
            self._move(lane, section, offset, late)

    def start(self, most: int = 100) -> int:
        for count in range(most):
            section = self.sections.next_block()
            if section is None:
                return count
            self.way.append((section, *self.sections.reserve(section)))
        return most

    def finish(self, which: int, fails: bool = False) -> None:
        section, number, rows = self.way.pop(which % len(self.way))
        lane = self.lanes[section.lane]
        if fails:
            self.sections.give_up(section, number, rows, OSError("disk"))
            return
        windows = (
            section.blocks.result().firsts[number] + np.arange(lane.shuffle.block_windows)
        ) % lane.shuffle.windows
        block = np.stack([np.full_like(windows, lane.language), windows], axis=1).astype(np.uint32)
        self.sections.store(section, number, rows, block)

    def take(self, step: int) -> np.ndarray:
        """Takes what is held of a step, and checks it. Returns the rows that are not held."""
        rows, expected = self.planner.rows(self.order, step), self.order.rows(step)
        out = np.full((BATCH, WORDS), 999, np.uint32)
        missing = self.sections.take(rows, np.arange(BATCH), out)
        held = np.setdiff1d(np.arange(BATCH), missing)
        np.testing.assert_array_equal(out[held], np.stack([expected.language, expected.window], 1)[held])
        assert (out[missing] == 999).all()
        assert set(np.flatnonzero(rows.lane < 0)) <= set(missing.tolist())
        return missing

    def check(self) -> None:
        """No cell is both free and held, none is lost, and what is counted is what is there."""
        own = self.sections
        free = own._free[: own._free_count].tolist()
        held: list[int] = []
        for lane, sides in enumerate(own._base.tolist()):
            cells = np.concatenate([own._cells[base : base + int(own.sizes[lane])] for base in sides])
            assert (cells >= 0).sum() == own._held[lane]
            held += cells[cells >= 0].tolist()
        assert own.held == len(held)
        assert sorted(free + held) == list(range(len(own.pool)))
        for lane in range(len(self.lanes)):
            assert own._reserved[lane] == sum(rows for section, _, rows in self.way if section.lane == lane)
        assert own._reserved.sum() <= own._free_count


MOVES = st.one_of(
    st.tuples(st.just("pass"), st.integers(1, 9)),
    st.tuples(st.just("start"), st.integers(1, 6)),
    st.tuples(st.just("finish"), st.integers(0, 9)),
    st.tuples(st.just("finish"), st.integers(0, 9)),
    st.tuples(st.just("fail"), st.integers(0, 9)),
    st.tuples(st.just("jump"), st.integers(-30, 60)),
    st.tuples(st.just("open"), st.just(0)),
    st.tuples(st.just("forget"), st.just(0)),
)


@settings(deadline=None, derandomize=True, max_examples=50)
@given(
    sizes=st.tuples(st.integers(1, 5), st.integers(1, 8)),
    parts=st.tuples(st.integers(-3, 3), st.sampled_from([-4, -1, 1, 2, 4]), st.integers(-5, 40)),
    spare=st.integers(0, 12),
    moves=st.lists(st.tuples(MOVES, st.booleans()), min_size=5, max_size=40),
)
def test_no_cell_is_lost_or_given_out_twice_and_rows_are_their_own(
    sizes: tuple[int, int], parts: tuple[int, int, int], spare: int, moves: list[tuple[tuple[str, int], bool]]
):
    own = Pool(*sizes, parts, spare)
    at = 0
    own.move(at)
    for (what, number), late in moves:
        if what == "pass":
            for _ in range(number):
                own.take(at)
                own.pass_step(at, late)
                at += 1
        elif what == "start":
            own.start(number)
        elif what in ("finish", "fail") and own.way:
            own.finish(number, what == "fail")
        elif what == "jump":
            at = max(0, at + number)
            own.move(at, late)
        elif what == "open":
            own.open_all()
        elif what == "forget":
            own.way.clear()
            own.closed.clear()
            own.sections.forget()
            own.check()
            assert own.sections.held == 0
            own.move(at, late)
        own.take(at)
        own.check()


def fill(own: Pool) -> None:
    while own.start():
        while own.way:
            own.finish(0)


def test_a_lane_holds_its_section_and_goes_on_to_the_next_as_rows_are_used():
    own = Pool(parts=(1, 1, 1), spare=0)
    own.move(0)
    fill(own)
    whole = int(own.sections.sizes.sum())
    assert own.sections.held <= whole
    for step in range(60):
        assert len(own.take(step)) == 0, step
        own.pass_step(step)
        fill(own)
        assert own.sections.held > whole // 2
        own.check()


def test_cells_that_may_be_borrowed_are_no_more_than_the_spare_ones():
    own = Pool(parts=(1, 2, 1), spare=5)
    own.move(0)
    for step in range(80):
        own.start()
        over = np.maximum(0, own.sections._held + own.sections._reserved - own.sections.sizes).sum()
        assert over <= 5
        while own.way:
            own.finish(-1)
        own.pass_step(step)
    own.check()


def test_a_small_jump_keeps_what_is_still_needed():
    own = Pool(block=4, blocks=8, parts=(1, 1, 1))
    own.move(0)
    fill(own)
    before = own.sections.held
    own.move(1)
    passed = before - own.sections.held
    assert passed == len(own.planner.rows(own.order, 0).lane)
    assert len(own.take(1)) == 0


def test_a_jump_to_another_buffer_frees_everything():
    own = Pool(parts=(1, 2, 1))
    own.move(0)
    fill(own)
    own.move(1000)
    assert own.sections.held == 0
    own.check()
    fill(own)
    assert len(own.take(1000)) == 0


def test_a_jump_back_reads_again_what_had_been_used():
    own = Pool(block=4, blocks=8, parts=(1, 1, 1))
    own.move(3)
    fill(own)
    own.move(2)
    fill(own)
    assert len(own.take(2)) == 0
    own.check()


def test_rows_of_a_block_that_comes_after_its_lane_has_gone_are_not_kept():
    own = Pool(parts=(1, 1, 1))
    own.move(0)
    own.start(1)
    own.move(1000)
    own.finish(0)
    assert own.sections.held == 0
    own.check()


def test_the_error_of_a_block_is_raised_once_and_for_its_own_rows_only():
    own = Pool(parts=(1, 1, 1))
    own.move(0)
    own.start(1)
    section, number, _ = own.way[0]
    offsets = section.blocks.result().offsets[number]
    own.finish(0, fails=True)
    raised: list[int] = []
    for step in range(40):
        planned = own.planner.rows(own.order, step)
        missing = np.arange(BATCH)
        theirs = own.sections.rows_of(planned, missing, section, offsets)
        assert all(planned.offset[row] in offsets for row in theirs)
        if theirs.size and not raised:
            with pytest.raises(OSError, match="disk"):
                own.sections.raise_error(planned, missing)
            raised.append(step)
        own.sections.raise_error(planned, missing)
    assert raised


def test_sections_that_were_read_to_their_end_are_counted():
    own = Pool(parts=(1, 1, 1))
    own.move(0)
    assert own.sections.filled == 0
    fill(own)
    for step in range(40):
        own.pass_step(step)
        fill(own)
    passed = sum(int(start) for start in own.planner.starts(own.order, 40).section)  # those before a lane's own
    assert passed <= own.sections.filled <= passed + 2 * len(own.lanes)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    sizes=st.tuples(st.integers(1, 6), st.integers(1, 9)),
    parts=st.one_of(st.integers(1, 30), st.integers(-9, -1)),
    number=st.integers(0, 40),
    offset=st.floats(0, 1, exclude_max=True),
)
def test_the_blocks_of_a_section_bring_each_of_its_rows_once(
    sizes: tuple[int, int], parts: int, number: int, offset: float
):
    """Those that are needed first come first, and a block that brings none is not among them."""
    lane = Pool(*sizes, (0, parts, 0)).lanes[1]
    section = 0
    for _ in range(number):
        section = lane.following(section)
    first, stop = lane.span(section)
    passed = int(offset * (stop - first))
    blocks = blocks_of(lane, section, passed)
    occurrences = np.arange(first, stop)
    windows_there = lane.shuffle.locate(np.full_like(occurrences, lane.stream), occurrences).window.tolist()
    brought: dict[int, int] = {}
    for start, offsets, windows in zip(blocks.firsts, blocks.offsets, blocks.windows, strict=True):
        assert len(offsets)
        assert all(0 <= window < lane.shuffle.block_windows for window in windows)
        for at, window in zip(offsets.tolist(), windows.tolist(), strict=True):
            assert at not in brought
            brought[at] = (start + window) % lane.shuffle.windows
    assert brought == {at: window for at, window in enumerate(windows_there) if at >= passed}
    needed = [int(offsets.min()) for offsets in blocks.offsets]
    assert needed == sorted(needed)
    counts = [len(offsets) for offsets in blocks.offsets]
    assert list(blocks.unread) == [sum(counts[at:]) for at in range(len(counts))]


def test_of_two_blocks_that_failed_each_raises_its_own_error():
    """Whichever of them is noticed first."""
    own = Pool(block=4, blocks=8, parts=(1, 1, 1))
    own.move(0)
    own.start(2)
    while own.way[1][0] is not own.way[0][0]:  # two of one section
        del own.way[1]
        own.start(1)
    entries = [(section, section.blocks.result().offsets[number]) for section, number, _ in own.way]
    own.finish(1, fails=True)
    own.finish(0, fails=True)
    raised = set[int]()
    for step in range(40):
        planned = own.planner.rows(own.order, step)
        for row in range(BATCH):
            for number, (section, offsets) in enumerate(entries):
                asked = np.array([row])
                if own.sections.rows_of(planned, asked, section, offsets).size and number not in raised:
                    with pytest.raises(OSError, match="disk"):
                        own.sections.raise_error(planned, asked)
                    raised.add(number)
    assert raised == {0, 1}


def test_without_a_lane_there_is_nothing():
    own = Sections([], WORDS, 0, 1)
    assert own.held == 0
    assert own.next_block() is None
    assert len(own.pool) == 0
    assert kernels.MISSING != kernels.USED
