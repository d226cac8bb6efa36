"""The batches of a loader: what is in them, and what a loader says of them."""

import random
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import reference
from fakes import watch
from helpers import giant_store
from stores import (
    EN_ALONE,
    FIELDS,
    STD,
    WEIGHTS,
    assert_same,
    expected_batch,
    first_ids,
    host_batches,
    loader,
    num,
    plain_batch,
    tokens_digest,
    write_store,
)

# of 200 batches of the standard loader
STANDARD_DIGEST = "7e8478c7720e767bc67604662738cd169e1bd404f8e906664c0d2445c7e63422"


def test_batches_are_those_of_the_slow_reference(standard: str):
    own = loader(standard)
    order = reference.Order(
        {"en": 80, "ar": 40, "sw": 4}, WEIGHTS, seed=7, batch=8, streams=1,
        sequences_per_read_block=4, read_blocks_per_shuffle_buffer=2,
    )  # fmt: skip
    for step in range(60):
        rows = [(row.language, row.window) for row in order.rows(step)]
        assert_same(plain_batch(STD, ["en", "ar", "sw"], rows, own.token_batch_params), own.load_host(step))


def test_two_hundred_standard_batches_have_not_changed(standard: str):
    assert tokens_digest(host_batches(loader(standard), 0, 200)) == STANDARD_DIGEST


def test_rows_of_a_worked_example(tmp_path: Path):
    """Documents 5 6, none, 7, and 8 9 10, in windows of 3."""
    store = write_store(tmp_path / "s.zarr", {"en": [[5, 6], [], [7], [8, 9, 10]]})

    def rows_from(**shape: Any) -> dict[int, tuple[list[int], list[int], list[bool], list[bool]]]:
        own = loader(store, EN_ALONE, batch=1, sequences_per_read_block=1, **shape)
        batches = host_batches(own, 0, own.order.shuffles[0].windows)
        columns = ("inputs", "targets", "is_seq_start", "loss_mask")
        return {first_ids(batch)[0]: tuple(getattr(batch, name)[0].tolist() for name in columns) for batch in batches}

    assert rows_from(len=3) == {
        5: ([0, 5, 0], [5, 6, 7], [True, False, True], [True, True, True]),
        8: ([0, 8, 9], [8, 9, 10], [True, False, False], [True, True, True]),
    }
    overlapping = rows_from(len=3, stride=1)
    assert overlapping[6] == ([0, 0, 0], [6, 7, 8], [False, True, True], [False, True, True])
    assert rows_from(len=2, extra_tokens=1, stride=2) == {
        6: ([5, 0], [6, 7], [False, True], [True, True]),
        8: ([0, 8], [8, 9], [True, False], [True, True]),
    }


@pytest.mark.parametrize("extra_tokens", [0, 1, 2])
@pytest.mark.parametrize("stride", [None, 1, 3, 5])
def test_flags_inputs_and_mask_follow_documents(tmp_path: Path, extra_tokens: int, stride: int | None):
    documents = [[5, 6], [], [7], [8, 9, 10], [0], [11], [2**31 - 1, 12, 13, 14, 15]]
    store = write_store(tmp_path / "s.zarr", {"en": documents}, chunk=5)
    own = loader(store, EN_ALONE, len=3, batch=2, extra_tokens=extra_tokens, stride=stride, sequences_per_read_block=1)
    for step in range(12):
        expected = expected_batch(own, {"en": documents}, step)
        assert_same(expected, own.load_host(step))
        if step == 0 and stride in (None, 3):
            assert_same(expected, own.load(step))


def test_every_array_has_the_shape_and_type_promised(standard: str):
    for extra_tokens in (0, 1):
        own = loader(standard, {"en": 1, "ar": 1}, batch=5, extra_tokens=extra_tokens)
        for batch in (own.load(0), own.load_host(0)):
            arrays = {name: (getattr(batch, name).shape, str(getattr(batch, name).dtype)) for name in FIELDS}
            assert arrays == {
                "inputs": ((5, 8), "uint32"),
                "targets": ((5, 8), "uint32"),
                "is_seq_start": ((5, 8), "bool"),
                "loss_mask": ((5, 8), "bool"),
                "language": ((5,), "int32"),
            }
        assert isinstance(own.load(0).inputs, jax.Array)
        assert type(own.load_host(0).inputs) is np.ndarray


def test_load_host_takes_rows_in_any_sequence_and_none(standard: str):
    own = loader(standard)
    for rows in ([7, 0, 7], [], [3], range(8)):
        for step in (0, 0, 1, 9):
            assert_same(expected_batch(own, STD, step, list(rows)), own.load_host(step, iter(rows)))
    assert own.load_host(5, []).inputs.shape == (0, 8)


def test_a_caller_may_write_into_host_batches(standard: str):
    own, expected = loader(standard), host_batches(loader(standard), 0, 30)
    for step in range(30):
        batch = own.load_host(step)
        assert_same(expected[step], batch)
        for name in FIELDS:
            getattr(batch, name)[:] = 1


def test_vocab_size_must_be_above_every_id(tmp_path: Path):
    store = write_store(tmp_path / "s.zarr", {"en": num(32, 0), "ar": [*num(32, 0), [262143]]})
    weights = {"en": 1, "ar": 1}
    loader(store, weights, vocab_size=262144).load_host(0)
    with pytest.raises(ValueError, match="'ar' has ids up to 262143, and vocab_size is 262143: take at least 262144"):
        loader(store, weights, vocab_size=262143)


