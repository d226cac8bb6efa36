"""States: plain, small, equal everywhere; and what is refused, in which words."""

import base64
import copy
import json
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stores import EN_ALONE, STD, WEIGHTS, assert_same, host_batches, loader, num, write_store

from flatmix import StateError
from flatmix.loader.state import Facts, make_state, parse_state, restore_counts
from flatmix.order import Order

FIELDS = [
    "version", "order", "step", "slot", "seed", "selector", "streams", "timeline", "languages", "digests", "phases",
    "window", "sequences_per_read_block", "read_blocks_per_shuffle_buffer", "keys", "counts",
]  # fmt: skip


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        assert all(type(key) is str for key in value)
        return [leaf for item in value.values() for leaf in leaves(item)]
    return [leaf for item in value for leaf in leaves(item)] if isinstance(value, list) else [value]


@pytest.fixture(scope="module")
def after_ten(standard: str) -> dict[str, Any]:
    return loader(standard).state(10)


def test_a_state_is_plain_json_and_the_callers_own(standard: str):
    own = loader(standard)
    for step in range(13):
        own.load_host(step)
    state = own.state(13)
    kept = copy.deepcopy(state)
    assert {type(leaf) for leaf in leaves(state)} <= {int, float, str, bool, type(None)}
    assert json.loads(json.dumps(state)) == state
    for step in range(13, 23):
        own.load_host(step)
        own.state(step)
    assert state == kept
    state["languages"].append("xx")
    state["window"]["len"] = 9
    assert own.state(13) == kept


def test_a_state_says_where_the_run_stands(after_ten: dict[str, Any], standard: str):
    assert list(after_ten) == FIELDS
    digest = loader(standard)._splits["en"].digest
    assert after_ten["version"] == after_ten["order"] == 1
    assert (after_ten["step"], after_ten["slot"], after_ten["timeline"]) == (10, 80, [[0, 0, 8]])
    assert (after_ten["seed"], after_ten["selector"], after_ten["streams"]) == ("7", "hash", 1)
    assert after_ten["languages"] == ["en", "ar", "sw"]
    assert after_ten["digests"][0] == digest[:16]
    assert after_ten["phases"] == [[0, [0.6, 0.3, 0.1]]]
    assert after_ten["sequences_per_read_block"] == [4, 4, 4]


def test_a_state_knows_neither_hosts_nor_devices_nor_reading(standard: str, after_ten: dict[str, Any]):
    other = loader(standard, prefetch=4, threads=2, memory_budget=0, vocab_size=10_000)
    for step in range(20):
        other.load_host(step, [0, 1])
    assert other.state(10) == after_ten
    assert standard not in json.dumps(after_ten)


def test_the_largest_seed_is_kept_exactly(standard: str):
    state = loader(standard, seed=2**64 - 1).state(3)
    assert state["seed"] == "18446744073709551615"
    assert loader(standard, seed=2**64 - 1).restore(json.loads(json.dumps(state))) == 3


def test_balanced_has_no_counts_to_save(standard: str):
    assert loader(standard, selector="balanced").state(10)["counts"] is None


