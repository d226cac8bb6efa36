"""The loops of the order, compiled: integers in, integers out, the interpreter's lock released.

Types are in `kernels.pyi`. Everything that may pass 2^63 is uint64 throughout: numba, like NumPy, makes float64 of
uint64 mixed with int64. The functions are compiled at their first call and cached on disk where that is possible.
"""

import logging

import numba
import numpy as np

_U0 = np.uint64(0)
_U1 = np.uint64(1)
_LOW = np.uint64(0xFFFFFFFF)
_S32 = np.uint64(32)
_MAX = np.uint64(0xFFFFFFFFFFFFFFFF)
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX2 = np.uint64(0x94D049BB133111EB)
_S30 = np.uint64(30)
_S27 = np.uint64(27)
_S31 = np.uint64(31)

_uncached_reported = False


def compiled(function):
    """numba.njit, cached on disk where numba finds a folder to write to."""
    global _uncached_reported
    try:
        return numba.njit(nogil=True, cache=True)(function)
    except RuntimeError as error:  # read-only site-packages and no home folder
        if not _uncached_reported:
            logging.getLogger("flatmix").warning("compiled loops are not cached on disk: %s", error)
            _uncached_reported = True
        return numba.njit(nogil=True)(function)


@compiled
def swap_down(result, raw, first):
    """The swaps of Fisher-Yates for i = first + len(raw) - 1 down to first; raw[i - first] is the draw of i."""
    for offset in range(len(raw) - 1, -1, -1):
        i = first + offset
        j = np.int64(raw[offset] % np.uint64(i + 1))
        kept = result[i]
        result[i] = result[j]
        result[j] = kept


@compiled
def splitmix64(x):
    """The output of splitmix64 for the state `x`, uint64, after its increment: `permutation.splitmix64`, compiled."""
    z = x + _GOLDEN
    z = (z ^ (z >> _S30)) * _MIX1
    z = (z ^ (z >> _S27)) * _MIX2
    return z ^ (z >> _S31)


@compiled
def _draw(scrambled, base, slot):
    """The draw of a slot: splitmix64(base + slot), or its counter alone, G * slot + base."""
    return splitmix64(base + slot) if scrambled else _GOLDEN * slot + base


@compiled
def draw_languages(scrambled, base, first_slot, languages, last_draws, guide, guide_shift, result):
    """result[j] = the language of slot first_slot + j."""
    for j in range(len(result)):
        z = _draw(scrambled, base, first_slot + np.uint64(j))
        place = np.uint64(guide[z >> guide_shift])
        while z > last_draws[place]:
            place += _U1
        result[j] = languages[place]


@compiled
def count_positions(scrambled, base, first, stop, last_draws, guide, guide_shift, counts):
    """Adds to counts[r, j] how many of the positions first .. stop - 1 of stream r draw the j-th drawn language.

    Stream by stream, so that its counts stay in the processor's cache; unsigned indices need no test for negative ones.
    """
    streams = np.uint64(counts.shape[0])
    for r in range(streams):
        row = counts[r]
        slot = first * streams + r
        for _ in range(stop - first):
            z = _draw(scrambled, base, slot)
            place = np.uint64(guide[z >> guide_shift])
            while z > last_draws[place]:
                place += _U1
            row[place] += 1
            slot += streams


@compiled
def number_occurrences(languages, before, result):
    """result[r, j] = before[r, l] + how many of languages[r, :j] equal l = languages[r, j]."""
    seen = before.copy()
    for r in range(languages.shape[0]):
        for j in range(languages.shape[1]):
            language = languages[r, j]
            result[r, j] = seen[r, language]
            seen[r, language] += 1


@compiled
def _multiply_add(a, n, b):
    """a * n + b as (high, low) words."""
    a0, a1, n0, n1 = a & _LOW, a >> _S32, n & _LOW, n >> _S32
    low = a0 * n0
    middle = a1 * n0 + (low >> _S32)
    other = a0 * n1 + (middle & _LOW)
    high = a1 * n1 + (middle >> _S32) + (other >> _S32)
    product = (other << _S32) | (low & _LOW)
    total = product + b
    return high + (_U1 if total < product else _U0), total


@compiled
def _divide(high, low, m):
    """(high * 2^64 + low) divided by m, for high < m: quotient and remainder, by two digits of 32 bits (Knuth's D)."""
    if high == _U0:
        return low // m, low % m
    shift = _U0
    while m >> np.uint64(63) == _U0:
        m <<= _U1
        shift += _U1
    if shift:
        high = (high << shift) | (low >> (np.uint64(64) - shift))
        low <<= shift
    m1, m0 = m >> _S32, m & _LOW
    quotient = _U0
    for digit in (low >> _S32, low & _LOW):
        q, rest = high // m1, high % m1
        while q > _LOW or q * m0 > ((rest << _S32) | digit):
            q -= _U1
            rest += m1
            if rest > _LOW:
                break
        high = ((high << _S32) | digit) - q * m  # exact modulo 2^64: the true value is below m
        quotient = (quotient << _S32) | q
    return quotient, high >> shift


@compiled
def floor_sum(n, a, b):
    """The sum of floor((a*i + b) / 2^64) over 0 <= i < n, modulo 2^64.

    Euclid's algorithm on (2^64, a): each turn counts lattice points under a line with the axes exchanged, so that the
    number of turns is that of the continued fraction of a / 2^64 until n is used up.
    """
    total = _U0
    high, low = _multiply_add(a, n, b)
    if high == _U0:
        return total
    n, b = high, low
    # now the modulus is a, and 2^64 = quotient * a + rest takes its place
    quotient, rest = _MAX // a, _MAX % a + _U1
    if rest == a:
        quotient, rest = quotient + _U1, _U0
    m, a = a, rest
    while True:
        pairs = (n >> _U1) * (n - _U1) if n & _U1 == _U0 else n * ((n - _U1) >> _U1)
        total += pairs * quotient
        if b >= m:
            total += n * (b // m)
            b %= m
        high, low = _multiply_add(a, n, b)
        if high == _U0 and low < m:
            return total
        n, b = _divide(high, low, m)
        quotient, rest = m // a, m % a
        m, a = a, rest


@compiled
def count_below(positions, streams, base, threshold_words, result):
    """result[r, j] = how many of the first `positions` positions of stream r have a draw below threshold_words[j].

    The draw of position i is x mod 2^64 with x = a*i + d, and it is below T, or not, as
    1 + floor(x / 2^64) - floor((x - T + 2^64) / 2^64) is 1 or 0. Thresholds are in (0, 2^64).
    """
    a = _GOLDEN * streams
    for r in range(result.shape[0]):
        d = _GOLDEN * np.uint64(r) + base
        passed = floor_sum(positions, a, d)
        for j in range(result.shape[1]):
            shifted = floor_sum(positions, a, d - threshold_words[j])
            if d >= threshold_words[j]:
                shifted += positions
            result[r, j] = np.int64(positions + passed - shifted)
