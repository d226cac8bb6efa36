"""A memory budget -> how much of each shuffle buffer is held: within the budget, and where it saves most."""

import math
from collections.abc import Mapping
from itertools import product

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from flatmix.loader import budget as budgets
from flatmix.loader.budget import Demand, Share

STEP = 16  # rows


def share_memory(demands: Mapping[int, Demand], words: int, budget: int) -> Share:
    return budgets.share_memory(demands, words, STEP, budget)


def demand(
    windows: int = 1024, lanes: int = 1, block_windows: int = 16, tokens: int = 512, weight: float = 1.0
) -> Demand:
    return Demand(windows, lanes, block_windows, tokens, weight)


def equal_languages(count: int, windows: int = 1024) -> dict[int, Demand]:
    """Of equal size, with weights like 1/rank."""
    whole = sum(1 / (rank + 1) for rank in range(count))
    return {rank: demand(windows, weight=1 / (rank + 1) / whole) for rank in range(count)}


def reading(demands: Mapping[int, Demand], share: Share) -> float:
    """Tokens to read for each row, as `Demand.choices` counts them: a lane of a size pays for it."""
    total = 0.0
    for index, own in demands.items():
        cost = dict(own.choices())
        total += sum(own.weight / own.lanes * cost[size] for size in share.sizes[index])
    return total


