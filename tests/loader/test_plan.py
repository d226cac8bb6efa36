"""Steps -> lanes, sections and offsets of shuffle buffers: always those that the order's own addresses say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flatmix.loader.plan import Lane, Planner, Rows
from flatmix.order import Order, Timeline
from flatmix.order.timeline import LAST_SLOT

NAMES = ("en", "ar", "sw")
WEIGHTS = {"en": 0.6, "ar": 0.3, "sw": 0.1}


def make_order(
    streams: int = 2, windows: tuple[int, int, int] = (160, 82, 23), block: int = 3, blocks: int = 2, batch: int = 8,
    timeline: list[tuple[int, int, int]] | None = None, selector: str = "balanced",
) -> Order:  # fmt: skip
    return Order(
        dict(zip(NAMES, windows, strict=True)), WEIGHTS, seed=7, streams=streams, selector=selector,
        timeline=timeline or [(0, 0, batch)], sequences_per_read_block=block, read_blocks_per_shuffle_buffer=blocks,
    )  # fmt: skip


def lane_of(order: Order, language: int, stream: int, parts: int) -> Lane:
    """Its buffers in so many sections; with a number below 0, so many buffers in one section."""
    shuffle = order.shuffles[language]
    if parts < 0:
        return Lane(language, stream, shuffle, -parts * shuffle.buffer_windows, -parts, 0.1)
    return Lane(language, stream, shuffle, -(-shuffle.buffer_windows // min(parts, shuffle.buffer_windows)), 1, 0.1)


def lanes_of(order: Order, parts: dict[tuple[int, int], int]) -> list[Lane]:
    """A lane for each (language, stream) that is named."""
    return [lane_of(order, language, stream, count) for (language, stream), count in parts.items()]


def assert_agrees(order: Order, lanes: list[Lane], rows: Rows, step: int) -> None:
    """Each row has the lane of its language and stream, and the section and offset of its occurrence."""
    expected = order.rows(step)
    np.testing.assert_array_equal(rows.language, expected.language)
    np.testing.assert_array_equal(rows.stream, expected.stream)
    np.testing.assert_array_equal(rows.occurrence, expected.occurrence)
    numbers = {(lane.language, lane.stream): number for number, lane in enumerate(lanes)}
    for row in range(len(rows.lane)):
        assert rows.lane[row] == numbers.get((int(rows.language[row]), int(rows.stream[row])), -1)
        if rows.lane[row] >= 0:
            lane = lanes[rows.lane[row]]
            first, stop = lane.span(int(rows.section[row]))
            assert first + rows.offset[row] == rows.occurrence[row]
            assert 0 <= rows.offset[row] < stop - first <= lane.size


PARTS = st.dictionaries(
    st.tuples(st.integers(0, 2), st.integers(0, 1)), st.sampled_from([1, 2, 3, 5, 1000, -2, -3, -40]), max_size=6
)


@settings(deadline=None, derandomize=True, max_examples=60)
@given(
    parts=PARTS,
    windows=st.tuples(st.integers(14, 200), st.integers(14, 90), st.integers(14, 25)),
    sizes=st.tuples(st.integers(1, 7), st.integers(1, 9)),
    batch=st.sampled_from([2, 6, 16, 40]),
    selector=st.sampled_from(["hash", "balanced"]),
    steps=st.lists(st.tuples(st.integers(0, 400), st.integers(1, 6)), min_size=1, max_size=4),
)
def test_every_row_stands_where_the_order_says(
    parts: dict[tuple[int, int], int], windows: tuple[int, int, int], sizes: tuple[int, int], batch: int,
    selector: str, steps: list[tuple[int, int]],
):  # fmt: skip
    order = make_order(2, windows, *sizes, batch, selector=selector)
    lanes = lanes_of(order, parts)
    planner = Planner(lanes, 3, 2)
    for step, count in steps:
        for later in range(step, step + count):
            assert_agrees(order, lanes, planner.rows(order, later), later)


TIMELINE = [(0, 0, 8), (3, 80, 16), (6, 16, 4), (9, 2000, 4), (40, 0, 20)]


def test_rows_of_a_timeline_that_leaves_slots_out_and_shows_them_again():
    order = make_order(timeline=TIMELINE)
    lanes = lanes_of(order, {(0, 0): 1, (0, 1): 2, (1, 0): 3, (1, 1): -3})
    planner = Planner(lanes, 3, 2)
    for step in [*range(60), 5, 6, 8, 9, 2, 3, 39, 40, 41]:
        assert_agrees(order, lanes, planner.rows(order, step), step)


def all_lanes(order: Order, parts: int = 2) -> list[Lane]:
    return lanes_of(order, {(language, stream): parts for language in range(3) for stream in range(order.streams)})


def test_the_last_steps_there_are_can_be_planned():
    order = make_order(timeline=[(0, 0, 8), (5, LAST_SLOT - 80, 8)])
    lanes = all_lanes(order)
    planner = Planner(lanes, 3, 2)
    for step in range(15):
        assert_agrees(order, lanes, planner.rows(order, step), step)
    assert planner.rows(order, 14).section.min() > 2**50
    with pytest.raises(ValueError, match="slots up to 2\\^62 are supported"):
        planner.rows(order, 15)


@pytest.mark.parametrize("batch", [2, 4096, 10_000])
def test_steps_in_sequence_and_steps_alone_are_planned_alike(batch: int):
    """In sequence they are planned many at a time."""
    order = make_order(batch=batch)
    in_turn = Planner(all_lanes(order), 3, 2)
    for step in range(20):
        one, other = in_turn.rows(order, step), Planner(all_lanes(order), 3, 2).rows(order, step)
        for name, array in vars(one).items():
            np.testing.assert_array_equal(array, getattr(other, name), err_msg=name)


def test_the_same_step_of_another_order_is_another():
    order = make_order()
    moved = order.with_timeline(Timeline([(0, 0, 8), (1, 48, 8)], 2))
    lanes = all_lanes(order)
    planner = Planner(lanes, 3, 2)
    for which in (order, moved, order, moved):
        for step in (3, 4):
            assert_agrees(which, lanes, planner.rows(which, step), step)


@settings(deadline=None, derandomize=True, max_examples=40)
@given(parts=PARTS, step=st.integers(0, 300))
def test_before_a_step_each_lane_stands_at_its_next_row(parts: dict[tuple[int, int], int], step: int):
    """The first row of the lane in this step or in a later one."""
    order = make_order()
    lanes = lanes_of(order, parts)
    starts = Planner(lanes, 3, 2).starts(order, step)
    assert starts.lane.tolist() == list(range(len(lanes)))
    before = order.counts(order.timeline.first_slot(step))
    later = [Planner(lanes, 3, 2).rows(order, at) for at in range(step, step + 30)]
    for number, lane in enumerate(lanes):
        found = [
            (rows.section[row], rows.offset[row]) for rows in later for row in np.flatnonzero(rows.lane == number)[:1]
        ]
        assert starts.occurrence[number] == before[lane.stream, lane.language]
        assert (starts.section[number], starts.offset[number]) == found[0]


@pytest.mark.parametrize("parts", [1, 2, 3, 5, 1000, -2, -3, -40])
@pytest.mark.parametrize(("block", "blocks"), [(3, 2), (1, 5), (4, 3), (7, 1000)])
def test_sections_follow_each_other_through_the_epochs_without_a_gap(parts: int, block: int, blocks: int):
    """A section of a part of a buffer ends with that buffer, and one of several buffers with the last of them."""
    order = make_order(block=block, blocks=blocks)
    shuffle = order.shuffles[1]
    lane = lane_of(order, 1, 1, parts)
    ends = {
        epoch * shuffle.windows_per_stream + min(buffer * shuffle.buffer_windows, shuffle.windows_per_stream)
        for epoch in range(100)
        for buffer in range(shuffle.buffers_per_epoch + 1)
    }
    section, at, stops = 0, 0, set[int]()
    while at < 3 * shuffle.windows_per_stream:
        first, stop = lane.span(section)
        assert first == at < stop <= first + lane.size
        if parts > 0:  # all of one shuffle buffer
            assert not ends & set(range(first + 1, stop))
        else:
            assert stop in ends
        section, at = lane.following(section), stop
        stops.add(at)
    if parts > 0:
        assert {end for end in ends if 0 < end <= 3 * shuffle.windows_per_stream} <= stops