def test_stats_agree_with_the_rows_that_were_given(standard: str):
    own = loader(standard, streams=1)
    drawn: Counter[str] = Counter()
    for step in range(40):
        drawn.update(own.languages[index] for index in own.load_host(step).language.tolist())
    stats = own.stats(40)
    assert {name: of["rows"] for name, of in stats.items()} == dict(drawn)
    assert [stats[name]["epochs"] for name in ("en", "ar", "sw")] == [
        drawn["en"] / 80, drawn["ar"] / 40, drawn["sw"] / 4,
    ]  # fmt: skip
    assert {of["left_out"] for of in stats.values()} == {0}
    assert own.stats(0)["en"] == {"rows": 0, "epochs": 0.0, "left_out": 0}


def test_stats_tell_how_many_windows_an_epoch_leaves_out(standard: str):
    own = loader(standard, {"en": 1, "ar": 0}, streams=3, batch=9, sequences_per_read_block=7)
    assert own.stats(2) == {
        "en": {"rows": 18, "epochs": 18 / 63, "left_out": 80 - 63},
        "ar": {"rows": 0, "epochs": 0.0, "left_out": 0},
    }


def test_metrics_add_up(standard: str, monkeypatch: pytest.MonkeyPatch):
    disk = watch(monkeypatch)
    own = loader(standard, prefetch=0)
    assert own.metrics() == {
        "seconds_waited": 0.0, "rows": 0, "rows_read_alone": 0, "bytes_read": 0, "buffers_filled": 0, "buffer_fill": 0.0
    }  # fmt: skip
    for step in range(20):
        own.load(step)
    metrics = own.metrics()
    assert metrics["rows"] == 160
    assert metrics["rows_read_alone"] == len(disk.spans(below=9))
    assert metrics["bytes_read"] == 4 * sum(read.tokens for read in disk.reads if read.waited_for)
    assert metrics["buffers_filled"] > 3
    assert metrics["seconds_waited"] > 0
    assert 0 < metrics["buffer_fill"] <= 1


def test_memory_tells_what_is_held_of_each_language(standard: str):
    with loader(standard, read_blocks_per_shuffle_buffer=10) as own:
        memory = own.memory()
        assert set(memory) == {"budget", "buffers", "languages"}
        assert memory["budget"] >= memory["buffers"] > 0
        assert list(memory["languages"]) == ["en", "ar", "sw"]
        row = 8 * 4
        assert memory["languages"]["en"] == {
            "whole": 40 * row, "held": 40 * row, "times_read": 1.0, "read_alone": 0.0
        }  # fmt: skip
        assert memory["languages"]["sw"]["whole"] == 4 * row


def test_memory_tells_what_is_read_alone(standard: str):
    own = loader(standard, streams=2, sequences_per_read_block=2, memory_budget=0)
    assert own.memory() == {
        "budget": 0,
        "buffers": 0,
        "languages": {
            name: {"whole": 2 * windows * 32, "held": 0, "times_read": 0.0, "read_alone": 1.0}
            for name, windows in (("en", 4), ("ar", 4), ("sw", 2))
        },
    }


def test_memory_says_nothing_of_languages_without_weight(standard: str):
    assert list(loader(standard, {"en": 1, "ar": 0}).memory()["languages"]) == ["en"]


def test_a_step_far_away_comes_at_once(standard: str):
    own = loader(standard)
    assert_same(expected_batch(own, STD, 1_000_000), own.load_host(1_000_000))
    assert_same(expected_batch(own, STD, 3), own.load_host(3))


def test_many_threads_may_load_at_once(standard: str):
    own, expected = loader(standard), host_batches(loader(standard), 0, 40)
    failed: list[BaseException] = []

    def work(seed: int) -> None:
        try:
            for step in random.Random(seed).sample(range(40), 20):
                assert_same(expected[step], own.load_host(step))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed


def test_a_closed_loader_refuses_to_load(standard: str):
    own = loader(standard)
    own.load_host(0)
    own.close()
    own.close()
    for use in (lambda: own.load(0), lambda: own.load_host(0), lambda: own.steps(0)):
        with pytest.raises(ValueError, match="this loader is closed"):
            use()


def test_a_loader_closes_at_the_end_of_its_context(standard: str):
    with loader(standard) as own:
        own.load_host(0)
    with pytest.raises(ValueError, match="closed"):
        own.load_host(1)


def test_windows_beyond_two_to_the_32_tokens_hold_their_own_tokens(tmp_path: Path):
    """Step 2358 has rows of the last shard. The first two of a run are read alone, the others come from blocks."""
    own = loader(giant_store(tmp_path / "s.zarr"), EN_ALONE, len=1000, batch=16, sequences_per_read_block="auto")
    beyond = 0
    for step in (0, 300_000, *range(2350, 2370)):
        first = own.order.rows(step).window * 1000
        beyond += (first > 2**32).sum()
        expected = (first[:, None] + np.arange(1000)) % 2**24
        np.testing.assert_array_equal(own.load_host(step).targets, expected.astype(np.uint32))
    assert beyond
    assert own.metrics()["rows_read_alone"] < own.metrics()["rows"]
