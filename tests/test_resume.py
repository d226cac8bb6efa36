"""A run that is taken up again goes on as if it had not been interrupted: the same batches, the same states."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import outputs, run_python
from stores import EN_ALONE, STD, assert_same, expected_batch, host_batches, loader, over_devices, tokens_digest

from flatmix import StateError


@pytest.fixture(scope="module")
def unbroken(standard: str) -> list[Any]:
    """130 batches of one run: sw goes round about 25 times, en and ar about 7."""
    return host_batches(loader(standard), 0, 130)


def test_resume_at_any_step_equals_an_unbroken_run(standard: str, unbroken: list[Any]):
    own = loader(standard)
    for saved in range(121):
        fresh = loader(standard)
        assert fresh.restore(json.loads(json.dumps(own.state(saved)))) == saved
        often = saved % 10 == 0
        for step in range(saved, saved + 6) if often else (saved, saved + 1, saved + 5):
            assert_same(unbroken[step], fresh.load_host(step))
        if often:
            assert fresh.stats(saved) == own.stats(saved)


def test_a_run_resumed_many_times_ends_in_the_same_state(standard: str, unbroken: list[Any]):
    own, step = loader(standard), 0
    for stretch in (7, 5, 9, 1, 20, 18):
        state = own.state(step)
        own = loader(standard)
        assert own.restore(state) == step
        assert own.state(step) == state
        for _ in range(stretch):
            assert_same(unbroken[step], own.load_host(step))
            step += 1
    assert step == 60
    assert own.state(60) == loader(standard).state(60)


def test_a_state_can_be_restored_into_a_loader_that_is_further_on(standard: str, unbroken: list[Any]):
    own = loader(standard)
    state = own.state(7)
    for step in range(25):
        own.load_host(step)
    assert own.restore(state) == 7
    assert own.state(7) == state
    for step in range(7, 20):
        assert_same(unbroken[step], own.load_host(step))


FRESH = """
import json, sys
import stores
for state in json.load(sys.stdin):
    own = stores.loader(sys.argv[1], prefetch=2)
    step = own.restore(state)
    print(stores.tokens_digest(own.steps(step, step + 20)))
