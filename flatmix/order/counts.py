"""slot -> how often each stream has drawn each language before it: what a resume costs.

`balanced` has a closed form: the draws of a stream are an arithmetic progression modulo 2^64, and how many of its first
terms are below a threshold is a difference of two sums of floors, each a few dozen steps of Euclid's algorithm.
`hash` is counted, from the nearest slot whose counts are known, by compiled loops on all cores: 2 to 3 ns a slot and
core. Counts passed on the way are remembered, sparsely.
"""

import os
import threading
from bisect import bisect_right
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from numpy.typing import NDArray

from flatmix.order import kernels
from flatmix.order.selector import Draw, Phase

_REMEMBERED_BYTES = 2**26
_FIRST_SPACING = 2**22  # slots between remembered counts; doubled whenever they would take too much memory
_SLOTS_PER_THREAD = 2**16  # fewer are counted sooner than a thread starts
_CLOSED_FORM_FROM = 2**14  # slots; fewer are counted sooner


def cores() -> int:
    """The processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Counts:
    """Counts before any slot that is a multiple of the streams. Safe to use from several threads."""

    def __init__(self, draw: Draw, phases: Sequence[Phase], streams: int, languages: int):
        self._draw, self._phases, self._streams = draw, phases, streams
        self._shape = (streams, languages)
        self._lock = threading.Lock()
        self._known: dict[int, NDArray[np.int64]] = {}
        self._slots: list[int] = []  # of self._known, sorted
        self._given: set[int] = set()  # slots whose counts came from outside, and may be far from 0: never forgotten
        self._spacing = _FIRST_SPACING // streams * streams or streams
        self._newest = (0, self._zeros())
        self.remember(0, self._zeros())

    def before(self, slot: int) -> NDArray[np.int64]:
        """int64[streams, languages], the caller's own."""
        with self._lock:
            start = self._slots[bisect_right(self._slots, slot) - 1]
            counts = self._known[start]
            if start < self._newest[0] <= slot:
                start, counts = self._newest
            if self._draw.selector == "balanced" and slot - start >= _CLOSED_FORM_FROM:
                counts = self._closed_form(slot)
            else:
                while start < slot:
                    stop = min(slot, start // self._spacing * self._spacing + self._spacing)
                    counts = counts + self._counted(start, stop)
                    start = stop
                    if start % self._spacing == 0:
                        self._remember(start, counts)
            self._newest = (slot, counts)
            return counts.copy()

    def remember(self, slot: int, counts: NDArray[np.int64]) -> None:
        """Takes counts before `slot` as known, from a saved state say, and counts on from there."""
        with self._lock:
            self._given.add(slot)
            self._remember(slot, counts)

    def _remember(self, slot: int, counts: NDArray[np.int64]) -> None:
        if slot not in self._known:
            self._slots.insert(bisect_right(self._slots, slot), slot)
        self._known[slot] = counts.copy()
        if len(self._known) > 16 and len(self._known) * counts.nbytes > _REMEMBERED_BYTES:
            self._spacing *= 2
            self._slots = [kept for kept in self._slots if kept % self._spacing == 0 or kept in self._given]
            self._known = {kept: self._known[kept] for kept in self._slots}

    def _zeros(self) -> NDArray[np.int64]:
        return np.zeros(self._shape, np.int64)

    def _by_phase(self, start: int, stop: int) -> list[tuple[Phase, int, int]]:
        """The phases that slots start .. stop - 1 belong to, with the positions of each."""
        ends = [phase.first_slot for phase in self._phases[1:]] + [stop]
        spans = [
            (phase, max(start, phase.first_slot), min(stop, end)) for phase, end in zip(self._phases, ends, strict=True)
        ]
        return [(phase, a // self._streams, b // self._streams) for phase, a, b in spans if a < b]

    def _counted(self, start: int, stop: int) -> NDArray[np.int64]:
        """Counts of the slots start .. stop - 1, one by one."""
        total = self._zeros()
        for phase, first, last in self._by_phase(start, stop):
            threads = min(cores(), 1 + (last - first) * self._streams // _SLOTS_PER_THREAD)
            bounds = [first + (last - first) * part // threads for part in range(threads + 1)]
            if threads == 1:
                parts = [self._count_positions(phase, first, last)]
            else:
                with ThreadPoolExecutor(threads) as pool:
                    parts = list(pool.map(partial(self._count_positions, phase), bounds[:-1], bounds[1:]))
            for part in parts:
                total[:, phase.drawn] += part
        return total

    def _count_positions(self, phase: Phase, first: int, stop: int) -> NDArray[np.int64]:
        """int64[streams, drawn languages]."""
        counts = np.zeros((self._streams, len(phase.drawn)), np.int64)
        scrambled, base = self._draw.scrambled, self._draw.base
        kernels.count_positions(scrambled, base, np.uint64(first), np.uint64(stop), *phase.tables, counts)
        return counts

    def _closed_form(self, slot: int) -> NDArray[np.int64]:
        """Counts before `slot` for `balanced`: of each phase, those up to its end less those up to its start."""
        total = self._zeros()
        for phase, first, last in self._by_phase(0, slot):
            for positions, sign in ((last, 1), (first, -1)):
                below = np.empty((self._streams, len(phase.drawn)), np.int64)
                below[:, -1] = positions  # every draw is below the last threshold, 2^64
                words = phase.last_draws[:-1] + np.uint64(1)
                streams = np.uint64(self._streams)
                kernels.count_below(np.uint64(positions), streams, self._draw.base, words, below[:, :-1])
                total[:, phase.drawn] += sign * np.diff(below, axis=1, prepend=0)
        return total
