"""(step, row) -> (language, occurrence, epoch, window), by lists and loops: what `flatmix.order` must equal.

Every map of docs/order.md stands here once more, in Python's unbounded integers and as plainly as it can be said, with
the names that `flatmix.order` uses, so that one test can run on both. NumPy gives the raw Philox stream and no more.
Nothing is checked here and nothing is fast: about a microsecond a slot, and the same for an element of a shuffle.
"""

from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import NamedTuple

from numpy.random import Philox

WORD = 2**64
GOLDEN_GAMMA = 0x9E3779B97F4A7C15
LONGEST_LIST = 2**17  # longer shuffles are asked for single places only


def splitmix64(x: int) -> int:
    x = (x + GOLDEN_GAMMA) % WORD
    z = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % WORD
    return z ^ (z >> 31)


def language_key(seed: int, name: str) -> int:
    return splitmix64(seed ^ int.from_bytes(sha256(name.encode()).digest()[:8], "little"))


def epoch_key(key: int, epoch: int) -> int:
    return splitmix64(key ^ splitmix64(epoch)) if epoch > 0 else key


@lru_cache(maxsize=256)
def fisher_yates(key: int, length: int) -> tuple[int, ...]:
    raw = Philox(seed=key).random_raw(length).tolist() if length > 1 else []
    result = list(range(length))
    for i in range(length - 1, 0, -1):
        j = raw[i] % (i + 1)
        result[i], result[j] = result[j], result[i]
    return tuple(result)


@lru_cache(maxsize=2)
def swap_partners(key: int, length: int) -> array:
    """The place that each place is swapped with, in 8 bytes each."""
    generator = Philox(seed=key)
    partners = array("Q")
    for start in range(0, length, 2**16):
        stop = min(start + 2**16, length)
        raw = generator.random_raw(stop - start).tolist()
        partners.extend([value % (i + 1) for i, value in zip(range(start, stop), raw, strict=True)])
    return partners


def fisher_yates_at(key: int, length: int, place: int) -> int:
    """`fisher_yates(key, length)[place]` for lengths of many millions, by following one element back through the swaps.

    The swaps go from the last place down, so those below `place` leave it alone. Seen from the end of the shuffle, its
    element came from its partner's place, and from there on each later place whose partner that is had it before.
    """
    partners = swap_partners(key, length)
    came_from, swap = partners[place], place
    while True:
        try:
            swap = partners.index(came_from, swap + 1)
        except ValueError:
            return came_from
        came_from = swap


def shuffled(key: int, length: int, place: int) -> int:
    return fisher_yates(key, length)[place] if length <= LONGEST_LIST else fisher_yates_at(key, length, place)


def window_count(tokens: int, window: int, stride: int) -> int:
    return 0 if tokens < window else (tokens - window) // stride + 1


def window_span(w: int, window: int, stride: int) -> tuple[int, int]:
    return w * stride, w * stride + window


