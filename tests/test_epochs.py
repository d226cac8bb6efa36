"""Which windows come, how often and when: shares, epochs, strides, phases and timelines."""

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from stores import (
    EN_ALONE,
    STD,
    assert_same,
    expected_batch,
    first_ids,
    host_batches,
    loader,
    num,
    write_store,
)


def test_stats_count_a_small_share_exactly(standard: str):
    """Of a million slots, 1 in 10,000 goes to sw, like coin flips."""
    for seed, drawn in ((0, 113), (1, 112), (2, 97)):
        stats = loader(standard, {"en": 0.9999, "sw": 0.0001}, seed=seed).stats(125_000)
        assert stats["sw"]["rows"] == drawn
        assert stats["en"]["rows"] == 1_000_000 - drawn


def test_equal_languages_are_mixed_row_by_row(tmp_path: Path):
    names = [f"l{number}" for number in range(10)]
    store = write_store(tmp_path / "s.zarr", {name: num(800, 0) for name in names}, chunk=800)
    own = loader(store, dict.fromkeys(names, 0.1), len=1, batch=64, sequences_per_read_block=400)
    languages = own.order.languages(0, 200 * 64).reshape(200, 64)  # one stream: rows are slots
    for step in (0, 1, 199):
        assert own.load_host(step).language.tolist() == languages[step].tolist()
    assert min(len(set(row)) for row in languages.tolist()) >= 7
    joined = languages.reshape(-1)
    changes = np.flatnonzero(np.diff(joined)) + 1
    assert np.diff([0, *changes, len(joined)]).max() <= 8
    pairs = np.stack([np.bincount(languages[:, row], minlength=10) for row in range(64)])
    assert pairs.min() >= 3
    assert pairs.max() <= 41


@pytest.mark.parametrize("batch", [8, 7])
def test_each_epoch_shows_every_window_once_in_an_order_of_its_own(standard: str, batch: int):
    own = loader(standard, EN_ALONE, batch=batch)
    shown = [first for step in range(320 // batch + 1) for first in first_ids(own.load_host(step))]
    epochs = [tuple(shown[start : start + 80]) for start in range(0, 320, 80)]
    assert [sorted(epoch) for epoch in epochs] == [[1000 + 8 * window for window in range(80)]] * 4
    assert len(set(epochs)) == 4


def test_a_language_smaller_than_a_batch_goes_round_within_it(standard: str):
    own = loader(standard, {"sw": 1})
    shown = [first for step in range(3) for first in first_ids(own.load_host(step))]
    windows = {9000, 9008, 9016, 9024}
    assert [set(shown[start : start + 4]) for start in range(0, 24, 4)] == [windows] * 6


def test_a_small_language_of_great_weight_never_ends(standard: str):
    own = loader(standard, {"en": 0.05, "sw": 0.95}, prefetch=2)
    shown: Counter[int] = Counter({9000 + 8 * window: 0 for window in range(4)})
    with own:
        for step, batch in enumerate(own.steps(0, 200), 1):
            shown.update(first for first in first_ids(batch) if first >= 9000)
            assert max(shown.values()) - min(shown.values()) <= 1
            if step % 20 == 0:
                assert int(own.stats(step)["sw"]["epochs"]) == shown.total() // 4
    assert step == 200


WINDOW_STARTS = [
    (8, 8, [0]), (9, 8, [0]), (15, 8, [0]), (16, 8, [0, 8]), (17, 8, [0, 8]),
    (20, 4, [0, 4, 8, 12]), (24, 4, [0, 4, 8, 12, 16]), (16, 4, [0, 4, 8]), (21, 12, [0, 12]),
]  # fmt: skip


@pytest.mark.parametrize(("tokens", "stride", "starts"), WINDOW_STARTS)
def test_an_epoch_shows_the_windows_of_the_stride(tmp_path: Path, tokens: int, stride: int, starts: list[int]):
    store = write_store(tmp_path / "s.zarr", {"en": num(tokens, 100)}, chunk=5)
    for batch in (1, 3):
        own = loader(store, EN_ALONE, batch=batch, stride=stride, sequences_per_read_block=1)
        rows = np.concatenate([own.load_host(step).targets for step in range(len(starts))])
        assert sorted(rows[: len(starts), 0].tolist()) == [100 + start for start in starts]
        assert (rows == rows[:, :1] + np.arange(8)).all()


def test_phases_take_hold_at_their_steps(standard: str):
    phases = [(5, {"ar": 1}), (9, {"sw": 0.5, "en": 0.5})]
    own = loader(standard, {"en": 1}, phases=phases)
    assert own.languages == ("en", "ar", "sw")
    languages = [set(own.load_host(step).language.tolist()) for step in range(30)]
    assert languages[:9] == [{0}] * 5 + [{1}] * 4
    assert set().union(*languages[9:]) == {0, 2}
    unbroken = loader(standard, {"en": 1})
    assert_same(unbroken.load_host(4), own.load_host(4))
    for step in range(30):
        assert_same(expected_batch(own, STD, step), own.load_host(step))


def test_a_language_goes_on_after_a_phase_where_it_stopped(standard: str):
    own = loader(standard, EN_ALONE, phases=[(4, {"ar": 1}), (7, EN_ALONE)])
    alone = loader(standard, EN_ALONE)
    for step in range(4, 12):
        np.testing.assert_array_equal(own.load_host(step + 3).targets, alone.load_host(step).targets)


def test_a_timeline_leaves_slots_out_and_shows_them_again(standard: str):
    plain = loader(standard)
    own = loader(standard, timeline=[(0, 0, 8), (3, 80, 8), (6, 8, 8)])
    expected = [0, 1, 2, 10, 11, 12, 1, 2, 3]
    for step, same in enumerate(expected):
        assert_same(plain.load_host(same), own.load_host(step))
    shown = Counter(own.languages[at] for step in range(9) for at in own.load_host(step).language.tolist())
    assert {name: of["rows"] for name, of in own.stats(9).items()} == shown


def test_stats_give_the_place_in_the_data_after_a_jump(standard: str):
    own, plain = loader(standard, timeline=[(0, 0, 8), (3, 80, 8)]), loader(standard)
    assert own.stats(5)["en"]["epochs"] == plain.stats(12)["en"]["epochs"]
    assert sum(of["rows"] for of in own.stats(5).values()) == 40


def test_a_timeline_changes_the_batch_size(standard: str):
    """Rows of a stream stand together, so the batches are joined by stream."""
    own = loader(standard, {"en": 1}, streams=2, batch=12, timeline=[(0, 0, 4), (3, 12, 12)])
    small = loader(standard, {"en": 1}, streams=2, batch=4)
    for step in range(3):
        assert_same(small.load_host(step), own.load_host(step))
    for step in (3, 4):
        parts = host_batches(small, 3 * (step - 3) + 3, 3 * (step - 3) + 6)
        joined = [parts[part].targets[2 * stream : 2 * stream + 2] for stream in range(2) for part in range(3)]
        np.testing.assert_array_equal(own.load_host(step).targets, np.concatenate(joined))
