"""slot -> language: exact thresholds, draws at the ends of their range, shares that come out as asked."""

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from order_cases import ALL, at_draw, seeds, small, unsplitmix64, weight_values

from flatmix.order import Order
from flatmix.order.selector import thresholds

SELECTORS = ["hash", "balanced"]


def mixture(weights: Sequence[float], **changes: Any) -> Order:
    """An order over languages "0", "1", ... of 8 windows each, with one stream unless changed."""
    names = [str(i) for i in range(len(weights))]
    config = small(windows=dict.fromkeys(names, 8), weights=dict(zip(names, weights, strict=True)), streams=1)
    return Order(**{**config, **changes})


@given(x=seeds)
def test_splitmix64_is_undone(x: int):
    assert unsplitmix64(reference.splitmix64(x)) == x


CORNERS: list[tuple[list[float], list[int]]] = [
    ([1], [ALL]),
    ([0, 1], [0, ALL]),
    ([1, 0], [ALL, ALL]),
    ([0, 1, 0], [0, ALL, ALL]),
    ([0.0, 0.0, 5e-324], [0, 0, ALL]),
    ([5e-324, 5e-324], [2**63 - 512, ALL]),
    ([1e308, 7e307], [reference.draws_below(1e308 / 1.7e308), ALL]),
    ([1, 1e-300], [ALL - 1024, ALL]),
    ([1e-300, 1], [1, ALL]),
    ([5e-324, 1], [1, ALL]),
    ([0, 5e-324, 1, 0], [0, 1, ALL, ALL]),
    ([2.0**-63, 1], [2, ALL]),
    ([2.0**-62, 1, 2.0**-55], [4, ALL - 1024, ALL]),
]


@pytest.mark.parametrize(("weights", "bounds"), CORNERS)
def test_thresholds_in_corner_cases(weights: list[float], bounds: list[int]):
    assert reference.thresholds(weights) == bounds
    assert thresholds(weights) == bounds


def test_shares_that_round_above_one_leave_no_draw_for_a_last_tiny_weight():
    weights = [0.3, 0.2, 0.2, 1e-30]
    total = 0.3 + 0.2 + 0.2 + 1e-30
    assert 0.3 / total + 0.2 / total + 0.2 / total > 1

    assert reference.thresholds(weights)[2:] == [ALL, ALL]
    assert thresholds(weights)[2:] == [ALL, ALL]
    with pytest.warns(UserWarning, match=r"'3'.*1e-30.*too small"):
        languages = mixture(weights).languages(0, 10_000)
    assert set(languages.tolist()) == {0, 1, 2}


@given(st.lists(weight_values, min_size=1, max_size=9).filter(lambda ws: 0 < sum(ws) < math.inf))
def test_thresholds_equal_the_reference_and_never_fall(weights: list[float]):
    bounds = thresholds(weights)
    last = max(i for i, w in enumerate(weights) if w)

    assert bounds == reference.thresholds(weights)
    assert bounds == sorted(bounds)
    assert all(type(bound) is int for bound in bounds)
    assert bounds[last:] == [ALL] * (len(weights) - last)
    assert all(a == b for w, a, b in zip(weights, [0, *bounds], bounds, strict=False) if w == 0 and b < ALL)


@given(st.integers(1, 200))
def test_thresholds_of_equal_weights_equal_the_reference(languages: int):
    assert thresholds([0.1] * languages) == reference.thresholds([0.1] * languages)


@given(share=st.floats(0, 1.5))
def test_threshold_is_where_the_rounded_quotient_reaches_the_share(share: float):
    """The bisection of the reference, checked at its boundary."""
    bound = reference.draws_below(share)

    assert bound == 0 or (bound - 1) / ALL < share
    assert bound == ALL or bound / ALL >= share


@pytest.mark.parametrize("selector", SELECTORS)
@pytest.mark.parametrize("weights", [[0, 1], [1, 0], [0, 1, 0], [1], [0, 0, 3, 0], [0, 1, 1, 0]])
def test_draws_at_both_ends_of_the_range_choose_a_language_of_some_weight(selector: str, weights: list[float]):
    weighted = [i for i, w in enumerate(weights) if w]

    for z, language in ((0, weighted[0]), (ALL - 1, weighted[-1])):
        seed, slot = at_draw(selector, z)
        assert mixture(weights, seed=seed, selector=selector).languages(slot, slot + 1).tolist() == [language]


@pytest.mark.parametrize("selector", SELECTORS)
@pytest.mark.parametrize(
    "weights",
    [
        [0.5, 0.5],
        [0.7, 0.2, 0.1],
        [6, 3, 1],
        [0, 0.1, 0, 0.9, 0],
        [1e-18, 1],
        [5e-324, 1],  # one draw, 0, of its own
        [1, 1e-15],
        [0.1] * 10,
        [1e-6] * 30 + [1],  # many languages that share the leading bits of their draws
        [2.0**-12 * (1 + 2.0**-40)] * 2 + [1 - 2.0**-11],
    ],
)
def test_draws_on_both_sides_of_every_threshold(selector: str, weights: list[float]):
    bounds = reference.thresholds(weights)

    for z in {max(bound - 1, 0) for bound in bounds} | {bound for bound in bounds if bound < ALL}:
        seed, slot = at_draw(selector, z)
        expected = next(language for language, bound in enumerate(bounds) if z < bound)
        assert mixture(weights, seed=seed, selector=selector).languages(slot, slot + 1).tolist() == [expected]


@pytest.mark.parametrize("selector", SELECTORS)
def test_language_of_weight_zero_is_never_drawn(selector: str):
    languages = mixture([0, 0.4, 0, 0.6, 0], selector=selector).languages(0, 10**6)

    assert set(np.unique(languages).tolist()) == {1, 3}


