"""step -> the language and window of every row of its batch. Integers only: no files, no clock, no random state.

`Order` joins the maps of this package, each in a module of its own, in the sequence in which a row goes through them:

    timeline     (step, row) -> slot
    selector     slot -> language
    counts       slot -> occurrences of each language in each stream before it
    shuffle      (stream, occurrence) -> (epoch, window), by `permutation`
    windows      window -> tokens

This is version 1 of the order. What it gives for equal settings never changes.
"""

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flatmix.order import kernels
from flatmix.order.counts import Counts
from flatmix.order.permutation import language_key
from flatmix.order.selector import SELECTORS, Draw, Phases, languages_of, phases_of
from flatmix.order.settings import Size, block_windows, buffer_blocks, language_name, only_known, whole_number, word
from flatmix.order.shuffle import Shuffle, buffer_cache
from flatmix.order.timeline import LAST_SLOT, Entry, Timeline

__all__ = ["SELECTORS", "VERSION", "Addresses", "Order", "Phases", "Size", "Timeline", "whole_number"]

VERSION = 1


@dataclass(frozen=True)
class Addresses:
    """Where rows of one step come from: int64[rows] each.

    `language` counts in the sequence of the order's languages, `place` the windows of a shuffle buffer as its blocks
    hold them.
    """

    slot: NDArray[np.int64]
    stream: NDArray[np.int64]
    language: NDArray[np.int64]
    occurrence: NDArray[np.int64]
    epoch: NDArray[np.int64]
    minipoch: NDArray[np.int64]
    place: NDArray[np.int64]
    window: NDArray[np.int64]


