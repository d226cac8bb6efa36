"""Order as a whole: equal to the slow reference wherever that can go, and the same however it is asked."""

import itertools
import random
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from order_cases import as_lists, as_rows, configs, small
from typeguard import suppress_type_checks

from flatmix.order import Order


@pytest.mark.filterwarnings("ignore:.*too small")
@settings(max_examples=120)
@given(config=configs(), steps=st.lists(st.integers(0, 20), min_size=1, max_size=3), data=st.data())
def test_rows_and_counts_equal_the_reference(config: dict[str, Any], steps: list[int], data: st.DataObject):
    """Any languages, weights, phases, timeline, streams, selector, sizes and keys; steps in any sequence."""
    order, slow = Order(**config), reference.Order(**config)

    for step in steps:
        rows = slow.rows(step)
        assert rows == as_rows(order.rows(step))
        assert slow.count(order.timeline.first_slot(step)) == as_lists(order.counts(order.timeline.first_slot(step)))
        some = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=5))
        assert [rows[b] for b in some] == as_rows(order.rows(step, rows=some))


@pytest.mark.parametrize("selector", ["hash", "balanced"])
@pytest.mark.parametrize("seed", [0, 2**64 - 1])
def test_rows_at_step_10_to_the_12_equal_the_reference(selector: str, seed: int):
    """From given counts, with epochs in the thousands of millions; `balanced` counts them itself."""
    config = small(windows={"en": 83, "ar": 2**33 + 5, "sw": 41}, seed=seed, batch=6, selector=selector)
    config["sequences_per_read_block"] = {"en": 4, "ar": 2**17, "sw": 3}
    config["read_blocks_per_shuffle_buffer"] = {"en": 2, "ar": 1, "sw": 5}  # short enough shuffles for the reference
    order, slow, first = Order(**config), reference.Order(**config), 10**12
    counts = [[2 * first - 7, first + 3, 4], [3, 3 * first - 4, 1]]
    if selector == "balanced":
        counts = slow.closed_counts(6 * first)
        assert counts == as_lists(order.counts(6 * first))

    for step in range(first, first + 5):
        rows = slow.rows(step, counts)
        assert rows == as_rows(order.rows(step, np.array(counts)))
        assert selector == "hash" or rows == as_rows(order.rows(step))
        for row in rows:
            counts[row.stream][row.language] += 1


def test_languages_are_in_the_sequence_of_windows():
    order = Order(**small(weights={"sw": 1, "en": 3}))

    assert order.names == ("en", "ar", "sw")
    assert set(order.languages(0, 200).tolist()) == {0, 2}
    assert order.counts(200)[:, 1].tolist() == [0, 0]


def test_language_of_no_weight_needs_no_windows():
    order = Order(**small(windows={"en": 80, "zz": 0, "ar": 40, "sw": 8}))

    assert order.names == ("en", "zz", "ar", "sw")
    assert as_rows(order.rows(3)) == reference.Order(**small(windows={"en": 80, "zz": 0, "ar": 40, "sw": 8})).rows(3)


def test_language_keeps_its_place_across_phases_and_a_new_one_starts_at_0():
    config = small(weights={"en": 1, "ar": 1}, phases=[(80, {"en": 1}), (160, {"ar": 1, "sw": 1})], streams=1)
    order = Order(**config)
    rows = [row for step in range(30) for row in as_rows(order.rows(step))]

    for language in range(3):
        occurrences = [row.occurrence for row in rows if row.language == language]
        assert occurrences == list(range(len(occurrences)))
        assert occurrences
    assert {row.language for row in rows[80:160]} == {0}
    assert 2 not in {row.language for row in rows[:160]}


def test_samples_of_a_slot_do_not_depend_on_the_batch():
    """The same slots in batches of 4, of 16, and of a size that changes, show the same windows."""

    def by_slot(steps: int, **changes: Any) -> dict[int, Any]:
        order = Order(**small(**changes))
        return {row.slot: row for step in range(steps) for row in as_rows(order.rows(step))}

    fours = by_slot(48, batch=4)

    assert by_slot(12, batch=16) == fours
    assert by_slot(28, batch=None, timeline=[(0, 0, 4), (20, 80, 12), (24, 128, 16)]) == fours


def test_slots_shown_again_show_the_same_and_slots_left_out_use_up_their_occurrences():
    straight = Order(**small(batch=8))
    order = Order(**small(batch=None, timeline=[(0, 0, 8), (5, 16, 8), (8, 80, 8)]))

    taken = [0, 1, 2, 3, 4, 2, 3, 4, 10, 11]
    assert [as_rows(straight.rows(t)) for t in taken] == [as_rows(order.rows(step)) for step in range(10)]


def test_steps_in_any_sequence_equal_one_run():
    run = [as_rows(rows) for rows in map(Order(**small()).rows, range(40))]
    order = Order(**small())

    for step in (39, 0, 17, 17, 3, 38, 20, 1):
        assert run[step] == as_rows(order.rows(step))


