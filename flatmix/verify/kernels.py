"""Blocks of an array -> what verify must know of them, in one pass each, the interpreter's lock released.

That start bits stand where `seq_starts` says is a comparison of two sets of places that are read at different times, by
different threads. Of each set and each piece of tokens only its size and the sum of its places' marks are kept, 64-bit
hashes that make sets of the same size and sum the same sets, as surely as an unkeyed hash can.

Cost: 0.3 ns a token, 1 ns a document.
"""

import numpy as np

from flatmix.order.kernels import compiled
from flatmix.order.kernels import splitmix64 as mark  # of a place, uint64

_GROUP = 64  # tokens looked at together, without a branch: few of them start a document
_U0 = np.uint64(0)
_ONE = np.uint32(1)


@compiled
def scan_tokens(encoded, first):
    """Encoded tokens, uint32[n], from place `first` (uint64) on -> the largest, how many start a document, and the sum
    of their places' marks."""
    largest, count, total = np.uint32(0), 0, _U0
    for group in range(0, len(encoded), _GROUP):
        stop = min(group + _GROUP, len(encoded))
        any_starts = np.uint32(0)
        for i in range(group, stop):
            largest = max(largest, encoded[i])
            any_starts |= encoded[i]
        if any_starts & _ONE:
            for i in range(group, stop):
                if encoded[i] & _ONE:
                    count += 1
                    total += mark(first + np.uint64(i))
    return largest, count, total


@compiled
def scan_starts(starts, previous, tokens, piece, counts, sums):
    """Entries of seq_starts, uint64[n], after `previous` -> the index of the first that falls or is above `tokens`; or
    -1, and then each place below `tokens` that differs from the one before has been counted with its piece."""
    for i in range(len(starts)):
        start = starts[i]
        if start < previous or start > tokens:
            return i
        if start > previous and start < tokens:
            counts[start // piece] += 1
            sums[start // piece] += mark(start)
        previous = start
    return -1
