"""(step, row) to slot: batch sizes that change, slots left out and slots shown again."""

import re
from typing import Any

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from order_cases import timelines
from typeguard import suppress_type_checks

from flatmix.order.timeline import Timeline

GOOD = [(0, 0, 4), (3, 12, 8), (6, 60, 4), (8, 32, 2)]


@pytest.mark.parametrize("streams", [1, 2, 3, 5])
def test_slots_equal_the_reference_at_every_small_batch(streams: int):
    for rows in range(1, 41):
        entries = [(0, 0, rows * streams), (3, 10 * streams, 2 * streams)]
        ours, slow = Timeline(entries, streams), reference.Timeline(entries, streams)
        for step in range(6):
            slots = ours.slots(step)

            assert slots.dtype == np.int64
            assert slow.slots(step) == slots.tolist()
            assert ours.batch(step) == len(slots) == slow.batch(step)


@given(data=st.data(), streams=st.integers(1, 6), step=st.integers(0, 30))
def test_slots_equal_the_reference(data: st.DataObject, streams: int, step: int):
    entries = data.draw(timelines(streams))

    assert reference.Timeline(entries, streams).slots(step) == Timeline(entries, streams).slots(step).tolist()


def test_slots_far_beyond_32_bits_are_exact():
    entries = [(0, 0, 144), (10**9, 10**13, 48)]

    for step in (2**32 // 144, 2**32, 10**9 - 1, 10**9, 10**12):
        assert reference.Timeline(entries, 4).slots(step) == Timeline(entries, 4).slots(step).tolist()


def test_consecutive_steps_take_every_slot_once_and_rows_of_a_stream_stand_together():
    timeline = Timeline([(0, 0, 12)], 4)
    slots = np.concatenate([timeline.slots(step) for step in range(7)])

    assert sorted(slots.tolist()) == list(range(84))
    assert (timeline.slots(2) % 4).tolist() == [0] * 3 + [1] * 3 + [2] * 3 + [3] * 3


def test_entry_at_the_end_of_the_last_changes_only_the_batch():
    timeline = Timeline([(0, 0, 8), (5, 40, 16)], 2)

    assert sorted(timeline.slots(5).tolist()) == list(range(40, 56))


def test_later_entry_leaves_slots_out_and_an_earlier_one_shows_them_again():
    timeline = Timeline(GOOD, 2)
    taken = [sorted(timeline.slots(step).tolist()) for step in range(10)]

    assert taken[5] == list(range(28, 36))
    assert taken[6] == list(range(60, 64))
    assert taken[8] + taken[9] == [32, 33, 34, 35]


def test_entries_are_kept_as_given():
    assert [tuple(entry) for entry in Timeline(GOOD, 2).entries] == GOOD


BAD: list[tuple[list[Any], list[str]]] = [
    ([], ["timeline"]),
    ([(1, 0, 4)], ["timeline", "1", "(0, 0"]),
    ([(0, 2, 4)], ["timeline", "2", "(0, 0"]),
    ([(0, 0, 4), (5, 20, 4), (5, 20, 8)], ["timeline", "5", "increas"]),
    ([(0, 0, 4), (5, 20, 4), (3, 20, 8)], ["timeline", "3", "increas"]),
    ([(0, 0, 5)], ["batch", "5", "streams", "2"]),
    ([(0, 0, 4), (5, 20, 7)], ["batch", "7", "streams", "2"]),
    ([(0, 0, 4), (5, 21, 4)], ["slot", "21", "streams", "2"]),
    ([(0, 0, 4), (5, -20, 4)], ["slot", "-20"]),
    ([(0, 0, 0)], ["batch", "0"]),
    ([(0, 0, -4)], ["batch", "-4"]),
    ([(0, 0, 4.0)], ["batch", "4.0"]),
    ([(0, 0, True)], ["batch", "True"]),
    ([(0, 0)], ["timeline", "(0, 0)"]),
]


@pytest.mark.parametrize(("entries", "named"), BAD)
def test_bad_timeline_is_refused_by_name_and_value(entries: list[Any], named: list[str]):
    with suppress_type_checks(), pytest.raises(ValueError, match="timeline") as error:
        Timeline(entries, 2)

    assert [word for word in named if word not in str(error.value)] == []


@pytest.mark.parametrize("step", [-1, -(10**12), True, False, 1.0, np.float64(2), np.float32(2), "3", None], ids=repr)
def test_step_that_is_no_count_is_refused(step: Any):
    timeline = Timeline(GOOD, 2)

    with suppress_type_checks():
        for ask in (timeline.slots, timeline.batch):
            with pytest.raises(ValueError, match=rf"(?s)step.*{re.escape(str(step))}"):
                ask(step)


@pytest.mark.parametrize("kind", [np.int8, np.int32, np.uint32, np.int64, np.uint64])
def test_numpy_integers_are_steps_and_do_not_wrap(kind: Any):
    entries = [(kind(0), kind(0), kind(100)), (kind(3), kind(120), kind(60))]

    with suppress_type_checks():
        timeline = Timeline(entries, kind(2))
        assert timeline.slots(kind(100)).tolist() == reference.Timeline([(0, 0, 100), (3, 120, 60)], 2).slots(100)
    assert all(type(number) is int for entry in timeline.entries for number in entry)


@pytest.mark.parametrize("step", [2**60, 2**63, 10**30])
def test_step_beyond_64_bits_is_refused_rather_than_wrapped(step: int):
    with pytest.raises(ValueError, match=f"(?s)step.*{step}"):
        Timeline([(0, 0, 8)], 2).slots(step)


@given(data=st.data(), streams=st.integers(1, 6), step=st.integers(0, 30))
def test_steps_alike_and_steps_that_go_on_are_those_whose_slots_say_so(data: st.DataObject, streams: int, step: int):
    timeline = Timeline(data.draw(timelines(streams)), streams)
    first, batch = timeline.first_slot(step), timeline.batch(step)

    alike = min(timeline.steps_alike(step), 40)
    assert alike >= 1
    for later in range(alike):
        assert (timeline.first_slot(step + later), timeline.batch(step + later)) == (first + later * batch, batch)
    goes_on = first + batch == timeline.first_slot(step + 1)
    assert timeline.goes_on(step + 1) == goes_on


def test_steps_alike_end_with_the_last_slot():
    timeline = Timeline([(0, 0, 8)], 8)
    last = 2**62 // 8 - 1
    assert timeline.steps_alike(last) == 1
    assert timeline.steps_alike(last - 4) == 5
    with pytest.raises(ValueError, match=r"slots up to 2\^62"):
        timeline.steps_alike(last + 1)
