"""Shuffles and keys: every element of every permutation, and keys that no two shuffles share."""

import itertools
import tracemalloc
from typing import Any

import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from order_cases import alone, as_rows, seeds

from flatmix.order import Order
from flatmix.order.permutation import epoch_key, fisher_yates, language_key, splitmix64

ODD_LENGTHS = [2**k + change for k in range(8, 16) for change in (-1, 0, 1)]


@pytest.mark.parametrize("key", [0, 7, 2**63, 2**64 - 1])
def test_shuffle_equals_the_reference_at_every_length_to_200(key: int):
    for length in range(201):
        result = fisher_yates(key, length)

        assert result.dtype == np.uint32
        assert list(reference.fisher_yates(key, length)) == result.tolist()
        assert list(range(length)) == sorted(result.tolist())


@pytest.mark.parametrize("length", ODD_LENGTHS)
def test_shuffle_equals_the_reference_around_powers_of_two(length: int):
    assert list(reference.fisher_yates(length, length)) == fisher_yates(length, length).tolist()


@given(key=seeds, length=st.integers(0, 3000))
def test_shuffle_equals_the_reference(key: int, length: int):
    assert list(reference.fisher_yates(key, length)) == fisher_yates(key, length).tolist()


@pytest.mark.parametrize("length", [2**18 - 1, 2**18, 2**18 + 1, 2**20 - 1, 2**20 + 1, 3_000_000])
def test_long_shuffle_is_a_whole_bijection(length: int):
    result = fisher_yates(5, length)

    assert np.array_equal(np.bincount(result, minlength=length), np.ones(length, np.int64))


def test_long_shuffle_equals_the_reference_at_single_places():
    length = 2**20 + 1
    result = fisher_yates(5, length)
    places = [
        0,
        1,
        length // 3,
        length - 2,
        length - 1,
        *(2**k + change for k in (17, 18, 19) for change in (-1, 0, 1)),
    ]

    assert [reference.fisher_yates_at(5, length, place) for place in places] == result[places].tolist()


@pytest.mark.parametrize("length", [1, 2, 3, 8, 100, 257])
def test_reference_follows_single_places_to_the_same_shuffle(length: int):
    followed = [reference.fisher_yates_at(7, length, place) for place in range(length)]

    assert followed == list(reference.fisher_yates(7, length))


@pytest.mark.parametrize("length", [2**32, 2**40])
def test_shuffle_of_2_to_the_32_or_more_is_refused_before_memory_is_taken(length: int):
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=str(length)):
            fisher_yates(0, length)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


def test_shuffle_of_fewer_than_no_elements_is_refused():
    with pytest.raises(ValueError, match="-1"):
        fisher_yates(0, -1)


@given(x=seeds)
def test_splitmix64_equals_the_reference(x: int):
    assert reference.splitmix64(x) == splitmix64(x)


@given(seed=seeds, name=st.text(st.characters(exclude_categories=["Cs"]), min_size=1))
def test_language_key_equals_the_reference(seed: int, name: str):
    assert reference.language_key(seed, name) == language_key(seed, name)


def test_language_key_takes_the_name_as_given():
    """Composed and decomposed spellings, or capitals, are other names; nothing is normalised behind the user's back."""
    assert len({language_key(0, name) for name in ["é", "e\u0301", "É", "en", "EN", "en "]}) == 6


@given(key=seeds, epoch=st.integers(0, 2**62))
def test_epoch_key_equals_the_reference(key: int, epoch: int):
    assert reference.epoch_key(key, epoch) == epoch_key(key, epoch)


def test_first_epoch_keeps_the_key_of_the_language():
    assert epoch_key(123, 0) == 123


def test_no_two_buffers_of_any_seed_language_and_epoch_share_a_shuffle_key():
    """A key K_e stands for the blocks and the next 2^20 numbers for the buffers: no two such stretches may touch."""
    neighbours = [*range(40), *(2**32 + d for d in range(-5, 5)), *(2**64 - d for d in range(1, 5))]
    names = ["en", "ar", "sw", "zh", "zh-Hant", "EN", "en1", "en2", "中文", ""]
    keys = sorted(
        epoch_key(language_key(seed, name), epoch)
        for seed, name, epoch in itertools.product(neighbours, names, range(12))
    )

    assert len(keys) == 54 * 10 * 12
    assert min(b - a for a, b in itertools.pairwise(keys)) > 2**20
    assert keys[0] + 2**64 - keys[-1] > 2**20


def test_neighbouring_seeds_languages_epochs_streams_and_buffers_shuffle_differently():
    """Not one of these buffers is in the sequence of another, as happens where keys are sums of seeds and numbers."""
    shuffles: list[tuple[Any, ...]] = []
    for seed, name in itertools.product([7, 8, 9], ["en", "em"]):
        config = alone(name, 128, seed=seed, streams=2, batch=8, read_blocks_per_shuffle_buffer=4)
        rows = itertools.chain.from_iterable(as_rows(Order(**config).rows(step)) for step in range(2 * 128 // 8))
        buffers: dict[tuple[int, int, int], list[int]] = {}
        for row in rows:
            buffers.setdefault((row.epoch, row.stream, row.minipoch), []).append(row.place)
        assert all(sorted(places) == list(range(16)) for places in buffers.values())
        shuffles.extend(map(tuple, buffers.values()))

    assert len(shuffles) == 6 * 2 * 2 * 4
    assert len(set(shuffles)) == len(shuffles)


def test_neighbouring_seeds_read_their_blocks_in_different_sequences():
    def blocks(seed: int, epoch: int) -> tuple[int, ...]:
        config = alone("en", 80, seed=seed, read_blocks_per_shuffle_buffer=1)
        rows = as_rows(Order(**config).rows(epoch))
        return tuple(row.window // 4 for row in rows[::4])

    orders = [blocks(seed, epoch) for seed in range(6) for epoch in range(3)]

    assert len(set(orders)) == len(orders)