def test_threads_that_share_an_order_get_the_same_rows():
    steps = [random.Random(0).randrange(4000) for _ in range(60)]
    order, alone = Order(**small()), Order(**small())

    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(order.rows, steps))
    assert [as_rows(alone.rows(step)) for step in steps] == [as_rows(rows) for rows in together]


def test_weights_need_not_add_up_to_one():
    """.5 and .4 are shares of 5 and 4 in 9, nothing goes to the last one; 6, 3 and 1 are .6, .3 and .1."""
    nine = Order(**small(weights={"en": 0.5, "ar": 0.4})).languages(0, 90_000)
    tens = small(windows={str(i): 8 for i in range(10)}, weights={str(i): 0.1 for i in range(10)})

    assert abs((nine == 0).sum() - 50_000) < 600
    assert [as_rows(Order(**small(weights={"en": 6, "ar": 3, "sw": 1})).rows(step)) for step in range(50)] == [
        as_rows(Order(**small()).rows(step)) for step in range(50)
    ]
    assert set(Order(**tens).languages(0, 1000).tolist()) == set(range(10))


@pytest.mark.parametrize("rows", [range(95, -1, -1), [95, 0, 0, 47, 48, 95], [*range(0, 96, 7), *range(0, 96, 5)]])
def test_rows_are_given_in_the_sequence_in_which_they_are_asked_for(rows: list[int]):
    """Back through the buffers and streams of a large batch, too, and twice."""
    order = Order(**small(batch=96, streams=2, weights={"en": 1}))
    batch = as_rows(order.rows(2))

    assert [batch[b] for b in rows] == as_rows(order.rows(2, rows=list(rows)))


def test_host_without_rows_gets_none():
    rows = Order(**small()).rows(3, rows=[])

    assert as_rows(rows) == []
    assert rows.window.dtype == np.int64


@pytest.mark.parametrize("kind", [np.uint8, np.int16, np.int64, np.uint64])
def test_numpy_integers_are_integers(kind: Any):
    """Nothing wraps: 200 windows in uint8 are 200, also where they are multiplied."""
    windows = {"en": 100, "ar": 40, "sw": 12}
    common = {"phases": [(40, {"en": 1, "sw": 1})], "keys": {"en": 99}, "window_tokens": 100}
    config = small(windows=windows, seed=7, batch=100, **common)
    numbers = {"seed": kind(7), "batch": kind(100), "streams": kind(2), "window_tokens": kind(100)}
    sizes = {"sequences_per_read_block": kind(4), "read_blocks_per_shuffle_buffer": {name: kind(2) for name in windows}}
    with suppress_type_checks():
        order = Order(**config | numbers | sizes | {
            "windows": {name: kind(count) for name, count in windows.items()},
            "phases": [(kind(40), {"en": kind(1), "sw": kind(1)})],
            "keys": {"en": kind(99)},
        })  # fmt: skip

        assert reference.Order(**config).rows(100) == as_rows(order.rows(kind(100)))
        assert reference.Order(**config).counts(100) == as_lists(order.counts(kind(100)))


def test_order_takes_nothing_from_the_global_generators():
    random.seed(0)
    np.random.seed(0)  # noqa: NPY002 - the global state is what is tested
    states = random.getstate(), np.random.get_state()[1].tolist()  # noqa: NPY002
    first = [as_rows(Order(**small()).rows(step)) for step in range(5)]

    assert states == (random.getstate(), np.random.get_state()[1].tolist())  # noqa: NPY002
    random.seed(1)
    np.random.seed(1)  # noqa: NPY002
    assert first == [as_rows(Order(**small()).rows(step)) for step in range(5)]


def test_rows_of_every_stream_stand_together():
    streams = [row.stream for row in as_rows(Order(**small(batch=12)).rows(7))]

    assert [key for key, _ in itertools.groupby(streams)] == [0, 1]
    assert streams == [0] * 6 + [1] * 6


@pytest.mark.filterwarnings("ignore:.*too small")
@settings(max_examples=60)
@given(config=configs(), step=st.integers(0, 20), most=st.integers(1, 9))
def test_steps_drawn_together_and_windows_found_one_by_one_are_those_of_rows(
    config: dict[str, Any], step: int, most: int
):
    order = Order(**config)
    count = min(most, order.timeline.steps_alike(step))
    language, occurrence = order.drawn(step, count)

    assert language.shape == occurrence.shape == (count, order.timeline.batch(step))
    for number in range(count):
        rows = order.rows(step + number)
        assert language[number].tolist() == rows.language.tolist()
        assert occurrence[number].tolist() == rows.occurrence.tolist()
        for one, stream, at, window in zip(
            rows.language.tolist(), rows.stream.tolist(), rows.occurrence.tolist(), rows.window.tolist(), strict=True
        ):
            assert order.shuffles[one].window(stream, at) == window