"""


def test_a_new_process_resumes_at_the_edges_of_buffers_and_epochs(standard: str, unbroken: list[Any], tmp_path: Path):
    own = loader(standard, prefetch=2)
    minipochs = [own.order.rows(step).minipoch[own.order.rows(step).language == 0] for step in range(40)]
    used_up = next(step for step in range(1, 40) if 1 in minipochs[step])
    epochs = [own.order.rows(step).epoch.max() for step in range(60)]
    last_of_epoch = max(step for step in range(60) if epochs[step] == epochs[20])
    saved = [0, 1, used_up, used_up + 1, last_of_epoch]
    (tmp_path / "states.json").write_text(json.dumps([own.state(step) for step in saved]))
    code = FRESH.replace("sys.stdin", f"open({str(tmp_path / 'states.json')!r})")
    found = outputs(run_python(code, standard))[0].splitlines()
    assert found == [tokens_digest(unbroken[step : step + 20]) for step in saved]


def test_what_was_only_prefetched_is_not_part_of_a_state(standard: str, unbroken: list[Any]):
    for consumed in (0, 1, 7, 20):
        with loader(standard, prefetch=4) as own, loader(standard) as elsewhere:
            steps = own.steps()
            for _ in range(consumed):
                next(steps)
            assert elsewhere.restore(own.state(consumed)) == consumed
            assert_same(unbroken[consumed], elsewhere.load_host(consumed))
            assert_same(unbroken[consumed], next(steps))


def test_a_run_saved_on_one_device_goes_on_on_eight(standard: str, unbroken: list[Any]):
    state = loader(standard).state(10)
    with loader(standard, sharding=over_devices(8), prefetch=4) as own:
        step = own.restore(state)
        for step, batch in enumerate(own.steps(step, step + 5), step):  # noqa: B020  they count on together
            assert_same(unbroken[step], batch)
    hosts = [loader(standard), loader(standard)]
    for host, rows in zip(hosts, ([0, 1, 2, 3], [4, 5, 6, 7]), strict=True):
        host.restore(state)
        np.testing.assert_array_equal(host.load_host(12, rows).targets, unbroken[12].targets[rows])
    assert hosts[0].state(13) == hosts[1].state(13)


def joined(batches: list[Any]) -> Any:
    return np.concatenate([batch.targets for batch in batches])


def test_a_larger_batch_goes_on_with_the_same_slots(standard: str, unbroken: list[Any]):
    own = loader(standard, batch=16)
    assert own.restore(loader(standard).state(10)) == 10
    for step in range(10, 20):
        first = 10 + 2 * (step - 10)
        np.testing.assert_array_equal(own.load_host(step).targets, joined(unbroken[first : first + 2]))
    for step in range(10):
        assert_same(unbroken[step], own.load_host(step))
    assert own.state(12)["timeline"] == [[0, 0, 8], [10, 80, 16]]
    assert own.state(9)["timeline"] == [[0, 0, 8]]
    assert own.stats(11) == loader(standard).stats(12)


def test_the_batch_may_change_again_and_again(standard: str, unbroken: list[Any]):
    sizes = [8, 16, 4, 8, 24, 24]
    step, slot, own = 0, 0, loader(standard)
    targets = joined(unbroken)
    for size in sizes:
        changed = loader(standard, batch=size)
        assert changed.restore(own.state(step)) == step
        own = changed
        for _ in range(4):
            np.testing.assert_array_equal(own.load_host(step).targets, targets[slot : slot + size])
            step, slot = step + 1, slot + size
    assert own.state(step)["timeline"] == [
        [0, 0, 8], [4, 32, 16], [8, 96, 4], [12, 112, 8], [16, 144, 24]
    ]  # fmt: skip
    assert own.state(step)["slot"] == slot


def test_a_batch_changed_twice_at_one_step_counts_once(standard: str, unbroken: list[Any]):
    first = loader(standard, batch=16)
    first.restore(loader(standard).state(10))
    own = loader(standard, batch=24)
    own.restore(first.state(10))
    np.testing.assert_array_equal(own.load_host(10).targets, joined(unbroken[10:13]))
    assert own.state(10)["timeline"] == [[0, 0, 8], [10, 80, 24]]


def test_a_batch_that_the_streams_do_not_divide_is_refused(standard: str):
    with pytest.raises(ValueError, match=r"batch 9 .* is no multiple of streams=2: take 8 or 10"):
        loader(standard, EN_ALONE, batch=9, streams=2)


def test_a_timeline_that_skips_is_restored(standard: str, unbroken: list[Any]):
    """After a loss spike at step 12, go on from slot 200, then show a stretch again."""
    timeline = [(0, 0, 8), (12, 200, 8), (20, 40, 8)]
    state = loader(standard).state(12)
    own = loader(standard, timeline=timeline)
    assert own.restore(state) == 12
    steps = [*range(12), *range(25, 33), *range(5, 20)]
    for step, same in enumerate(steps):
        assert_same(unbroken[same], own.load_host(step))
    later = own.state(24)
    assert later["timeline"] == [list(entry) for entry in timeline]
    assert later["slot"] == 72
    plain = loader(standard)
    assert plain.restore(later) == 24
    for step in range(24, 35):
        assert_same(unbroken[steps[step]], plain.load_host(step))
    assert plain.state(30) == own.state(30)
    assert plain.stats(30) == own.stats(30)


def test_a_timeline_that_tells_another_past_is_refused(standard: str):
    state = loader(standard, timeline=[(0, 0, 8), (5, 80, 8)]).state(9)
    own = loader(standard, timeline=[(0, 0, 8), (6, 80, 8)])
    with pytest.raises(StateError, match=r"timeline before step 9 was .*\(5, 80, 8\).* and is .*\(6, 80, 8\).* here"):
        own.restore(state)
    assert own.state(7)["timeline"] == [[0, 0, 8], [6, 80, 8]]
    again = loader(standard, timeline=[(0, 0, 8), (5, 80, 8), (9, 0, 8)])
    assert again.restore(state) == 9
    assert_same(loader(standard).load_host(0), again.load_host(9))


def test_phases_by_step_hold_after_a_resume(standard: str):
    phases = [(5, EN_ALONE), (15, {"ar": 0.5, "sw": 0.5})]
    whole = loader(standard, phases=phases)
    for saved in (0, 5, 6, 15, 30):
        own = loader(standard, phases=phases)
        own.restore(whole.state(saved))
        for step in range(saved, saved + 11):
            assert_same(whole.load_host(step), own.load_host(step))
            assert_same(expected_batch(own, STD, step), own.load_host(step))
        assert own.state(saved + 5) == whole.state(saved + 5)


def test_a_phase_keeps_its_step_when_the_batch_changes(standard: str):
    phases = [(5, EN_ALONE), (15, {"sw": 1})]
    own = loader(standard, batch=16, phases=phases)
    own.restore(loader(standard, phases=phases).state(10))
    kinds = [set(own.load_host(step).language.tolist()) for step in range(10, 20)]
    assert kinds == [{0}] * 5 + [{2}] * 5
    assert own.state(17)["phases"][1:] == [[40, [1, 0, 0]], [160, [0, 0, 1]]]
    again = loader(standard, batch=8, phases=phases)
    assert again.restore(own.state(17)) == 17
    np.testing.assert_array_equal(joined([again.load_host(17), again.load_host(18)]), own.load_host(17).targets)


@pytest.mark.parametrize("selector", ["hash", "balanced"])
@pytest.mark.parametrize("streams", [1, 2, 4])
def test_runs_with_streams_and_either_selector_resume(standard: str, selector: str, streams: int):
    changes: dict[str, Any] = {"selector": selector, "streams": streams, "sequences_per_read_block": 1}
    whole, pick = loader(standard, **changes), random.Random(streams)
    for _ in range(4):
        saved = pick.randrange(200)
        own = loader(standard, **changes)
        own.restore(json.loads(json.dumps(whole.state(saved))))
        for step in range(saved, saved + 4):
            assert_same(expected_batch(whole, STD, step), own.load_host(step))


@pytest.mark.parametrize("selector", ["hash", "balanced"])
def test_a_run_at_a_billion_slots_resumes_at_once(standard: str, selector: str):
    """For hash from counts that only the state knows, made up here."""
    own, step, slot = loader(standard, selector=selector), 125_000_000, 10**9
    if selector == "hash":
        own.order.remember(slot, np.array([[600_000_123, 299_999_877, 100_000_000]]))
    state = json.loads(json.dumps(own.state(step)))
    fresh = loader(standard, selector=selector)
    assert fresh.restore(state) == step
    assert fresh.state(step) == state
    assert fresh.stats(step) == own.stats(step)
    for later in range(step, step + 5):
        assert_same(expected_batch(own, STD, later), fresh.load_host(later))