@pytest.mark.filterwarnings("ignore:.*too small")
@pytest.mark.parametrize("start", [0, 1, 2**31 - 50, 2**32 - 50, 2**53 - 50, 10**15])
@pytest.mark.parametrize("selector", SELECTORS)
@pytest.mark.parametrize("seed", [0, 7, 2**32, 2**63, ALL - 1])
def test_languages_equal_the_reference(selector: str, seed: int, start: int):
    names = [str(i) for i in range(5)]
    config = small(
        windows=dict.fromkeys(names, 30),
        weights=dict(zip(names, [0.5, 0, 1e-300, 0.2, 0.3], strict=True)),
        phases=[(2**31 - 20, {"0": 1, "4": 3}), (2**32, {"1": 1.0})],
        selector=selector,
        seed=seed,
    )

    got = Order(**config).languages(start, start + 100)
    assert reference.Order(**config).languages(start, start + 100) == got.tolist()


def test_languages_of_no_slots_are_none():
    assert mixture([1, 1]).languages(5, 5).tolist() == []


def test_hash_is_the_stateless_mixture_over_one_global_counter():
    """The mixture this order descends from: hash seed and counter, add up shares until they pass the quotient."""

    def chosen(seed: int, slot: int, shares: list[float]) -> int:
        point = reference.splitmix64((seed * (2**32 + 1) + slot) % ALL) / 2**64
        passed = 0.0
        for language, share in enumerate(shares):
            passed += share
            if point < passed:
                return language
        return len(shares) - 1

    for seed, shares in itertools.product([0, 1, 7, 12345], [[0.5, 0.5], [0.7, 0.2, 0.1], [0.25] * 4]):
        slots = range(5000)
        got = mixture(shares, seed=seed).languages(0, len(slots))
        assert [chosen(seed, slot, shares) for slot in slots] == got.tolist()


def test_first_languages_of_seed_0():
    assert "".join(map(str, mixture([0.5, 0.5], seed=0).languages(0, 16))) == "1110001011001101"
    assert "".join(map(str, mixture([0.7, 0.2, 0.1], seed=0).languages(0, 16))) == "1000001000000100"


def test_hash_seeds_apart_by_2_to_the_32_less_1_choose_the_same_shifted_by_a_slot():
    """A stated weakness of `hash`; the windows differ all the same."""
    first, second = (mixture([0.5, 0.3, 0.2], seed=seed, timeline=None) for seed in (5, 5 + 2**32 - 1))

    assert second.languages(1, 1001).tolist() == first.languages(0, 1000).tolist()
    assert second.keys != first.keys


def test_rare_language_gets_its_share_of_single_slots():
    """1 in 10,000 is not rounded away: 100 of a million slots, give or take four standard deviations."""
    rare = [int((mixture([0.9999, 0.0001], seed=seed).languages(0, 10**6) == 1).sum()) for seed in (0, 1, 2)]

    assert rare == [113, 112, 97]
    assert all(60 <= count <= 140 for count in rare)


@pytest.mark.parametrize("seed", [0, 7, 2**40])
def test_hash_shares_are_within_four_standard_deviations(seed: int):
    drawn = np.bincount(mixture([0.7, 0.2, 0.09, 0.01], seed=seed).languages(0, 100_000), minlength=4)

    assert (np.abs(drawn - [70000, 20000, 9000, 1000]) <= [580, 506, 362, 126]).all()


@pytest.mark.parametrize("seed", [0, 7])
def test_hash_mixes_within_every_batch_and_row(seed: int):
    """Ten equal languages in batches of 64: no clumps along the slots, no row that keeps to a language."""
    languages = mixture([0.1] * 10, seed=seed, batch=64).languages(0, 200 * 64)
    batches = languages.reshape(200, 64)
    runs = [len(list(run)) for _, run in itertools.groupby(languages.tolist())]
    in_rows = np.stack([(batches == language).sum(axis=0) for language in range(10)])

    assert min(len(set(batch)) for batch in batches.tolist()) >= 7
    assert max(runs) <= 8
    assert in_rows.min() >= 3
    assert in_rows.max() <= 41


def furthest_from_share(languages: np.ndarray, bounds: list[int]) -> float:
    """The most by which a language's rows in any stretch of these slots differ from its exact share."""
    worst = 0.0
    for language, (below, bound) in enumerate(itertools.pairwise([0, *bounds])):
        share = (bound - below) / ALL
        ahead = np.concatenate([[0], np.cumsum(languages == language)]) - share * np.arange(len(languages) + 1)
        worst = max(worst, float(ahead.max() - ahead.min()))
    return worst


@pytest.mark.parametrize("weights", [[0.6, 0.3, 0.1], [0.9999, 0.0001], [0.1] * 10, [1, 2, 3, 4, 5, 6, 7, 1e-4]])
def test_balanced_keeps_every_stretch_within_6_rows_of_its_share(weights: list[float]):
    for seed, start in itertools.product([0, 7, ALL - 1], [0, 10**6, 10**12]):
        languages = mixture(weights, seed=seed, selector="balanced").languages(start, start + 10**5)
        assert furthest_from_share(languages, reference.thresholds(weights)) < 6


def test_balanced_keeps_two_million_slots_within_7_rows_and_hash_does_not():
    weights = [0.61, 0.29, 0.1]
    runs = {s: mixture(weights, selector=s).languages(0, 2 * 10**6) for s in SELECTORS}
    far = {s: furthest_from_share(run, reference.thresholds(weights)) for s, run in runs.items()}

    assert far["balanced"] < 7 < far["hash"]