@pytest.mark.parametrize(("streams", "languages"), [(1, 2), (8, 20), (64, 200)])
def test_a_state_is_small_after_a_billion_slots(streams: int, languages: int):
    """4 KiB, 32 bytes a language, 2.5 bytes for each stream and language."""
    names = [f"language-{number}" for number in range(languages)]
    weights = {name: 1 / (number + 1) for number, name in enumerate(names)}
    slot = 10**9 // streams * streams
    order = Order(dict.fromkeys(names, 10**7), weights, seed=2**63, streams=streams, batch=streams, window_tokens=2049)
    shares = np.array(list(weights.values())) / sum(weights.values())
    counts = np.random.default_rng(3).multinomial(slot // streams, shares, size=streams)
    order.remember(slot, counts)
    facts = Facts(["0123456789abcdef"] * languages, {"len": 2048, "tokens": 2049, "stride": 2048}, {})
    state = make_state(order, slot // streams, facts)
    assert len(json.dumps(state)) < 4096 + 32 * languages + 2.5 * streams * languages
    fresh = order.with_timeline(order.timeline)
    restore_counts(parse_state(json.loads(json.dumps(state))), fresh)
    np.testing.assert_array_equal(fresh.counts(slot), counts)


@pytest.mark.parametrize("off", [0, 1, -1, 63, 64, -64, -65, 8191, 8192, 2**31, -(2**31)])
def test_counts_far_from_those_expected_come_back_exactly(off: int):
    order = Order(
        {"a": 10**9, "b": 10**9, "c": 10**9}, {"a": 1, "b": 1, "c": 2}, seed=1, streams=2, batch=2, window_tokens=8
    )
    slot = 2**34
    counts = order.with_timeline(order.timeline).counts(0) + np.array([2**31, 2**31, 2**32])
    counts[0] += [off, -off, 0]
    order.remember(slot, counts)
    facts = Facts(["0"] * 3, {"len": 8}, {})
    fresh = order.with_timeline(order.timeline)
    restore_counts(parse_state(make_state(order, slot // 2, facts)), fresh)
    np.testing.assert_array_equal(fresh.counts(slot), counts)


def test_what_was_saved_is_not_counted_again(standard: str, monkeypatch: pytest.MonkeyPatch):
    from flatmix.order import kernels

    states = [loader(standard).state(step) for step in (10, 5000)]
    counted: list[int] = []
    count_positions = kernels.count_positions

    def noted(scrambled: Any, base: Any, first: Any, stop: Any, *more: Any) -> None:
        counted.append(int(stop) - int(first))
        count_positions(scrambled, base, first, stop, *more)

    monkeypatch.setattr(kernels, "count_positions", noted)
    for state in states:
        counted.clear()
        own = loader(standard)
        own.restore(state)
        own.load_host(state["step"])
        assert own.state(state["step"]) == state
        own.stats(state["step"])
        assert sum(counted) == 0
        own.load_host(state["step"] + 1)
        own.load_host(state["step"] + 2)
        assert sum(counted) <= 3 * 8
    loader(standard).load_host(5000)
    assert sum(counted) > 5000 * 8 - 1  # so that the numbers above mean something


def damaged(change: Callable[[dict[str, Any]], Any]) -> Callable[[dict[str, Any]], Any]:
    def result(state: dict[str, Any]) -> Any:
        changed = copy.deepcopy(state)
        return changed if (other := change(changed)) is None else other

    return result


def packed(*numbers: int) -> str:
    return base64.b85encode(zlib.compress(bytes(numbers))).decode()


DAMAGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    **{f"no {name}": (lambda state, name=name: state.pop(name) and None) for name in FIELDS},
    **{f"null {name}": (lambda state, name=name: state.update({name: None})) for name in FIELDS},
    **{f"a list for {name}": (lambda state, name=name: state.update({name: [[]]})) for name in FIELDS},
    **{f"an object for {name}": (lambda state, name=name: state.update({name: {"a": []}})) for name in FIELDS},
    "nothing": lambda state: {},
    "another version": lambda state: state.update(version=2),
    "version true": lambda state: state.update(version=True),
    "a field more": lambda state: state.update(hosts=4),
    "a negative step": lambda state: state.update(step=-1),
    "a step that is no whole number": lambda state: state.update(step=10.5),
    "another step": lambda state: state.update(step=11),
    "a step beyond all slots": lambda state: state.update(step=2**62),
    "a step beyond 64 bits": lambda state: state.update(step=2**70),
    "another slot": lambda state: state.update(slot=88),
    "streams 0": lambda state: state.update(streams=0),
    "no timeline entry": lambda state: state.update(timeline=[]),
    "a timeline that begins late": lambda state: state.update(timeline=[[1, 0, 8]]),
    "a timeline out of sequence": lambda state: state.update(timeline=[[0, 0, 8], [0, 8, 8]]),
    "a timeline entry of two": lambda state: state.update(timeline=[[0, 0]]),
    "a batch of 0": lambda state: state.update(timeline=[[0, 0, 0]]),
    "a timeline that changes after the step": lambda state: state.update(timeline=[[0, 0, 8], [20, 800, 8]]),
    "a batch that changes after the step": lambda state: state.update(timeline=[[0, 0, 8], [20, 160, 16]]),
    "too few digests": lambda state: state["digests"].pop() and None,
    "no digests": lambda state: state["digests"].clear(),
    "a digest more": lambda state: state["digests"].append("0123456789abcdef"),
    "too few block sizes": lambda state: state["sequences_per_read_block"].pop() and None,
    "no buffer sizes": lambda state: state["read_blocks_per_shuffle_buffer"].clear(),
    "no phases": lambda state: state.update(phases=[]),
    "a phase without weights": lambda state: state.update(phases=[[0, []]]),
    "weights of 0": lambda state: state.update(phases=[[0, [0, 0, 0]]]),
    "a negative weight": lambda state: state.update(phases=[[0, [1, -1, 1]]]),
    "a weight that is no number": lambda state: state.update(phases=[[0, [1, float("nan"), 1]]]),
    "an infinite weight": lambda state: state.update(phases=[[0, [1, float("inf"), 1]]]),
    "a weight missing": lambda state: state.update(phases=[[0, [0.6, 0.4]]]),
    "counts cut short": lambda state: state.update(counts=state["counts"][:-3]),
    "empty counts": lambda state: state.update(counts=""),
    "counts that are no base85": lambda state: state.update(counts=state["counts"][:-1] + " "),
    "counts beyond ASCII": lambda state: state.update(counts="é" + state["counts"]),
    "counts that are not compressed": lambda state: state.update(counts=base64.b85encode(b"abc").decode()),
    "counts of nothing": lambda state: state.update(counts=packed()),
    "too few counts": lambda state: state.update(counts=packed(0, 0)),
    "too many counts": lambda state: state.update(counts=packed(0, 0, 0, 0)),
    "counts that do not add up": lambda state: state.update(counts=packed(8, 0, 0)),
    "counts below 0": lambda state: state.update(counts=packed(255, 1, 0, 254, 1)),
    "an endless count": lambda state: state.update(counts=packed(*[255] * 12, 1, 0, 0)),
    "a count that goes on at the end": lambda state: state.update(counts=packed(0, 0, 128)),
}  # fmt: skip


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_state_is_refused_and_leaves_the_loader_as_it_was(
    standard: str, after_ten: dict[str, Any], damage: str
):
    own = loader(standard)
    before, order = own.state(4), own.order
    with pytest.raises(StateError, match="state"):
        own.restore(damaged(DAMAGES[damage])(after_ten))
    assert own.order is order
    assert own.state(4) == before


def test_every_changed_character_of_the_counts_is_noticed(standard: str):
    own, plain = loader(standard), loader(standard).state(3000)
    own.restore(plain)
    for place, character in enumerate(plain["counts"]):
        other = "0" if character != "0" else "1"
        changed = {**plain, "counts": plain["counts"][:place] + other + plain["counts"][place + 1 :]}
        try:
            own.restore(changed)
        except StateError:
            continue
        assert own.state(3000) == plain  # bits that the packing does not use


def test_counts_of_a_balanced_state_are_refused(standard: str):
    """They would be believed near the slot of the state, and never checked."""
    state = loader(standard, selector="balanced").state(10)
    with pytest.raises(StateError, match="counts"):
        loader(standard, selector="balanced").restore({**state, "counts": packed(0, 1, 2)})


CHANGED: dict[str, tuple[dict[str, Any], list[str]]] = {
    "window": ({"len": 16, "sequences_per_read_block": 1}, ["len: 8 in the state, 16 here"]),
    "stride": ({"stride": 4}, ["stride: 8 in the state, 4 here"]),
    "extra token": (
        {"extra_tokens": 1, "sequences_per_read_block": 3},
        ["tokens: 8 in the state, 9 here", "sequences_per_read_block of 'en': 4 in the state, 3 here"],
    ),
    "seed": ({"seed": 8}, ["seed: '7' in the state, '8' here"]),
    "selector": ({"selector": "balanced"}, ["selector: 'hash' in the state, 'balanced' here"]),
    "weights": (
        {"weights": {"en": 0.5, "ar": 0.4, "sw": 0.1}},
        ["weights", "[0.6, 0.3, 0.1]", "in the state", "[0.5, 0.4, 0.1]"],
    ),
    "a language less": (
        {"weights": {"en": 0.6, "ar": 0.3}},
        ["languages: ['en', 'ar', 'sw'] in the state, ['en', 'ar'] here"],
    ),
    "languages in another sequence": (
        {"weights": {"sw": 0.1, "ar": 0.3, "en": 0.6}},
        ["languages: ['en', 'ar', 'sw'] in the state, ['sw', 'ar', 'en'] here"],
    ),
    "blocks": (
        {"sequences_per_read_block": 2},
        [f"sequences_per_read_block of {name!r}: 4 in the state, 2 here" for name in WEIGHTS],
    ),
    "blocks of one language": (
        {"sequences_per_read_block": {"en": 4, "ar": 5, "sw": 4}},
        ["It differs in sequences_per_read_block of 'ar': 4 in the state, 5 here"],
    ),
    "buffers": (
        {"read_blocks_per_shuffle_buffer": {"sw": 3, "en": 2, "ar": 2}},
        ["It differs in read_blocks_per_shuffle_buffer of 'sw': 2 in the state, 3 here"],
    ),
    "streams": ({"streams": 2, "sequences_per_read_block": 2}, ["streams: 1 in the state, 2 here"]),
    "keys": ({"keys": {"ar": 5}}, ["keys ar: None in the state, '5' here"]),
    "phases before the step": ({"phases": [(5, {"en": 1})]}, ["weights", "(40, [1.0, 0.0, 0.0])] here"]),
    "everything": (
        {"seed": 9, "len": 4, "selector": "balanced", "read_blocks_per_shuffle_buffer": 7},
        ["seed: '7' in the state, '9' here", "len: 8 in the state, 4 here", "'hash' in", "'ar': 2 in the state"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", CHANGED)
def test_what_changes_the_past_is_named_with_both_values(standard: str, after_ten: dict[str, Any], what: str):
    changes, words = CHANGED[what]
    own = loader(standard, **changes)
    before = own.state(3)
    with pytest.raises(StateError) as caught:
        own.restore(after_ten)
    for word in words:
        assert word in str(caught.value)
    assert own.state(3) == before


def test_a_language_more_is_refused(tmp_path: Path, standard: str, after_ten: dict[str, Any]):
    store = write_store(
        tmp_path / "s.zarr", {"en": num(640, 1000), "ar": num(320, 5000), "sw": num(32, 9000), "ti": num(80, 1)}
    )
    own = loader(store, {**WEIGHTS, "ti": 0.1})
    with pytest.raises(StateError, match=r"\['en', 'ar', 'sw'\] in the state, \['en', 'ar', 'sw', 'ti'\] here"):
        own.restore(after_ten)


def test_another_text_of_the_same_length_is_refused(tmp_path: Path, after_ten: dict[str, Any]):
    store = write_store(tmp_path / "s.zarr", {**STD, "ar": num(320, 5001)})
    with pytest.raises(StateError, match=r"digests of 'ar': '[0-9a-f]{16}' in the state, '[0-9a-f]{16}' here"):
        loader(store).restore(after_ten)


def test_what_concerns_reading_only_may_change(standard: str, after_ten: dict[str, Any]):
    expected = host_batches(loader(standard), 10, 14)
    own = loader(standard, threads=3, prefetch=0, memory_budget=40, vocab_size=2**20)
    assert own.restore(after_ten) == 10
    for step in range(10, 14):
        assert_same(expected[step - 10], own.load_host(step))


def test_weights_that_differ_by_a_factor_are_the_same(standard: str, after_ten: dict[str, Any]):
    assert loader(standard, {"en": 1.2, "ar": 0.6, "sw": 0.2}).restore(after_ten) == 10


def test_phases_after_the_step_may_change(standard: str, after_ten: dict[str, Any]):
    own = loader(standard, phases=[(10, EN_ALONE), (12, {"sw": 1})])
    own.restore(after_ten)
    assert set(own.load_host(10).language.tolist()) == {0}
    assert set(own.load_host(12).language.tolist()) == {2}
    assert_same(loader(standard).load_host(9), own.load_host(9))


def test_a_state_before_the_first_step_fits_any_weights_of_later_phases(standard: str):
    state = loader(standard).state(0)
    assert loader(standard, phases=[(1, EN_ALONE)]).restore(state) == 0