class Order:
    """The data order of a run.

    Args:
        windows: the windows of each language; the sequence of its keys is that of the languages.
        weights: the weight of each language from slot 0 on; one that is not named has weight 0.
        phases: later weights, as (first slot, weights); first slots rise and are multiples of `streams`.
        seed: 0 to 2^64 - 1.
        batch: rows a step, a multiple of `streams`; or
        timeline: (first step, first slot, batch) entries, the first at (0, 0).
        streams: how many independent shuffles there are.
        selector: "hash" or "balanced".
        sequences_per_read_block: Q, windows in a read block: for all, for each language, or "auto".
        read_blocks_per_shuffle_buffer: P, likewise.
        window_tokens: tokens of a window; "auto" blocks need it.
        keys: K of some languages, in place of that made from seed and name.

    Raises ValueError, naming value and setting, for whatever cannot be an order.
    """

    def __init__(
        self,
        windows: Mapping[str, int],
        weights: Mapping[str, float],
        phases: Phases | None = None,
        *,
        seed: int,
        streams: int,
        batch: int | None = None,
        timeline: Sequence[Entry] | None = None,
        selector: str = "hash",
        sequences_per_read_block: Size = "auto",
        read_blocks_per_shuffle_buffer: Size = "auto",
        window_tokens: int | None = None,
        keys: Mapping[str, int] | None = None,
    ):
        self.names = tuple(language_name(name) for name in windows)
        self.seed = word(seed, "seed")
        self.streams = whole_number(streams, "streams", 1)
        if (batch is None) == (timeline is None):
            raise ValueError(f"batch={batch}, timeline={timeline}: give one of them")
        self.timeline = Timeline(((0, 0, batch),) if timeline is None else timeline, self.streams)  # pyright: ignore[reportArgumentType]
        if selector not in SELECTORS:
            raise ValueError(f"selector is {selector!r}: take one of {', '.join(SELECTORS)}")
        self.selector = selector
        self.phases = phases_of([(0, weights), *(phases or ())], self.names, self.streams)
        only_known(keys or {}, self.names, "keys")
        keys = {name: word(key, f"the key of {name!r}") for name, key in (keys or {}).items()}
        self.keys = {name: keys.get(name, language_key(self.seed, name)) for name in self.names}
        buffers = buffer_cache()
        weighted = {index for phase in self.phases for index, weight in enumerate(phase.weights) if weight > 0}
        self.shuffles: dict[int, Shuffle] = {}
        """The shuffle of each language, by index, that has a weight in some phase."""
        for index, (name, count) in enumerate(windows.items()):
            count = whole_number(count, f"the windows of {name!r}", 0)
            if index in weighted:
                block = block_windows(sequences_per_read_block, self.names, name, count, self.streams, window_tokens)
                in_stream = count // max(1, block) // self.streams
                buffer = buffer_blocks(read_blocks_per_shuffle_buffer, self.names, name, in_stream)
                self.shuffles[index] = Shuffle(name, count, self.streams, block, buffer, self.keys[name], buffers)
        self._draw = Draw(selector, self.seed)
        self._counts = Counts(self._draw, self.phases, self.streams, len(self.names))

    def with_timeline(self, timeline: Timeline, phases: Phases | None = None) -> "Order":
        """The same order of every language, under another timeline and with other later weights."""
        result = copy.copy(self)
        result.timeline = timeline
        first = dict(zip(self.names, self.phases[0].weights, strict=True))
        result.phases = phases_of([(0, first), *(phases or ())], self.names, self.streams)
        result._counts = Counts(self._draw, result.phases, self.streams, len(self.names))
        return result

    @property
    def left_out(self) -> dict[str, int]:
        """Windows that each epoch of a language leaves out, others each time."""
        return {shuffle.name: shuffle.left_out for shuffle in self.shuffles.values()}

    def rows(self, step: int, counts: NDArray[np.int64] | None = None, rows: Sequence[int] | None = None) -> Addresses:
        """The rows of a step, in the sequence of the batch: slot, language, occurrence, epoch, window and more.

        counts: int64[streams, languages] before the step's first slot, where they are known already.
        rows: which rows of the batch, 0 to batch - 1, in any sequence; all without it.
        """
        batch = self.timeline.batch(step)
        language, occurrence = (drawn.reshape(-1) for drawn in self.drawn(step, 1, counts))
        stream = np.repeat(np.arange(self.streams), batch // self.streams)
        slot = self.timeline.slots(step)
        if rows is not None:
            chosen = self.checked_rows(step, rows)
            slot, stream, language, occurrence = slot[chosen], stream[chosen], language[chosen], occurrence[chosen]
        result = Addresses(slot, stream, language, occurrence, *(np.empty_like(slot) for _ in range(4)))
        for index in np.unique(language).tolist():
            own = np.flatnonzero(language == index)
            places = self.shuffles[index].locate(stream[own], occurrence[own])
            result.epoch[own], result.minipoch[own] = places.epoch, places.minipoch
            result.place[own], result.window[own] = places.place, places.window
        return result

    def drawn(
        self, step: int, steps: int, counts: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The language and the occurrence of each row of `steps` steps from `step` on, which must all belong to one
        entry of the timeline: int64[steps, batch] each, the rows as they stand in their batches.

        counts: int64[streams, languages] before the first slot, where they are known already.
        """
        first, batch = self.timeline.first_slot(step), self.timeline.batch(step)
        before = self.counts(first) if counts is None else self._checked_counts(first, counts)
        # languages[position, stream] -> [stream, position]
        languages = np.ascontiguousarray(self.languages(first, first + steps * batch).reshape(-1, self.streams).T)
        occurrence = np.empty_like(languages)
        kernels.number_occurrences(languages, before, occurrence)

        def by_step(drawn: NDArray[np.int64]) -> NDArray[np.int64]:
            return drawn.reshape(self.streams, steps, -1).transpose(1, 0, 2).reshape(steps, batch)

        return by_step(languages), by_step(occurrence)

    def checked_rows(self, step: int, rows: Iterable[int]) -> NDArray[np.int64]:
        """Rows of a step as int64[rows]. Raises ValueError for what is no row of its batch."""
        batch = self.timeline.batch(step)
        chosen = np.asarray(rows if isinstance(rows, np.ndarray) else list(rows))
        if not chosen.size:
            return np.empty(0, np.int64)
        if chosen.ndim != 1 or not np.issubdtype(chosen.dtype, np.integer) or chosen.min() < 0 or chosen.max() >= batch:
            raise ValueError(f"rows are {rows!r}: step {step} has the rows 0 to {batch - 1}, as whole numbers")
        return chosen.astype(np.int64)

    def counts(self, slot: int) -> NDArray[np.int64]:
        """Occurrences before a slot, a multiple of the streams: int64[streams, languages]."""
        return self._counts.before(self._checked_slot(slot))

    def remember(self, slot: int, counts: NDArray[np.int64]) -> None:
        """Takes int64[streams, languages] for the counts before `slot`, so that `hash` counts on from there."""
        slot = self._checked_slot(slot)
        self._counts.remember(slot, self._checked_counts(slot, counts))

    def languages(self, start: int, stop: int) -> NDArray[np.int64]:
        """The language of each of the slots start .. stop - 1: int64[stop - start]. Nothing is counted."""
        start = whole_number(start, "start", 0)
        stop = whole_number(stop, "stop", start)
        if stop > LAST_SLOT:
            raise ValueError(f"stop is {stop}: slots up to 2^62 are supported")
        return languages_of(self._draw, self.phases, start, stop)

    def _checked_slot(self, slot: int) -> int:
        slot = whole_number(slot, "slot", 0)
        if slot > LAST_SLOT:
            raise ValueError(f"slot {slot}: slots up to 2^62 are supported")
        if slot % self.streams:
            raise ValueError(
                f"slot {slot} is no multiple of streams={self.streams}: counts are known before those only"
            )
        return slot

    def _checked_counts(self, slot: int, counts: NDArray[np.int64]) -> NDArray[np.int64]:
        counts = np.asarray(counts)
        shape = (self.streams, len(self.names))
        if counts.shape != shape or not np.issubdtype(counts.dtype, np.integer):
            raise ValueError(
                f"counts are {counts.dtype}{list(counts.shape)}: int64[streams, languages] = {shape} needed"
            )
        counts = counts.astype(np.int64)
        if (counts < 0).any() or (counts.sum(axis=1) != slot // self.streams).any():
            raise ValueError(
                f"counts before slot {slot} add up to {counts.sum(axis=1).tolist()} by stream: each must be "
                f"{slot // self.streams}, from numbers that are not below 0"
            )
        return counts
