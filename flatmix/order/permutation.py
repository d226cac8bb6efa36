"""(key, length) -> a permutation of 0 .. length-1: Fisher-Yates over raw Philox; and the keys it is given.

Philox's raw words are stable across NumPy versions and platforms, unlike the shuffles of `numpy.random.Generator`, so
the swaps are made here. They will not change within version 1 of the order: every published run depends on them.
Taking a word modulo (i + 1) favours small values by less than 2^-31 for every length allowed. About 14 ns an element.

Sources: R. Durstenfeld, "Algorithm 235: Random permutation" (1964); J. Salmon et al., "Parallel random numbers: as easy
as 1, 2, 3" (2011) for Philox4x64-10; G. Steele et al., "Fast splittable pseudorandom number generators" (2014) for
splitmix64.
"""

import hashlib

import numpy as np
from numpy.typing import NDArray

from flatmix.order import kernels

MASK = 2**64 - 1
_WORDS_AT_ONCE = 2**18  # a multiple of 4, Philox's words for each value of its counter


def splitmix64(x: int) -> int:
    """The output of splitmix64 for the state `x` (0 <= x < 2^64), after its increment."""
    z = (x + 0x9E3779B97F4A7C15) & MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def language_key(seed: int, name: str) -> int:
    """K, the key of a language: the seed mixed with a hash of the name, so that no other language matters."""
    return splitmix64(seed ^ int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little"))


def epoch_key(key: int, epoch: int) -> int:
    """K_e, the key of an epoch of the language whose key is `key`."""
    return key if epoch == 0 else splitmix64(key ^ splitmix64(epoch))


def fisher_yates(key: int, length: int) -> NDArray[np.uint32]:
    """F(key, length) of the order.

    Returns uint32[length]. Raises ValueError for a length below 0 or of 2^32 and more.
    """
    if not 0 <= length < 2**32:
        raise ValueError(f"a permutation of {length} elements: lengths from 0 to 2^32 - 1 are supported")
    result = np.arange(length, dtype=np.uint32)
    sequence = np.random.SeedSequence(key & MASK)
    # The last word is used first: pieces from the end keep the words in the processor's cache, and few in memory.
    for first in range((length - 1) // _WORDS_AT_ONCE * _WORDS_AT_ONCE, -1, -_WORDS_AT_ONCE):
        words = np.random.Philox(sequence).advance(first // 4)
        raw = words.random_raw(min(_WORDS_AT_ONCE, length - first))
        kernels.swap_down(result, raw, first)
    return result
