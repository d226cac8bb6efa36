"""slot -> batch, from raw memory-mapped files alone: what a loader is compared with.

Nothing here is spared that NumPy offers. A language is drawn for thousands of slots at once; a window is a place in one
permutation of all windows of a language, made anew for each epoch; the windows of a batch are gathered by one call for
each language into one array, uint16[batch, length], in which they stand by language. There is no shuffle buffer, no
compression, no checksum and no resume but by counting, and all files are in the page cache.

The last step is that of the loader, to the same five fields. For jax it is tried in several ways, and the fastest
counts: ids as uint16 or uint32 on their way, one batch after another, or one begun before the last is waited for, or
made ahead in a thread.
"""

import time
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice, repeat
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

from flatmix.loader.batch import TokenBatch
from flatmix.loader.host import HostBatch, RowFormat, host_batch, row_fields
from flatmix.loader.prefetch import Prefetcher

_AHEAD = 64  # batches whose slots are looked at together
_COUNTED = 2**20  # slots
_PAGE = 2048  # uint16 values
_TURNS = 3  # in which ways are tried
_DEPTH = 2  # batches that a thread makes ahead, as many as a loader
_SEED = 11

Rows = tuple[NDArray[np.uint16], NDArray[np.int32]]  # uint16[batch, length], and the language of each row


class Floor:
    """The batches from `slot` on, one after another. Keeps the files mapped."""

    def __init__(
        self, files: Mapping[str, Path], weights: Mapping[str, float], length: int, batch: int, slot: int = 0
    ) -> None:
        self._views = [_windows(path, length) for path in files.values()]
        shares = np.cumsum([weights[name] for name in files])
        self._thresholds = np.array([int(share * 2**64) for share in shares[:-1] / shares[-1]], np.uint64)
        self.length, self._batch, self._slot = length, batch, slot
        self._drawn = self._counts(slot)
        self._planned: deque[list[tuple[int, NDArray[np.int64]]]] = deque()
        self._orders: dict[int, tuple[int, NDArray[np.int64]]] = {}

    def touch(self) -> int:
        """Maps every page now, and not while the clock runs."""
        return sum(int(view.reshape(-1)[::_PAGE].sum(dtype=np.int64)) for view in self._views)

    def rows(self) -> Rows:
        """The next batch, in new memory."""
        if not self._planned:
            self._plan()
        rows = np.empty((self._batch, self.length), np.uint16)
        language = np.empty(self._batch, np.int32)
        first = 0
        for index, windows in self._planned.popleft():
            last = first + len(windows)
            # With "clip", NumPy writes straight into `out`; all places are valid.
            np.take(self._views[index], windows, axis=0, out=rows[first:last], mode="clip")
            language[first:last] = index
            first = last
        return rows, language

    def _plan(self) -> None:
        """The windows of the next batches."""
        draws = self._languages(self._slot, self._slot + _AHEAD * self._batch).reshape(_AHEAD, self._batch)
        plans: list[list[tuple[int, NDArray[np.int64]]]] = [[] for _ in range(_AHEAD)]
        for index in range(len(self._views)):
            counts = (draws == index).sum(axis=1)
            windows = self._next_windows(index, int(counts.sum()))
            for plan, part in zip(plans, np.split(windows, np.cumsum(counts)[:-1]), strict=True):
                plan.append((index, part))
        self._planned.extend(plans)
        self._slot += draws.size

    def _next_windows(self, index: int, count: int) -> NDArray[np.int64]:
        parts, windows = [np.empty(0, np.int64)], len(self._views[index])
        while count:
            epoch, place = divmod(int(self._drawn[index]), windows)
            if self._orders.get(index, (-1,))[0] != epoch:
                order = np.random.default_rng([_SEED, index, epoch]).permutation(windows)
                self._orders[index] = epoch, order
            parts.append(self._orders[index][1][place : place + count])
            self._drawn[index] += len(parts[-1])
            count -= len(parts[-1])
        return np.concatenate(parts)

    def _languages(self, start: int, stop: int) -> NDArray[np.int64]:
        return np.searchsorted(self._thresholds, splitmix64(np.arange(start, stop, dtype=np.uint64)), side="right")

    def _counts(self, slot: int) -> NDArray[np.int64]:
        """How often each language was drawn before a slot."""
        result = np.zeros(len(self._views), np.int64)
        for start in range(0, slot, _COUNTED):
            drawn = self._languages(start, min(slot, start + _COUNTED))
            result += np.bincount(drawn, minlength=len(result))
        return result


