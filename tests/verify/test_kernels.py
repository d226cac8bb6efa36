"""The loops of `verify` against the same in plain Python."""

import numpy as np

from flatmix.verify.kernels import mark, scan_starts, scan_tokens

WHOLE = 2**64


def test_tokens_of_every_length_are_scanned_as_one_by_one() -> None:
    random = np.random.default_rng(3)
    for length in range(200):
        ids = random.integers(0, 2**31, length, np.uint32)
        starts = random.random(length) < random.choice([0, 0.02, 1])
        encoded = (ids << np.uint32(1)) | starts.astype(np.uint32)
        first = 2**40 + length
        largest, count, total = scan_tokens(encoded, np.uint64(first))

        places = [first + place for place in np.flatnonzero(starts).tolist()]
        assert int(largest) == max(encoded.tolist(), default=0)
        assert int(count) == len(places)
        assert int(total) == sum(int(mark(np.uint64(place))) for place in places) % WHOLE


def test_marks_are_splitmix64() -> None:
    assert int(mark(np.uint64(0))) == 0xE220A8397B1DCDAF
    assert int(mark(np.uint64(0x9E3779B97F4A7C15))) == 0x6E789E6AA1B965F4
    assert int(mark(np.uint64(2 * 0x9E3779B97F4A7C15 % WHOLE))) == 0x06C45D188009454F


def test_starts_are_counted_once_with_their_piece() -> None:
    starts = np.array([0, 0, 3, 3, 4, 9, 10, 10], np.uint64)
    counts, sums = np.zeros(3, np.int64), np.zeros(3, np.uint64)
    fault = scan_starts(starts, starts[0], np.uint64(10), np.uint64(4), counts, sums)

    assert fault == -1
    assert counts.tolist() == [1, 1, 1]  # the first entry is for the caller to count; 10 is behind the last token
    assert sums.tolist() == [int(mark(np.uint64(place))) for place in (3, 4, 9)]


def test_the_first_entry_that_falls_or_is_too_large_is_told() -> None:
    def fault(entries: list[int], previous: int = 0) -> int:
        scratch = np.zeros(2, np.int64), np.zeros(2, np.uint64)
        return scan_starts(np.array(entries, np.uint64), np.uint64(previous), np.uint64(8), np.uint64(4), *scratch)

    assert fault([1, 2, 1, 0]) == 2
    assert fault([1, 9, 1]) == 1
    assert fault([4], previous=5) == 0
    assert fault([2**64 - 1]) == 0
    assert fault([8, 8]) == -1
