"""The compiled loops, each against the same in NumPy or in Python."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from flatmix.loader import kernels
from flatmix.loader.host import RowFormat, host_batch, row_fields, split_fields, split_rows

FORMATS = st.builds(RowFormat, st.integers(1, 40), st.integers(0, 3), st.booleans())


@settings(deadline=None, derandomize=True, max_examples=100)
@given(form=FORMATS, rows=st.integers(0, 9), starts=st.floats(0, 1), seed=st.integers(0, 2**32))
def test_all_three_ways_of_decoding_give_the_same(form: RowFormat, rows: int, starts: float, seed: int):
    random = np.random.default_rng(seed)
    encoded = random.integers(0, 2**31, (rows, form.words), np.uint32) * np.uint32(2)
    encoded += (random.random(encoded.shape) < starts).astype(np.uint32)
    if form.counted:
        encoded[:, -1] = random.integers(0, form.window + 1, rows)
        encoded[:, :-1][np.arange(form.window) >= encoded[:, -1:]] = 0
    for found, array in zip(split_fields(*split_rows(encoded, form)), row_fields(encoded, form, np), strict=True):
        np.testing.assert_array_equal(found, array, strict=True)
    language = random.integers(0, 200, rows)
    made = host_batch(encoded.copy(), form, language, lambda shape, dtype: np.full(shape, 1, dtype))
    expected = row_fields(encoded, form, np)
    for name, array in zip(("inputs", "targets", "is_seq_start", "loss_mask"), expected, strict=True):
        np.testing.assert_array_equal(getattr(made, name), array, err_msg=name, strict=True)
    assert made.language.dtype == np.int32
    assert made.language.tolist() == language.tolist()


def test_the_largest_id_and_both_flags_survive_decoding():
    encoded = np.array([[2**32 - 1, 2**32 - 2, 1, 0, 2**32 - 1]], np.uint32)
    for extra in (0, 1):
        made = host_batch(encoded, RowFormat(5 - extra, extra), np.zeros(1, np.int64))
        assert made.targets[0].tolist() == [2**31 - 1, 2**31 - 1, 0, 0, 2**31 - 1][extra:]
        assert made.inputs[0].tolist() == [0, 2**31 - 1, 0, 0, 0][extra:]
        assert made.is_seq_start[0].tolist() == [True, False, True, False, True][extra:]


@settings(deadline=None, derandomize=True, max_examples=100)
@given(
    blocks=st.integers(1, 9), block_windows=st.integers(1, 9), cut=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    offset=st.floats(0, 1), seed=st.integers(0, 2**32), dtype=st.sampled_from([np.uint16, np.uint32]),
)  # fmt: skip
def test_rows_of_a_section_are_sorted_by_their_blocks(
    blocks: int, block_windows: int, cut: tuple[float, float], offset: float, seed: int, dtype: type
):
    """A section is any part of a buffer, and only its rows from an offset on are of interest."""
    everything = np.random.default_rng(seed).permutation(blocks * block_windows).astype(dtype)
    start, stop = sorted(int(part * len(everything)) for part in cut)
    places = everything[start:stop]
    first = int(offset * len(places))
    offsets, windows = np.full(len(places), -7, np.int32), np.full(len(places), -7, np.int32)
    starts = np.empty(blocks + 1, np.int64)
    kernels.sort_by_block(places, block_windows, first, offsets, windows, starts)
    assert starts[0] == 0
    assert starts[-1] == len(places) - first
    for block in range(blocks):
        own = [at for at in range(first, len(places)) if places[at] // block_windows == block]
        span = slice(starts[block], starts[block + 1])
        assert offsets[span].tolist() == own
        assert windows[span].tolist() == [places[at] % block_windows for at in own]


def test_a_block_is_stored_only_where_rows_are_still_to_come():
    """Rows that were passed before their block came take no cell, and rows that are there stay as they are."""
    cells = np.array([kernels.MISSING, kernels.USED, 4, kernels.MISSING, kernels.MISSING], np.int32)
    pool, free, held = np.zeros((6, 2), np.uint32), np.array([0, 1, 2, 3, 5, -1], np.int32), np.array([1])
    pool[4] = 40, 41
    block = np.arange(8, dtype=np.uint32).reshape(4, 2)
    windows, offsets = np.array([3, 0, 1, 2], np.int32), np.array([0, 1, 2, 3], np.int32)
    left = kernels.store(block, windows, offsets, cells, 0, 0, pool, free, 5, held)
    assert left == 3
    assert held.tolist() == [3]
    assert cells[1:3].tolist() == [kernels.USED, 4]
    assert pool[cells[[0, 2, 3]]].tolist() == [[6, 7], [40, 41], [4, 5]]
    assert cells[4] == kernels.MISSING
    assert {*cells[[0, 2, 3]].tolist(), *free[:3].tolist()} == {0, 1, 2, 3, 4, 5}
