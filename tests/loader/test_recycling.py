"""Memory for batches: used again as soon as nobody can see it, and never before."""

import gc
import random
import threading
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from flatmix.loader.recycling import Recycler

SHAPE = 16, 1024
HOLDERS: dict[str, Callable[[np.ndarray], Any]] = {
    "itself": lambda array: array,
    "a view": lambda array: array[3:5, 7:],
    "a view of a view": lambda array: array[1:].T[::2].view(np.int32),
    "one row": lambda array: array[15],
    "another shape": lambda array: array.reshape(-1),
    "a memoryview": memoryview,
    "a memoryview of a part": lambda array: memoryview(array[2:])[1:],
    "what is made of its bytes": lambda array: np.frombuffer(array.data, np.uint8),
    "an iterator": lambda array: array.flat,
    "a jax.Array": lambda array: jax.device_put(array, jax.devices()[0], may_alias=True),
    "a jax.Array of a part": lambda array: jax.device_put(array[4:8], jax.devices()[3], may_alias=True),
    "dlpack": lambda array: jax.dlpack.from_dlpack(array),
    "jax.Arrays of eight devices": lambda array: jax.make_array_from_callback(
        SHAPE,
        jax.sharding.NamedSharding(jax.make_mesh((8,), ("data",)), jax.sharding.PartitionSpec("data")),
        lambda index: array[index],
    ),
}


def address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def span(array: np.ndarray) -> tuple[int, int]:
    return address(array), address(array) + array.nbytes


@pytest.mark.parametrize("name", HOLDERS)
def test_memory_is_given_out_again_only_when_nobody_refers_to_it(name: str):
    memory = Recycler()
    array = memory.empty(SHAPE, np.uint32)
    array[:] = 7
    first, last = span(array)
    held = HOLDERS[name](array)
    if isinstance(held, jax.Array):
        held.block_until_ready()
    aliased = not isinstance(held, jax.Array) or _shares(held, first, last)
    del array
    for _ in range(40):
        other = memory.empty(SHAPE, np.uint32)
        other[:] = 9
        assert not aliased or not first <= address(other) < last
    assert {int(value) for value in np.unique(np.asarray(held))} <= {7, 0}  # a byte of 7 is 7 or 0
    del held, other
    gc.collect()
    again = [memory.empty(SHAPE, np.uint32) for _ in range(3)]
    assert len({address(array) for array in again}) == 3


def _shares(held: jax.Array, first: int, last: int) -> bool:
    return any(first <= shard.data.unsafe_buffer_pointer() < last for shard in held.addressable_shards)


def test_jax_shares_the_memory_as_it_is():
    """Otherwise the tests with a jax.Array above would show nothing, and each batch would be copied."""
    array = Recycler().empty(SHAPE, np.uint32)
    for held in (HOLDERS["a jax.Array"](array), HOLDERS["jax.Arrays of eight devices"](array)):
        assert _shares(held, *span(array))


@pytest.mark.parametrize("name", HOLDERS)
def test_memory_that_was_let_go_is_the_next_to_be_given_out(name: str):
    memory = Recycler()
    array = memory.empty(SHAPE, np.uint32)
    where = address(array)
    held = HOLDERS[name](array)
    if isinstance(held, jax.Array):
        held.block_until_ready()
    del array, held
    gc.collect()
    assert address(memory.empty(SHAPE, np.uint32)) == where


def test_a_loop_that_keeps_nothing_uses_the_same_few_arrays():
    memory = Recycler()
    seen = set[int]()
    for _ in range(100):
        arrays = [memory.empty(SHAPE, np.uint32), memory.empty(SHAPE, np.uint32), memory.empty(SHAPE, np.bool_)]
        seen.update(map(address, arrays))
    assert len(seen) <= 6


def test_arrays_are_of_the_shape_and_type_asked_for_and_aligned():
    memory = Recycler()
    for shape in ((3, 5), (0, 8), (1,), (7, 1, 2), (64, 64)):
        for dtype in (np.uint32, np.bool_, np.uint8, np.float64):
            for _ in range(2):
                array = memory.empty(shape, dtype)
                assert (array.shape, array.dtype) == (shape, dtype)
                assert array.flags.c_contiguous
                assert array.flags.writeable
                assert array.size == 0 or address(array) % 64 == 0


def test_arrays_held_at_once_never_overlap():
    memory, chosen = Recycler(), random.Random(3)
    held: list[np.ndarray] = []
    for number in range(400):
        array = memory.empty((chosen.choice([1, 8, 64]), 16), chosen.choice([np.uint32, np.bool_]))
        assert all(address(array) >= last or span(array)[1] <= first for first, last in map(span, held)), number
        held.append(array)
        while len(held) > 50 or (held and chosen.random() < 0.3):
            held.pop(chosen.randrange(len(held)))
        del array


def test_what_was_cleared_is_kept_no_more_and_stays_as_it_is():
    memory = Recycler()
    array = memory.empty(SHAPE, np.uint32)
    array[:] = 5
    memory.clear()
    memory.clear()
    others = [memory.empty(SHAPE, np.uint32) for _ in range(3)]
    for other in others:
        other[:] = 6
    assert (array == 5).all()
    kept = [address(other) for other in others]
    del other, others
    assert address(memory.empty(SHAPE, np.uint32)) in kept  # it serves on


def test_no_two_threads_have_the_same_memory():
    memory, failed = Recycler(), list[str]()

    def work(number: int) -> None:
        chosen = random.Random(number)
        held: list[tuple[np.ndarray, int]] = []
        for turn in range(200):
            array = memory.empty((8, 16), np.uint32)
            array[:] = value = 1000 * number + turn
            held.append((array, value))
            if len(held) > 4:
                array, value = held.pop(chosen.randrange(5))
                if not (array == value).all():
                    failed.append(f"{number}: {value}")
            del array

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
