"""(step, row) <-> slot, by the run's timeline: a list of (first step, first slot, batch).

The samples are a sequence over slots; the timeline says which of them a step takes. A stream's rows stand together in
the batch, so that hosts with contiguous rows have whole streams.
"""

import operator
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from flatmix.order.settings import whole_number

Entry = tuple[int, int, int]

LAST_SLOT = 2**62  # int64 arithmetic on slots, and on sums of two, stays exact


@dataclass(frozen=True)
class Timeline:
    """`entries`: (first step, first slot, batch), from (0, 0, batch) on, steps rising, slots and batches multiples of
    `streams`. An entry holds until the next one's first step.

    Raises ValueError for entries that are not so, naming the entry.
    """

    entries: Sequence[Entry]
    streams: int

    def __post_init__(self) -> None:
        streams = whole_number(self.streams, "streams", 1)
        given = _items(self.entries, "the timeline")
        entries = tuple(_checked_entry(number, entry, streams) for number, entry in enumerate(given))
        if not entries or entries[0][:2] != (0, 0):
            raise ValueError(f"the timeline is {list(entries)}: its first entry must be (0, 0, batch)")
        for number, (entry, later) in enumerate(pairwise(entries), 1):
            if later[0] <= entry[0]:
                raise ValueError(
                    f"timeline entry {number} is {later} after {entry}: first steps must be strictly increasing"
                )
        object.__setattr__(self, "entries", entries)
        object.__setattr__(self, "streams", streams)

    def entry(self, step: int) -> Entry:
        """The entry that `step` belongs to. Raises ValueError where `step` is no whole number >= 0."""
        step = whole_number(step, "step", 0)
        return self.entries[bisect_right(self.entries, step, key=lambda entry: entry[0]) - 1]

    def batch(self, step: int) -> int:
        """Rows of that step."""
        return self.entry(step)[2]

    def first_slot(self, step: int) -> int:
        """The first slot of that step; its slots are the `batch` from there on. Raises ValueError beyond 2^62."""
        first_step, first_slot, batch = self.entry(step)
        slot = first_slot + (operator.index(step) - first_step) * batch
        if slot > LAST_SLOT - batch:
            raise ValueError(f"step {step} has slot {slot}: slots up to 2^62 are supported")
        return slot

    def goes_on(self, step: int) -> bool:
        """Whether a step, not the first, begins with the slot after the last of the step before it."""
        return self.first_slot(step) == self.first_slot(step - 1) + self.batch(step - 1)

    def steps_alike(self, step: int) -> int:
        """How many steps from `step` on go through the slots in sequence in batches of its size."""
        later = [entry[0] for entry in self.entries if entry[0] > step]
        last = (LAST_SLOT - self.first_slot(step)) // self.batch(step)
        return min(later[0] - step, last) if later else last

    def slots(self, step: int) -> NDArray[np.int64]:
        """The slot of each row of that step: int64[batch]."""
        # slots[position, stream] rise along both axes; a stream's rows stand together
        first, batch = self.first_slot(step), self.batch(step)
        return np.arange(first, first + batch, dtype=np.int64).reshape(-1, self.streams).T.reshape(-1)

    def spans(self, step: int) -> list[tuple[int, int, int]]:
        """What the steps before `step` take: (first step, first slot, the slot after the last) of each run of steps
        that go through the slots in sequence, in batches of one size."""
        entries: list[Entry] = []
        for entry in self.entries:
            goes_on = entries and entry[1:] == (entries[-1][1] + (entry[0] - entries[-1][0]) * entry[2], entries[-1][2])
            if entry[0] < step and not goes_on:
                entries.append(entry)
        ends = [*(entry[0] for entry in entries[1:]), step][: len(entries)]
        return [(at, slot, slot + (end - at) * batch) for (at, slot, batch), end in zip(entries, ends, strict=True)]

    def until(self, step: int) -> tuple[Entry, ...]:
        """The entries that begin at or before `step`."""
        return tuple(entry for entry in self.entries if entry[0] <= step)

    def with_batch(self, step: int, batch: int) -> "Timeline":
        """The same up to `step`, which goes on with the same slots in batches of `batch` rows."""
        past = tuple(entry for entry in self.entries if entry[0] < step)
        return Timeline((*past, (step, self.first_slot(step), batch)), self.streams)


def _items(value: object, what: str) -> tuple[object, ...]:
    if not isinstance(value, Sequence | np.ndarray) or isinstance(value, str | bytes):
        raise ValueError(f"{what} is {value!r}: a list of (first step, first slot, batch) is needed")
    return tuple(value)  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]


def _checked_entry(number: int, entry: object, streams: int) -> Entry:
    items = _items(entry, f"timeline entry {number}")
    if len(items) != 3:
        raise ValueError(f"timeline entry {number} is {entry!r}: it must be (first step, first slot, batch)")
    step = whole_number(items[0], f"the first step of timeline entry {number}", 0)
    slot = whole_number(items[1], f"the first slot of timeline entry {number}", 0)
    batch = whole_number(items[2], f"the batch of timeline entry {number}", 1)
    if max(slot, batch) > LAST_SLOT:
        raise ValueError(f"timeline entry {number} is {entry!r}: slots up to 2^62 are supported")
    for name, value in (("first slot", slot), ("batch", batch)):
        if value % streams:
            lower, upper = value // streams * streams, -(-value // streams) * streams
            near = f"{lower} or {upper}" if lower else str(upper)
            raise ValueError(
                f"{name} {value} (timeline entry {number}) is no multiple of streams={streams}: take {near}"
            )
    return step, slot, batch
