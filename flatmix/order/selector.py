"""slot -> language: a draw of 64 bits for each slot, compared with one threshold for each language.

`hash` draws like independent coins: splitmix64 of a sum of seed and slot. `balanced` leaves the scrambler out, so that
the draws are the multiples of the golden ratio, which fill any interval evenly. Both are pure functions of seed and
slot: nothing is carried from slot to slot. Thresholds are integers, made once from the weights with exact comparisons.
A language is found through a table of the draw's leading bits, at the same cost for 2 and for 200 languages.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from flatmix.order import kernels
from flatmix.order.permutation import MASK, splitmix64
from flatmix.order.settings import only_known, whole_number

SELECTORS = ("hash", "balanced")

Phases = Sequence[tuple[int, Mapping[str, float]]]  # (first slot, weights by language)

_GUIDE_BITS = 12


def thresholds(weights: Sequence[float]) -> list[int]:
    """T of each language: the draws below T, and not below the one before, are its own.

    weights: finite, >= 0, with a finite sum above 0. Returns Python ints from 0 to 2^64, never falling.
    """
    total = 0.0
    for weight in weights:
        total += weight
    last = max(index for index, weight in enumerate(weights) if weight > 0)
    result: list[int] = []
    reached = 0.0
    for index, weight in enumerate(weights):
        reached += weight / total
        result.append(2**64 if index >= last else _draws_below(reached))
    return result


def _draws_below(share: float) -> int:
    """How many z in 0 .. 2^64 - 1 have float64(z) / 2^64 < share, by bisection: the rounding of z makes it subtle."""
    low, high = 0, 2**64
    while low < high:
        middle = (low + high) // 2
        if middle / 2**64 < share:
            low = middle + 1
        else:
            high = middle
    return low


@dataclass(frozen=True)
class Draw:
    """slot -> draw, of one selector and seed."""

    selector: str
    seed: int

    @property
    def scrambled(self) -> bool:
        return self.selector == "hash"

    @property
    def base(self) -> np.uint64:
        """What the seed adds to a slot before, or to its multiple without, scrambling."""
        return np.uint64(self.seed * 0x1_0000_0001 & MASK if self.scrambled else splitmix64(self.seed))


@dataclass(frozen=True)
class Phase:
    """draw -> language, for the slots from `first_slot` on."""

    first_slot: int
    weights: tuple[float, ...]
    thresholds: tuple[int, ...]
    drawn: NDArray[np.int64]  # the languages that some draw selects, in sequence
    last_draws: NDArray[np.uint64]  # the largest draw of each of them
    guide: NDArray[np.uint32]  # for each value of a draw's leading bits, the first of them that may be meant

    @staticmethod
    def of(first_slot: int, weights: Sequence[float]) -> "Phase":
        bounds = thresholds(weights)
        before = [0, *bounds[:-1]]
        drawn = [language for language in range(len(bounds)) if bounds[language] > before[language]]
        last_draws = np.array([bounds[language] - 1 for language in drawn], np.uint64)
        leading = np.arange(2**_GUIDE_BITS, dtype=np.uint64) << np.uint64(64 - _GUIDE_BITS)
        guide = np.searchsorted(last_draws, leading).astype(np.uint32)
        return Phase(first_slot, tuple(weights), tuple(bounds), np.array(drawn, np.int64), last_draws, guide)

    @property
    def tables(self) -> tuple[NDArray[np.uint64], NDArray[np.uint32], np.uint64]:
        """What the compiled loops look up the index into `drawn` in."""
        return self.last_draws, self.guide, np.uint64(64 - _GUIDE_BITS)

    def never_drawn(self) -> list[int]:
        """Languages of some weight, too small for any draw to select."""
        drawn = set(self.drawn.tolist())
        return [language for language, weight in enumerate(self.weights) if weight > 0 and language not in drawn]


def languages_of(draw: Draw, phases: Sequence[Phase], start: int, stop: int) -> NDArray[np.int64]:
    """The language of each of the slots start .. stop - 1: int64[stop - start]."""
    result = np.empty(stop - start, np.int64)
    ends = [phase.first_slot for phase in phases[1:]] + [stop]
    for phase, end in zip(phases, ends, strict=True):
        first, last = max(start, phase.first_slot), min(stop, end)
        if first < last:
            part = result[first - start : last - start]
            kernels.draw_languages(draw.scrambled, draw.base, np.uint64(first), phase.drawn, *phase.tables, part)
    return result


def checked_weights(weights: Sequence[tuple[str, object]], where: str) -> list[float]:
    """The weights as floats; a ValueError that names the language where one is no finite number >= 0, or all are 0."""
    result: list[float] = []
    for name, weight in weights:
        if isinstance(weight, bool | np.bool) or not isinstance(weight, int | float | np.integer | np.floating):
            raise ValueError(f"{where}: the weight of {name!r} is {weight!r}: a number is needed")
        try:
            value = float(weight)  # pyright: ignore[reportUnknownArgumentType]
        except OverflowError:
            value = math.inf
        if not 0 <= value < math.inf:
            raise ValueError(f"{where}: the weight of {name!r} is {weight}: it must be finite and not below 0")
        result.append(value)
    total = 0.0
    for value in result:
        total += value
    if not 0 < total < math.inf:
        listed = ", ".join(f"{name!r}: {weight}" for name, weight in weights) or "none"
        raise ValueError(f"{where}: the weights ({listed}) have the sum {total}: it must be finite and above 0")
    return result


def phases_of(phases: Phases, names: Sequence[str], streams: int) -> tuple[Phase, ...]:
    """(first slot, weights by name), the first at slot 0, as phases; ValueError for what cannot be, with its place.

    Warns of a language whose weight is too small for any draw.
    """
    result: list[Phase] = []
    for (first, _), (later, _) in pairwise(phases):
        later = whole_number(later, "the first slot of a phase", 0)
        if later <= first or later % streams:
            raise ValueError(
                f"a phase starts at slot {later} after one at {first}: first slots must rise strictly and be multiples "
                f"of streams={streams}"
            )
    for first, weights in phases:
        where = f"mixture from slot {first} on"
        if not isinstance(weights, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ValueError(f"{where}: weights are {weights!r}: a mapping of languages to weights is needed")
        only_known(weights, names, where)
        by_name = dict(zip(weights, checked_weights([*weights.items()], where), strict=True))
        phase = Phase.of(int(first), [by_name.get(name, 0.0) for name in names])
        for index in phase.never_drawn():
            warnings.warn(
                f"{where}: the weight of {names[index]!r}, {phase.weights[index]}, is too small beside the others for "
                f"it to be drawn at all",
                stacklevel=3,
            )
        result.append(phase)
    return tuple(result)
