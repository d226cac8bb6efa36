"""step -> its rows: which lane, section and offset in it each is.

A lane is one language in one stream that holds rows. The rows of a stream are cut into sections, numbered through all
epochs: a shuffle buffer is one, or several of equal size, the last as short as it comes; or a section is several
buffers, where a batch would use up one at once. All of this is arithmetic on occurrences: no permutation is needed
before a row is read alone. Steps that are asked for in sequence are planned many at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flatmix.loader import kernels
from flatmix.order import Order
from flatmix.order.shuffle import Shuffle

_ROWS_AT_ONCE = 4096  # about 100 kB of plans; the cost of a call is then some 2 % of that of the rows


@dataclass(frozen=True)
class Lane:
    """One language in one stream. A section has up to `size` windows: a part of a shuffle buffer, or all of `buffers`
    consecutive ones. `weight` is the share of all rows."""

    language: int
    stream: int
    shuffle: Shuffle
    size: int
    buffers: int
    weight: float

    @property
    def parts(self) -> int:
        """Sections of a full shuffle buffer; 1 where a section is several buffers."""
        return -(-self.shuffle.buffer_windows // self.size)

    def span(self, number: int) -> tuple[int, int]:
        """Section -> its occurrences first .. stop - 1."""
        group, part = divmod(number, self.parts)
        first = self._start(group * self.buffers) + part * self.size
        return first, min(first + self.size, self._start((group + 1) * self.buffers))

    def following(self, number: int) -> int:
        """The section that comes after a section."""
        group = number // self.parts
        ends = self.span(number)[1] == self._start((group + 1) * self.buffers)
        return (group + 1) * self.parts if ends else number + 1

    def _start(self, buffer: int) -> int:
        """The first occurrence of a shuffle buffer, of those of all epochs."""
        epoch, minipoch = divmod(buffer, self.shuffle.buffers_per_epoch)
        return epoch * self.shuffle.windows_per_stream + minipoch * self.shuffle.buffer_windows


@dataclass(frozen=True)
class Rows:
    """Rows of one step: int64[rows] each. `lane` is -1 for a row that no lane holds."""

    language: NDArray[np.int64]
    stream: NDArray[np.int64]
    occurrence: NDArray[np.int64]
    lane: NDArray[np.int64]
    section: NDArray[np.int64]
    offset: NDArray[np.int64]

    def chosen(self, rows: NDArray[np.int64] | slice) -> "Rows":
        return Rows(*(array[rows] for array in vars(self).values()))


class Planner:
    """Plans steps of any order over the languages of `lanes`, which were made with these `streams`."""

    def __init__(self, lanes: Sequence[Lane], languages: int, streams: int):
        self._streams = streams
        self._lanes = np.full((languages, streams), -1)
        self._sizes = np.ones((languages, 3), np.int64)
        sizes = [(lane.size, lane.parts, lane.buffers) for lane in lanes]
        self._lane_sizes = np.array(sizes, np.int64).reshape(-1, 3)
        for number, lane in enumerate(lanes):
            self._lanes[lane.language, lane.stream] = number
            shuffle = lane.shuffle
            self._sizes[lane.language] = shuffle.windows_per_stream, shuffle.buffer_windows, shuffle.buffers_per_epoch
        self._language = np.array([lane.language for lane in lanes], np.int64)
        self._stream = np.array([lane.stream for lane in lanes], np.int64)
        self._planned: tuple[Order | None, int, list[Rows]] = None, 0, []

    def rows(self, order: Order, step: int) -> Rows:
        """All rows of a step, in the sequence of the batch."""
        planned, first, steps = self._planned
        if planned is not order or not 0 <= step - first < len(steps):
            goes_on = planned is order and step == first + len(steps)
            count = self._count(order, step, len(steps)) if goes_on else 1
            self._planned = order, step, self._plan(order, step, count)
            _, first, steps = self._planned
        return steps[step - first]

    def starts(self, order: Order, step: int) -> Rows:
        """The next row of each lane before a step, drawn or not."""
        counts = order.counts(order.timeline.first_slot(step))
        return self._placed(self._language, self._stream, counts[self._stream, self._language])

    def _count(self, order: Order, step: int, before: int) -> int:
        most = max(1, _ROWS_AT_ONCE // order.timeline.batch(step))
        return min(2 * before, most, order.timeline.steps_alike(step))

    def _plan(self, order: Order, step: int, count: int) -> list[Rows]:
        language, occurrence = order.drawn(step, count)
        batch = language.shape[1]
        stream = np.tile(np.repeat(np.arange(self._streams), batch // self._streams), count)
        rows = self._placed(language.reshape(-1), stream, occurrence.reshape(-1))
        return [rows.chosen(slice(number * batch, (number + 1) * batch)) for number in range(count)]

    def _placed(self, language: NDArray[np.int64], stream: NDArray[np.int64], occurrence: NDArray[np.int64]) -> Rows:
        lane, section, offset = (np.empty(len(language), np.int64) for _ in range(3))
        kernels.place_rows(
            language, stream, occurrence, self._lanes, self._sizes, self._lane_sizes, lane, section, offset
        )
        return Rows(language, stream, occurrence, lane, section, offset)