def _windows(path: Path, length: int) -> NDArray[np.uint16]:
    values = np.asarray(np.memmap(path, np.uint16, "r"))  # a plain array: a memmap costs a microsecond at each use
    return values[: len(values) // length * length].reshape(-1, length)


def splitmix64(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Vigna's mixing of 64 bits, of each value."""
    mixed = (values + np.uint64(_SEED)) * np.uint64(0x9E3779B97F4A7C15)
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return mixed ^ (mixed >> np.uint64(31))


def host_batches(floor: Floor) -> Iterator[HostBatch]:
    """All fields as NumPy arrays."""
    while True:
        rows, language = floor.rows()
        yield host_batch(rows.astype(np.uint32), RowFormat(floor.length), language)


@dataclass(frozen=True)
class Way:
    """How rows become jax.Arrays."""

    dtype: type[np.uint16] | type[np.uint32]
    pace: str  # one of PACES

    def __str__(self) -> str:
        return f"{self.dtype.__name__} {self.pace}"


PACES = ("in turn", "begun ahead", "made in a thread")
WAYS = tuple(Way(dtype, pace) for pace in PACES for dtype in (np.uint16, np.uint32))


def array_batches(floor: Floor, way: Way) -> Iterator[TokenBatch]:
    """All fields as jax.Arrays on one device. What it yields may still be on its way, as that of a loader may."""
    form = RowFormat(floor.length)

    def prepare(step: int = 0) -> Rows:
        rows, language = floor.rows()
        return rows.astype(way.dtype, copy=False), language

    def finish(rows: Rows) -> TokenBatch:
        return _decode(form, *rows)

    if way.pace == "made in a thread":
        return Prefetcher(prepare, finish, 0, None, _DEPTH, lambda seconds: None)
    batches = (finish(prepare()) for _ in repeat(None))
    return batches if way.pace == "in turn" else _ahead(batches)


def end(batches: Iterator[TokenBatch]) -> None:
    """Ends the thread of batches that have one."""
    if isinstance(batches, Prefetcher):
        batches.close(ValueError("these batches are done with"))


def _ahead(batches: Iterator[TokenBatch]) -> Iterator[TokenBatch]:
    """The same, each begun before the one before it is given away."""
    last = next(batches)
    for batch in batches:
        yield last
        last = batch


@partial(jax.jit, static_argnums=0)
def _decode(form: RowFormat, rows: jax.Array, language: jax.Array) -> TokenBatch:
    """The fields as `flatmix.loader.batch` makes them; straight from NumPy, which is faster than by way of an Array."""
    return TokenBatch(*row_fields(rows.astype(jnp.uint32), form, jnp), language)


def fastest_way(tried: Sequence[tuple[Way, Iterator[TokenBatch]]], count: int) -> tuple[Way, dict[str, float]]:
    """Which way is the fastest, tried in turns; and the seconds for a batch, in the best turn of each."""
    best = {str(way): float("inf") for way, _ in tried}
    for _ in range(_TURNS):
        for way, batches in tried:
            jax.block_until_ready(next(batches))
            started = time.perf_counter()
            for batch in islice(batches, count):
                jax.block_until_ready(batch)
            best[str(way)] = min(best[str(way)], (time.perf_counter() - started) / count)
    return min((way for way, _ in tried), key=lambda way: best[str(way)]), best