def least(demands: Mapping[int, Demand]) -> int:
    """The bytes with which every lane is held whole, found by doubling and halving."""

    def whole(budget: int) -> bool:
        share = share_memory(demands, words_of(demands), budget)
        return all(share.sizes[index] == [own.windows] * own.lanes for index, own in demands.items())

    high = 1
    while not whole(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if whole(middle) else (middle, high)
    return high


def words_of(demands: Mapping[int, Demand]) -> int:
    return max(own.tokens for own in demands.values())


@st.composite
def some_demands(draw: st.DrawFn, most: int = 8) -> dict[int, Demand]:
    tokens = draw(st.sampled_from([1, 8, 512, 2048, 65_536]))
    lanes = draw(st.integers(1, 4))
    demands: dict[int, Demand] = {}
    for index in draw(st.lists(st.integers(0, 30), min_size=1, max_size=most, unique=True)):
        block = draw(st.one_of(st.integers(1, 70), st.sampled_from([256, 2000])))
        blocks = draw(st.one_of(st.integers(1, 20), st.sampled_from([64, 1000, 4096])))
        demands[index] = Demand(block * blocks, lanes, block, tokens, draw(st.floats(1e-6, 1.0)))
    return demands


def bytes_of_all(demands: Mapping[int, Demand]) -> int:
    return 4 * words_of(demands) * sum(own.windows * own.lanes for own in demands.values())


@settings(deadline=None, derandomize=True, max_examples=50)
@given(demands=some_demands(), part=st.one_of(st.floats(0, 2), st.floats(0, 0.01)))
# A budget at which spare rows and room for blocks are both more than a small share of it.
@example({0: demand(10**6, block_windows=64, tokens=2048)}, 85 * 64 / 10**6)
def test_everything_together_is_within_the_budget(demands: dict[int, Demand], part: float):
    budget = int(part * bytes_of_all(demands))
    words = words_of(demands)
    share = share_memory(demands, words, budget)
    rows = sum(map(sum, share.sizes.values()))
    assert share.bytes <= budget
    assert (rows + share.spare) * 4 * words + share.staging <= share.bytes
    for index, own in demands.items():
        assert len(share.sizes[index]) == own.lanes
        assert all(0 <= size <= own.windows for size in share.sizes[index])


@settings(deadline=None, derandomize=True, max_examples=60)
@given(demands=some_demands(), part=st.floats(0, 1.5))
def test_what_is_held_can_be_filled(demands: dict[int, Demand], part: float):
    """There is room for a block on its way, and for one that comes before its rows are due."""
    words = words_of(demands)
    share = share_memory(demands, words, int(part * bytes_of_all(demands)))
    block = max((own.block_windows for index, own in demands.items() if sum(share.sizes[index])), default=0)
    assert share.staging >= block * words * 4
    assert share.spare >= block


@settings(deadline=None, derandomize=True, max_examples=60)
@given(demands=some_demands())
def test_all_is_held_where_there_is_room(demands: dict[int, Demand]):
    """That is, with so much memory as it then says that it takes, and no less."""
    words = words_of(demands)
    everything = {index: [own.windows] * own.lanes for index, own in demands.items()}
    share = share_memory(demands, words, 2**60)
    assert share.sizes == everything
    assert share_memory(demands, words, share.bytes).sizes == everything
    rows = sum(own.windows * own.lanes for own in demands.values())
    assert share_memory(demands, words, 4 * words * rows).sizes != everything


@settings(deadline=None, derandomize=True, max_examples=60)
@given(demands=some_demands(4), parts=st.tuples(st.floats(0, 1.5), st.floats(0, 1.5)))
def test_more_memory_never_means_more_reading(demands: dict[int, Demand], parts: tuple[float, float]):
    words = words_of(demands)
    small, large = (share_memory(demands, words, int(part * bytes_of_all(demands))) for part in sorted(parts))
    assert reading(demands, large) <= reading(demands, small) * 1.05  # sizes come in steps


def test_step_by_step_more_memory_never_means_more_reading():
    """200 budgets for two languages, up to all that they need."""
    demands = {0: demand(weight=0.7), 1: demand(640, lanes=2, weight=0.3)}
    all_of_it = least(demands)
    costs = [reading(demands, share_memory(demands, 512, all_of_it * part // 200)) for part in range(201)]
    assert all(cost <= 1.05 * min(costs[:part]) for part, cost in enumerate(costs) if part)  # sizes come in steps
    assert costs[0] > 2 * costs[-1]


@pytest.mark.parametrize("budget", [0, 1, 1000])
def test_without_memory_to_speak_of_nothing_is_held(budget: int):
    share = share_memory({3: demand(lanes=2), 5: demand(64)}, 512, budget)
    assert share == Share({3: [0, 0], 5: [0]}, 0, 0, 0)


def test_a_block_that_is_more_than_the_memory_takes_none_from_the_others():
    demands = {0: demand(10**6, block_windows=10**5), 1: demand(256, block_windows=16, weight=0.01)}
    share = share_memory(demands, 512, 4 * 512 * 1000)
    assert share.sizes == {0: [0], 1: [256]}


@pytest.mark.parametrize("part", [0.02, 0.1, 0.3, 0.7])
def test_of_languages_alike_those_of_greater_weight_hold_more(part: float):
    demands = equal_languages(20)
    share = share_memory(demands, 512, int(part * least(demands)))
    held = [sum(share.sizes[rank]) for rank in range(20)]
    assert held == sorted(held, reverse=True)
    assert held[0] > held[-1]


def test_of_lanes_alike_some_may_hold_more_where_there_is_not_enough_for_all():
    demands = {0: demand(lanes=16)}
    sizes = share_memory(demands, 512, int(0.7 * least(demands))).sizes[0]
    assert len(set(sizes)) == 2


def test_a_language_that_is_small_for_its_weight_is_held_first():
    demands = {0: demand(64, weight=0.5), 1: demand(64 * 100, weight=0.5)}
    share = share_memory(demands, 512, least(demands) // 10)
    assert share.sizes[0] == [64]
    assert share.sizes[1][0] < 64 * 100


def test_the_sections_of_a_buffer_are_equal_but_for_the_last():
    """So that a block is read as many times as there are sections, and none of them is nearly empty."""
    demands = {0: demand(1000)}
    all_of_it = least(demands)
    for part in range(1, 20):
        (size,) = share_memory(demands, 512, all_of_it * part // 20).sizes[0]
        if size:
            assert size == math.ceil(1000 / math.ceil(1000 / size))


def test_a_tenth_of_the_memory_saves_more_than_half_of_the_reading_of_two_hundred_languages():
    """Their weights are like 1/rank, and none of them is held twice over."""
    demands = equal_languages(200)
    all_of_it = least(demands)
    nothing, tenth = (share_memory(demands, 512, budget) for budget in (0, all_of_it // 10))
    assert 0.9 * all_of_it < 10 * tenth.bytes <= all_of_it
    assert reading(demands, tenth) < reading(demands, nothing) / 2


def test_a_process_that_has_no_row_holds_nothing():
    """Its devices are in no mesh, so that it has no stream."""
    for budget in (0, 10**9):
        share = share_memory({0: demand(lanes=0), 1: demand(lanes=0)}, 512, budget)
        assert share == Share({0: [], 1: []}, 0, 0, 0)


@settings(deadline=None, derandomize=True, max_examples=25)
@given(
    windows=st.lists(st.integers(1, 12), min_size=1, max_size=2),
    weights=st.lists(st.floats(0.05, 1), min_size=2, max_size=2),
    part=st.floats(0.05, 1),
)
def test_little_is_lost_against_the_best_of_all_ways(windows: list[int], weights: list[float], part: float):
    """All of them are tried: each language takes any of its choices, as far as the rows held are no more in all."""
    demands = {
        index: demand(16 * count, block_windows=1, tokens=64, weight=weights[index])
        for index, count in enumerate(windows)
    }
    share = share_memory(demands, 64, int(part * least(demands)))
    rows = sum(map(sum, share.sizes.values()))
    best = min(
        sum(own.weight * cost for own, (_, cost) in zip(demands.values(), chosen, strict=True))
        for chosen in product(*(own.choices() for own in demands.values()))
        if sum(size for size, _ in chosen) <= rows
    )
    assert reading(demands, share) <= 1.35 * best