def auto_block(windows: int, streams: int, window_tokens: int) -> int:
    target = max(1, 2**18 // window_tokens)
    blocks_per_stream = max(1, windows // (streams * target))
    return windows // (streams * blocks_per_stream)


def auto_buffer(blocks_per_stream: int) -> int:
    buffers = -(-blocks_per_stream // 256)
    return -(-blocks_per_stream // buffers)


def auto_sizes(windows: int, streams: int, window_tokens: int) -> tuple[int, int]:
    block = auto_block(windows, streams, window_tokens)
    return block, auto_buffer(windows // block // streams)


def thresholds(weights: Sequence[float]) -> list[int]:
    weights = [float(w) for w in weights]
    total = 0.0
    for w in weights:
        total += w
    last = max(i for i, w in enumerate(weights) if w > 0)
    result, below = [], 0.0
    for i, w in enumerate(weights):
        below += w / total
        result.append(draws_below(below) if i < last else WORD)
    return result


def draws_below(bound: float) -> int:
    """How many of 0 .. 2^64 - 1 are, divided by 2^64 in one float64 division, below `bound`."""
    low, high = 0, WORD
    while low < high:
        middle = (low + high) // 2
        if middle / WORD < bound:
            low = middle + 1
        else:
            high = middle
    return low


def draw(selector: str, seed: int, slot: int) -> int:
    if selector == "hash":
        return splitmix64(seed * 0x1_0000_0001 + slot)
    return (GOLDEN_GAMMA * slot + splitmix64(seed)) % WORD


def floor_sum(terms: int, divisor: int, slope: int, offset: int) -> int:
    """The sum of (slope * i + offset) // divisor over i < terms, exactly, in the steps of Euclid's algorithm."""
    if terms == 0:
        return 0
    whole = slope // divisor * (terms * (terms - 1) // 2) + offset // divisor * terms
    slope, offset = slope % divisor, offset % divisor
    columns, rest = divmod(slope * terms + offset, divisor)
    return whole + (floor_sum(columns, slope, divisor, rest) if columns else 0)


def draws_in_reach(positions: int, slope: int, offset: int, threshold: int) -> int:
    """How many i < positions have (slope * i + offset) mod 2^64 < threshold."""
    if threshold in (0, WORD):
        return positions if threshold else 0
    above = floor_sum(positions, WORD, slope, offset - threshold + WORD)
    return positions + floor_sum(positions, WORD, slope, offset) - above


class Timeline:
    def __init__(self, entries: Sequence[Sequence[int]], streams: int):
        self.entries = [tuple(entry) for entry in entries]
        self.streams = streams

    def entry(self, step: int) -> tuple[int, int, int]:
        return [entry for entry in self.entries if entry[0] <= step][-1]

    def batch(self, step: int) -> int:
        return self.entry(step)[2]

    def first_slot(self, step: int) -> int:
        """The slot of position and stream 0 from which the step goes on: a multiple of `streams`."""
        t0, s0, batch = self.entry(step)
        return s0 + (step - t0) * batch

    def slots(self, step: int) -> list[int]:
        t0, s0, batch = self.entry(step)
        rows_per_stream = batch // self.streams
        slots = []
        for b in range(batch):
            r = b // rows_per_stream
            i = s0 // self.streams + (step - t0) * rows_per_stream + b % rows_per_stream
            slots.append(i * self.streams + r)
        return slots


class Shuffle(NamedTuple):
    """One language's walk round its windows; the names are those of docs/order.md."""

    key: int
    windows: int
    streams: int
    Q: int
    P: int

    @property
    def R(self) -> int:
        return self.windows // self.Q // self.streams * self.streams

    @property
    def E(self) -> int:
        return self.R // self.streams * self.Q

    def locate(self, r: int, k: int) -> tuple[int, int, int, int]:
        """(epoch, minipoch, place in the buffer as it is read, window) of the stream's k-th row of this language."""
        e, place = divmod(k, self.E)
        c, index = divmod(place, self.P * self.Q)
        blocks = min(self.P, self.R // self.streams - self.P * c)
        key = epoch_key(self.key, e)
        y = shuffled((key + 1 + c * self.streams + r) % WORD, blocks * self.Q, index)
        block = shuffled(key, self.R, (c * self.P + y // self.Q) * self.streams + r)
        return e, c, y, (e * self.R * self.Q + block * self.Q + y % self.Q) % self.windows


class Row(NamedTuple):
    slot: int
    stream: int
    language: int
    occurrence: int
    epoch: int
    minipoch: int
    place: int
    window: int


class Order:
    """The same arguments and answers as `flatmix.order.Order`, in lists."""

    def __init__(
        self,
        windows: Mapping[str, int],
        weights: Mapping[str, float],
        phases: Sequence[tuple[int, Mapping[str, float]]] | None = None,
        *,
        seed: int,
        batch: int | None = None,
        timeline: Sequence[Sequence[int]] | None = None,
        streams: int,
        selector: str = "hash",
        sequences_per_read_block: int | Mapping[str, int] | str = "auto",
        read_blocks_per_shuffle_buffer: int | Mapping[str, int] | str = "auto",
        window_tokens: int | None = None,
        keys: Mapping[str, int] | None = None,
    ):
        self.names = tuple(windows)
        self.seed, self.streams, self.selector = seed, streams, selector
        self.timeline = Timeline([(0, 0, batch)] if timeline is None else timeline, streams)
        everything = [(0, weights), *(phases or [])]
        self.phases = [(first, thresholds([w.get(name, 0) for name in self.names])) for first, w in everything]
        self.shuffles: list[Shuffle | None] = []
        for name, count in windows.items():
            if not any(w.get(name, 0) for _, w in everything):
                self.shuffles.append(None)
                continue
            key = (keys or {}).get(name, language_key(seed, name))
            q, p = (
                size[name] if isinstance(size, Mapping) else size
                for size in (sequences_per_read_block, read_blocks_per_shuffle_buffer)
            )
            q = auto_block(count, streams, window_tokens) if q == "auto" else q
            p = auto_buffer(count // q // streams) if p == "auto" else p
            self.shuffles.append(Shuffle(key, count, streams, q, p))
        self._counted = {0: self._nothing()}

    def _nothing(self) -> list[list[int]]:
        return [[0] * len(self.names) for _ in range(self.streams)]

    def language(self, slot: int) -> int:
        bounds = [bounds for first, bounds in self.phases if first <= slot][-1]
        z = draw(self.selector, self.seed, slot)
        return next(language for language, bound in enumerate(bounds) if z < bound)

    def languages(self, start: int, stop: int) -> list[int]:
        return [self.language(slot) for slot in range(start, stop)]

    def count(self, slot: int) -> list[list[int]]:
        """Occurrences before the slot, one slot after another from the nearest that was asked for before."""
        known = max(s for s in self._counted if s <= slot)
        counts = [list(row) for row in self._counted[known]]
        for s in range(known, slot):
            counts[s % self.streams][self.language(s)] += 1
        self._counted[slot] = [list(row) for row in counts]
        return counts

    def closed_counts(self, slot: int) -> list[list[int]]:
        """The same for `balanced`, by sums of floors, a phase at a time."""
        counts = self._nothing()
        slope = GOLDEN_GAMMA * self.streams % WORD
        ends = [first for first, _ in self.phases[1:]] + [slot]
        for (first, bounds), end in zip(self.phases, ends, strict=True):
            start, stop = min(first, slot) // self.streams, min(end, slot) // self.streams
            for r in range(self.streams):
                offset = (GOLDEN_GAMMA * r + splitmix64(self.seed)) % WORD
                before = 0
                for language, bound in enumerate(bounds):
                    below = draws_in_reach(stop, slope, offset, bound) - draws_in_reach(start, slope, offset, bound)
                    counts[r][language] += below - before
                    before = below
        return counts

    def counts(self, slot: int) -> list[list[int]]:
        return self.count(slot) if self.selector == "hash" else self.closed_counts(slot)

    def each_row(self, step: int, counts: Sequence[Sequence[int]] | None) -> Iterator[Row]:
        if counts is None:
            counts = self.counts(self.timeline.first_slot(step))
        seen = [[int(count) for count in row] for row in counts]
        for slot in self.timeline.slots(step):
            r, language = slot % self.streams, self.language(slot)
            k = seen[r][language]
            seen[r][language] += 1
            e, c, y, window = self.shuffles[language].locate(r, k)
            yield Row(slot, r, language, k, e, c, y, window)

    def rows(self, step: int, counts: Sequence[Sequence[int]] | None = None) -> list[Row]:
        return list(self.each_row(step, counts))
