"""Occurrences before a slot: the closed form, the count, and the two made to agree with exact integers."""

import random
from typing import Any

import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from order_cases import ALL, as_lists, as_rows, at_draw, configs, seeds, small

from flatmix.order import Order

pytestmark = pytest.mark.filterwarnings("ignore:.*too small")


def counted_by_languages(order: Order, slot: int, languages: int) -> list[list[int]]:
    """int[streams, languages] from the languages of all earlier slots."""
    chosen = order.languages(0, slot).reshape(-1, order.streams)
    return [np.bincount(chosen[:, r], minlength=languages).tolist() for r in range(order.streams)]


@given(st.integers(0, 300), st.integers(1, 300), st.integers(0, 10**6), st.integers(0, 10**6))
def test_floor_sum_of_the_reference_is_the_sum(terms: int, divisor: int, slope: int, offset: int):
    expected = sum((slope * i + offset) // divisor for i in range(terms))

    assert reference.floor_sum(terms, divisor, slope, offset) == expected


@given(positions=st.integers(0, 200), slope=seeds, offset=seeds, threshold=st.one_of(seeds, st.just(ALL)))
def test_closed_form_of_the_reference_is_the_count(positions: int, slope: int, offset: int, threshold: int):
    expected = sum((slope * i + offset) % ALL < threshold for i in range(positions))

    assert reference.draws_in_reach(positions, slope, offset, threshold) == expected


@settings(max_examples=50)
@given(config=configs(), positions=st.integers(0, 150))
def test_closed_form_over_phases_is_the_count(config: dict[str, Any], positions: int):
    slow = reference.Order(**{**config, "selector": "balanced"})
    slot = positions * config["streams"]

    assert slow.closed_counts(slot) == slow.count(slot)


@settings(max_examples=50)
@given(config=configs(), slots=st.lists(st.integers(0, 200), min_size=1, max_size=4))
def test_counts_equal_the_reference_in_any_sequence(config: dict[str, Any], slots: list[int]):
    order, slow = Order(**config), reference.Order(**config)

    for position in slots:
        slot = position * config["streams"]
        counts = order.counts(slot)
        assert counts.dtype == np.int64
        assert slow.count(slot) == counts.tolist()


@pytest.mark.parametrize("selector", ["hash", "balanced"])
@pytest.mark.parametrize("streams", [1, 2, 3, 7, 64])
def test_counts_before_every_small_slot_equal_the_reference(selector: str, streams: int):
    windows = {name: 4 * streams for name in ("en", "ar", "sw")}
    phases = [(5 * streams, {"sw": 1, "en": 2}), (9 * streams, {"ar": 1})]
    config = small(windows=windows, phases=phases, streams=streams, batch=streams, selector=selector)
    order, slow = Order(**config), reference.Order(**config)

    for position in range(40):
        assert slow.count(position * streams) == as_lists(order.counts(position * streams))


@pytest.mark.parametrize("streams", [1, 2, 5, 48])
@pytest.mark.parametrize("weights", [{"en": 0.7, "ar": 0.2, "sw": 0.1}, {"en": 1, "sw": 1e-4}, {"ar": 1}])
def test_balanced_closed_form_equals_counting_every_slot(streams: int, weights: dict[str, float]):
    """At sizes where nothing would be counted, against the languages of all earlier slots."""
    windows = {name: 4 * streams for name in ("en", "ar", "sw")}
    for seed, positions in [(0, 20_000), (7, 33_333), (ALL - 1, 40_001)]:
        config = small(windows=windows, weights=weights, seed=seed, streams=streams, batch=streams, selector="balanced")
        order, slot = Order(**config), positions // streams * streams
        counts = as_lists(order.counts(slot))

        assert counts == counted_by_languages(order, slot, 3)
        assert counts == reference.Order(**config).closed_counts(slot)


@pytest.mark.parametrize("streams", [1, 3, 8, 48])
def test_balanced_counts_are_exact_at_any_distance(streams: int):
    """Up to step 10^12 of a batch of a thousand, with phases on the way: exact sums of floors in unbounded integers."""
    numbers = random.Random(streams)
    windows = {name: 4 * streams for name in ("en", "ar", "sw", "xx")}
    far = 10**12 * 1000
    for seed in (0, 3, ALL - 1):
        phases = [(k * 10**12 * streams, {"en": numbers.random(), "sw": 1e-9, "xx": numbers.random()}) for k in (1, 7)]
        config = small(windows=windows, phases=phases, seed=seed, streams=streams, batch=streams, selector="balanced")
        order, slow = Order(**config), reference.Order(**config)
        slots = [10**6, 2**40, far, numbers.randrange(far), numbers.randrange(far)]

        for slot in [slot // streams * streams for slot in slots]:
            assert slow.closed_counts(slot) == as_lists(order.counts(slot))


ENDS = [0, ALL - 1, *(bound + change for bound in reference.thresholds([6, 3, 1])[:2] for change in (-1, 0))]


@pytest.mark.parametrize("z", ENDS)
def test_draw_at_an_end_or_a_threshold_counts_for_its_language(z: int):
    """Counted alone, from made-up counts before it, and as the first draw of the closed form."""
    config = small(weights={"en": 6, "ar": 3, "sw": 1}, streams=1, batch=1)
    seed, slot = at_draw("hash", z)
    order = Order(**config | {"seed": seed})
    order.remember(slot, np.array([[slot, 0, 0]]))
    expected = [[slot, 0, 0]]
    expected[0][reference.Order(**config | {"seed": seed}).language(slot)] += 1
    assert expected == as_lists(order.counts(slot + 1))

    balanced = Order(**config | {"seed": at_draw("balanced", z)[0], "selector": "balanced"})
    assert counted_by_languages(balanced, 50_000, 3) == as_lists(balanced.counts(50_000))


def test_balanced_counts_stay_near_the_shares_at_any_distance():
    config = small(selector="balanced", streams=8, batch=8, windows={"en": 80, "ar": 40, "sw": 32})
    counts = Order(**config).counts(8 * 10**13)

    assert counts.sum(axis=1).tolist() == [10**13] * 8
    assert (np.abs(counts.sum(axis=0) - np.array([0.6, 0.3, 0.1]) * 8e13) < 50).all()


@pytest.mark.parametrize("selector", ["hash", "balanced"])
def test_counts_of_millions_of_slots_equal_the_languages(selector: str):
    """Far enough for several threads, and for counts that are remembered on the way."""
    config = small(streams=6, batch=6, windows={"en": 80, "ar": 40, "sw": 24}, selector=selector)
    config["phases"] = [(6 * 300_000, {"en": 1, "sw": 2}), (6 * 700_001, {"ar": 1, "sw": 1})]
    order = Order(**config)

    for slot in (6 * 900_001, 6 * 650_000, 6 * 700_001, 6, 0, 6 * 900_000):
        assert counted_by_languages(order, slot, 3) == as_lists(order.counts(slot))


def test_counts_of_many_streams_and_languages_equal_the_languages():
    names = [f"language {i}" for i in range(200)]
    weights = {name: 1 / (i + 1) for i, name in enumerate(names)}
    config = small(windows=dict.fromkeys(names, 2048), weights=weights, streams=512, batch=512)
    order = Order(**config)

    assert counted_by_languages(order, 512 * 3000, 200) == as_lists(order.counts(512 * 3000))


@pytest.mark.parametrize("selector", ["hash", "balanced"])
def test_counts_are_the_callers_own(selector: str):
    """Writing into an answer, or into what was given, changes no later answer."""
    order = Order(**small(selector=selector))
    given_counts = Order(**small(selector=selector)).counts(80)
    order.remember(80, given_counts)
    given_counts[:] = -1
    assert as_lists(order.counts(80)) == reference.Order(**small(selector=selector)).counts(80)
    for slot in (0, 80, 80):
        before = as_lists(order.counts(slot))
        order.counts(slot)[:] = -1
        assert as_lists(order.counts(slot)) == before


def test_given_counts_of_a_far_slot_are_counted_on_from():
    """`hash` at step 10^12: nobody counts 8 * 10^12 slots, and the answer is the reference's from the same counts."""
    config = small(timeline=[(0, 0, 8), (10**12 + 2, 8 * 10**12 + 16, 12)], batch=None)
    order, slow = Order(**config), reference.Order(**config)
    slot = 8 * 10**12
    given_counts = [[4 * 10**12 - 17, 10, 7], [10**12, 2 * 10**12, 10**12]]
    order.remember(slot, np.array(given_counts))

    assert as_lists(order.counts(slot)) == given_counts
    counts = given_counts
    for step in range(10**12, 10**12 + 5):
        rows = slow.rows(step, counts)
        assert rows == as_rows(order.rows(step)) == as_rows(order.rows(step, np.array(counts)))
        for row in rows:
            counts[row.stream][row.language] = row.occurrence + 1
    assert as_lists(order.counts(slot + 16 + 36)) == counts


def test_remembered_counts_change_nothing_that_was_counted():
    order, fresh = Order(**small()), Order(**small())
    order.remember(800, fresh.counts(800))

    for slot in (802, 798, 1600, 800, 0):
        assert as_lists(fresh.counts(slot)) == as_lists(order.counts(slot))


@settings(max_examples=50)
@given(config=configs(), step=st.integers(0, 12))
def test_rows_from_given_counts_are_those_counted(config: dict[str, Any], step: int):
    order = Order(**config)
    counts = order.counts(order.timeline.first_slot(step))

    assert as_rows(Order(**config).rows(step, counts)) == as_rows(order.rows(step))


BAD_COUNTS: list[tuple[Any, list[str]]] = [
    ([[4, 0, 0]], ["counts", "(2, 3)"]),
    ([[4, 0], [4, 0]], ["counts", "(2, 3)"]),
    ([[4, 0, 0], [3, 0, 0]], ["counts", "8", "4", "3"]),
    ([[4, 0, 0], [5, -1, 0]], ["counts", "8"]),
    ([[4.0, 0.0, 0.0], [4.0, 0.0, 0.0]], ["counts", "float64"]),
]


@pytest.mark.parametrize(("counts", "named"), BAD_COUNTS)
def test_counts_that_cannot_be_are_refused_by_value(counts: Any, named: list[str]):
    order = Order(**small())

    for use in (lambda: order.remember(8, np.array(counts)), lambda: order.rows(1, np.array(counts))):
        with pytest.raises(ValueError, match="counts") as error:
            use()
        assert [word for word in named if word not in str(error.value)] == []
    assert as_rows(order.rows(1)) == reference.Order(**small()).rows(1)
