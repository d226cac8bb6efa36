"""memory budget -> how much of each shuffle buffer is held.

A lane, one language in one stream, goes through its shuffle buffer in 1, 2, 3, ... sections of equal size. It holds one
section at a time, and reads every block of the buffer once for each: half the memory costs reading twice. A lane that
holds nothing reads its rows one by one, which costs more than any of that, but no memory.

The memory goes where it saves most: at a price for a byte each lane takes what is cheapest for it, and the price is
the lowest at which all of it fits. (H. Everett, "Generalized Lagrange multiplier method", 1963.) What is left at that
price buys single lanes their next better choice.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from flatmix.loader.plan import Lane
from flatmix.order import Order

_MOST_SECTIONS = 16
_MOST_ROWS = 2**30  # cells are counted in int32, those that may be borrowed too
_TURNS = 64  # of the bisection: more than a float64 has bits
# The cost of a read that is not its tokens, in tokens: what lies around them in the chunks, and the call itself.
_AROUND = 2**14
_CALL = 20_000
_ENTRY_BYTES = 28  # of a row, beside its tokens: its cell in both sections, its place in its block, and a free cell
# Beside the rows, as shares of their memory: room for blocks on their way, but for so many of the largest blocks at the
# least and at most; and cells that lanes may borrow, one block at least.
_STAGED, _STAGED_WELL, _MOST_STAGED = 1 / 64, 1 / 4, 16
_WELL, _WELL_STEPS = 3, 8  # blocks keep two cores busy, and the rows of some steps the pace: worth a larger share
_SPARE = 1 / 128
_STEPS_HELD = 4  # at least: of smaller buffers several are held together


@dataclass(frozen=True)
class Demand:
    """What one language would hold: `windows` of a full buffer, or of `buffers` consecutive ones, in each of `lanes`
    lanes, in blocks of `block_windows`; `tokens` of a window, and the `weight` of the language."""

    windows: int
    lanes: int
    block_windows: int
    tokens: int
    weight: float
    buffers: int = 1

    def choices(self) -> list[tuple[int, float]]:
        """(windows held, tokens to read for each row), from all windows to none."""
        whole = (self.block_windows * self.tokens + _AROUND + _CALL) / self.block_windows
        alone = self.tokens + _AROUND + 2 * _CALL  # twice: a step waits for it, and for a block seldom
        counts = range(1, min(_MOST_SECTIONS if self.buffers == 1 else 1, self.windows) + 1)
        held = [(-(-self.windows // count), count * whole) for count in counts]
        return [choice for choice in held if choice[1] < alone] + [(0, float(alone))]


@dataclass(frozen=True)
class Share:
    """How the memory is split.

    `sizes`: the windows that each lane of a language holds, 0 for rows read one by one; `spare`: rows that lanes may
    borrow; `staging`: bytes of blocks on their way; `bytes`: of everything.
    """

    sizes: Mapping[int, list[int]]
    spare: int
    staging: int
    bytes: int


def share_memory(demands: Mapping[int, Demand], words: int, step_rows: int, budget: int) -> Share:
    """Splits `budget` bytes among languages, whose rows have `words` uint32 values; a step takes `step_rows`."""
    row = 4 * words
    wanting = {index: demand for index, demand in demands.items() if demand.lanes}
    none = {index: [0] * demand.lanes for index, demand in demands.items()}
    for limit in sorted({demand.block_windows for demand in wanting.values()}, reverse=True):
        fitting = {index: demand for index, demand in wanting.items() if demand.block_windows <= limit}
        well = max(_WELL * limit, _WELL_STEPS * step_rows) * row
        least = max(limit * row, min(well, int(budget * _STAGED_WELL)))
        room = min(budget - least - limit * row, int(budget / (1 + _STAGED + _SPARE)))
        whole = {index: [demand.windows] * demand.lanes for index, demand in fitting.items()}
        parts = _sizes(fitting, min(room // (row + _ENTRY_BYTES), _MOST_ROWS))
        # Of a buffer held whole a block brings all its rows: a few steps' worth on their way will do.
        for sizes, staged in ((whole, _WELL * max(limit, step_rows) * row), (parts, well)):
            share = _with_room(none | sizes, fitting, row, limit, staged, budget)
            if share is not None and share.bytes <= budget:
                return share
    return Share(none, 0, 0, 0)


def _with_room(
    sizes: Mapping[int, list[int]], demands: Mapping[int, Demand], row: int, limit: int, well: int, budget: int
) -> Share | None:
    """What is held, with what it takes beside: as much of that as is well, or as the budget allows. None for no rows;
    blocks of up to `limit` windows are read."""
    rows = sum(map(sum, sizes.values()))
    if not 0 < rows <= _MOST_ROWS:
        return None
    held = rows * (row + _ENTRY_BYTES)
    # A section of one or two blocks has no room for the next one's before it is used up.
    short = sum(
        demand.block_windows * sum(0 < size <= 2 * demand.block_windows for size in sizes[index])
        for index, demand in demands.items()
    )
    least = max(limit, int(rows * _SPARE))
    staging = max(min(well, int(budget * _STAGED_WELL)), min(int(rows * row * _STAGED), _MOST_STAGED * limit * row))
    staging = max(limit * row, min(staging, budget - held - least * row))
    spare = max(least, min(short, (budget - held - staging) // row))
    return Share(sizes, spare, staging, held + spare * row + staging)


def _sizes(demands: Mapping[int, Demand], rows: int) -> dict[int, list[int]]:
    """The windows that each lane holds, at most `rows` of all together."""
    choices = [demand.choices() for demand in demands.values()]
    lanes = np.array([demand.lanes for demand in demands.values()])
    weights = np.array([demand.weight for demand in demands.values()])
    held = np.zeros((len(choices), max(map(len, choices))), np.int64)
    cost = np.full(held.shape, np.inf)
    for number, own in enumerate(choices):
        held[number, : len(own)], cost[number, : len(own)] = zip(*own, strict=True)
    cost *= (weights / lanes)[:, None]
    everyone = np.arange(len(choices))

    def chosen(price: float) -> NDArray[np.int64]:
        return np.argmin(cost + price * held, axis=1)

    def needed(chosen: NDArray[np.int64]) -> int:
        return int((held[everyone, chosen] * lanes).sum())

    best = chosen(0.0)
    if needed(best) > rows:
        low, high = 0.0, float(cost[np.isfinite(cost)].max())  # at the high price none takes any
        for _ in range(_TURNS):
            middle = (low + high) / 2
            low, high = (middle, high) if needed(chosen(middle)) > rows else (low, middle)
        best = chosen(high)
    left = rows - needed(best)
    sizes: dict[int, list[int]] = {}
    languages = list(demands)
    for number in np.lexsort((everyone, -weights / [demand.windows for demand in demands.values()])).tolist():
        now = choices[number][best[number]][0]
        more = next((size for size, _ in choices[number][: best[number]] if size - now <= left), now)
        better = min(int(lanes[number]), left // (more - now)) if more > now else 0
        left -= better * (more - now)
        sizes[languages[number]] = [more] * better + [now] * (int(lanes[number]) - better)
    return sizes


def demands_of(order: Order, lanes: int, tokens: int, rows: int) -> dict[int, Demand]:
    """What the buffers of each language would take in all of so many streams; `rows` are those of a step."""
    weights = np.max([np.divide(phase.weights, sum(phase.weights)) for phase in order.phases], axis=0)
    result: dict[int, Demand] = {}
    for index, shuffle in order.shuffles.items():
        weight = float(weights[index])
        buffers = max(1, math.ceil(_STEPS_HELD * rows * weight / order.streams / shuffle.buffer_windows))
        windows = buffers * shuffle.buffer_windows
        result[index] = Demand(windows, lanes, shuffle.block_windows, tokens, weight, buffers)
    return result


def lanes_of(order: Order, share: Share, streams: list[int], demands: Mapping[int, Demand]) -> list[Lane]:
    """Those that hold anything."""
    return [
        Lane(index, stream, order.shuffles[index], size, demand.buffers, demand.weight / order.streams)
        for index, demand in demands.items()
        for stream, size in zip(streams, share.sizes[index], strict=True)
        if size and demand.weight
    ]
