"""step -> TokenBatch: the order, the store and the devices joined.

A batch takes its way through the modules of this package in the sequence

    rows       window -> encoded tokens, read from the store
    buffers    rows of a step -> their tokens, from shuffle buffers or alone
    host       encoded tokens -> NumPy arrays, or
    batch      rows of this process -> sharded jax.Arrays, decoded on the devices
    prefetch   batches ahead of their use

and `state` says where a run stands. Nothing here decides what is in a batch: that is `flatmix.order` alone.
"""

import logging
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from jax.profiler import TraceAnnotation
from jax.sharding import NamedSharding
from numpy.typing import NDArray

from flatmix.errors import StateError
from flatmix.loader import build
from flatmix.loader.batch import EncodedBatch, Layout, TokenBatch
from flatmix.loader.buffers import CLOSED
from flatmix.loader.host import HostBatch, host_batch
from flatmix.loader.prefetch import Prefetcher
from flatmix.loader.recycling import Recycler
from flatmix.loader.state import (
    Facts,
    check_past,
    make_state,
    parse_state,
    past_timeline,
    restore_counts,
    resumed_timeline,
)
from flatmix.mixing import token_weights
from flatmix.order import Order, Timeline, whole_number
from flatmix.order.timeline import Entry
from flatmix.params import FlatTokensParams, MixtureParams, TokenBatchParams
from flatmix.store import open_store

__all__ = ["HostBatch", "ShufflingLoader", "TokenBatch"]


class ShufflingLoader:
    """Batches of one split of a flat-tokens store, mixed from several languages and shuffled.

    Args:
        split: "train", "validation" or another split that every language of the mixture has.
        params: the store, what its order depends on, and what reading may use.
        mixture: the weights of the languages.
        token_batch_params: the shape of a batch.
        sharding: how the rows lie on the devices; everything on one device of this process without it.
        timeline: (first step, first slot, batch) entries, the last with the batch of `token_batch_params`; for runs
            that leave slots out, show them again or change the batch. One entry from 0 on without it.

    Everything is checked here: ValueError for settings, StoreError (a ValueError) for a store, language or split.
    Every process of a run makes the same loader; they do not talk to each other.
    """

    def __init__(
        self,
        split: str,
        params: FlatTokensParams,
        mixture: MixtureParams,
        token_batch_params: TokenBatchParams,
        sharding: NamedSharding | None = None,
        timeline: Sequence[Entry] | None = None,
    ):
        self.params, self.token_batch_params = params, token_batch_params
        self._form = build.row_format(params, token_batch_params)
        self._given = None if timeline is None else Timeline(timeline, params.streams)
        first = build.first_timeline(params, token_batch_params, self._given)
        self._sharding = sharding
        if sharding is not None:
            self._layout.check(token_batch_params.batch)
        self._splits = open_store(params.filespec, params.language, params.storage).open(mixture.languages, split)
        build.check_ids(self._splits, params.vocab_size)
        self.mixture = token_weights(mixture, self._splits)
        """The mixture, its weights as shares of the tokens."""
        self.order = build.make_order(self._splits, params, self.mixture, token_batch_params, first)
        self._facts = self._what_the_past_depends_on()
        self._buffers = build.make_buffers(self._splits, self.order, params, token_batch_params, self._own_streams())
        self._iterators: weakref.WeakSet[Prefetcher[EncodedBatch, TokenBatch]] = weakref.WeakSet()
        self._closed = threading.Event()
        self._memory = Recycler()
        self._own_rows: dict[int, NDArray[np.int64]] = {}

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages, in the sequence that `language` of a batch counts in."""
        return self.order.names

    def load(self, step: int) -> TokenBatch:
        """The batch of any step, as jax.Arrays over the devices of the sharding.

        Raises ReadError where tokens could not be read; the loader can be used on.
        """
        started = time.perf_counter()
        batch = self._layout.decode(self._prepare(self.order, step))
        self._waited(time.perf_counter() - started)
        return batch

    def load_host(self, step: int, rows: Iterable[int] | None = None) -> HostBatch:
        """The same rows as NumPy arrays, the caller's own: all, or those of the batch that `rows` names."""
        order = self.order
        chosen = None if rows is None else order.checked_rows(step, rows)
        encoded, language = self._host_rows(order, step, chosen)
        return host_batch(encoded, self._form, language, self._memory.empty)

    def steps(self, start: int = 0, stop: int | None = None) -> Iterator[TokenBatch]:
        """The batches of the steps start, start + 1, ... up to `stop`, made ahead in the background.

        An error reaches the caller at its own step, and at each later call. `restore` does not change an iterator that
        has begun.
        """
        start = whole_number(start, "start", 0)
        stop = None if stop is None else whole_number(stop, "stop", 0)
        self._check_open()
        order, layout = self.order, self._layout

        def prepare(step: int) -> EncodedBatch:
            return self._prepare(order, step)

        iterator = Prefetcher(prepare, layout.decode, start, stop, self.params.prefetch, self._waited)
        self._iterators.add(iterator)
        return iterator

    def state(self, step: int) -> dict[str, Any]:
        """Where the run stands before `step`: a small dict of JSON types, equal on every process."""
        return make_state(self.order, step, self._facts)

    def restore(self, state: Mapping[str, Any]) -> int:
        """Goes on from a saved state, and returns its step, the one to load next.

        Another batch size than the state's goes on with the same slots. Raises StateError, naming what differs, for a
        state that another past belongs to; the loader is then as it was.
        """
        saved = parse_state(state)
        past = past_timeline(saved, self.params.streams)
        timeline = resumed_timeline(saved, past, self._given, self.token_batch_params.batch)
        try:
            phases = build.phases_by_slot(self.mixture, timeline)
        except ValueError as error:
            raise StateError(
                f"this state, before step {saved.step}, does not go with the phases here: {error}"
            ) from None
        order = self.order.with_timeline(timeline, phases)
        check_past(saved, past, order, self._facts)
        restore_counts(saved, order)
        self.order = order
        return saved.step

    def stats(self, step: int) -> dict[str, dict[str, int | float]]:
        """Of each language, before `step`: `rows` drawn, `epochs` (its place in the data, in passes over it), and
        `left_out`, the windows that an epoch leaves out, others each time."""
        spans = self.order.timeline.spans(whole_number(step, "step", 0))
        drawn = np.zeros(len(self.languages), np.int64)
        for _, start, stop in spans:
            drawn += (self.order.counts(stop) - self.order.counts(start)).sum(axis=0)
        place = self.order.counts(self.order.timeline.first_slot(step)).sum(axis=0)
        result: dict[str, dict[str, int | float]] = {}
        for index, name in enumerate(self.languages):
            shuffle = self.order.shuffles.get(index)
            result[name] = {
                "rows": int(drawn[index]),
                "epochs": int(place[index]) / shuffle.windows_per_epoch if shuffle else 0.0,
                "left_out": shuffle.left_out if shuffle else 0,
            }
        return result

    def metrics(self) -> dict[str, int | float]:
        """What reading has cost so far: `seconds_waited` for batches, `rows` and `rows_read_alone`, `bytes_read` (of
        tokens, before compression), `buffers_filled`, and `buffer_fill`, the share of the buffers of use now."""
        return {**vars(self._buffers.metrics), "buffer_fill": self._buffers.fill_rate()}

    def memory(self) -> dict[str, Any]:
        """How the memory budget is split, in bytes: `budget`, and `buffers`, the most that all shuffle buffers take,
        blocks on their way included. Of each of the `languages`: `whole`, what its buffers have in all, and `held`,
        what is held of them at a time; `times_read`, how often a block is read for that; `read_alone`, the share of its
        rows that no buffer holds."""
        return self._buffers.memory(self.languages)

    def close(self) -> None:
        """Ends the background threads and gives the buffers' memory back. A closed loader loads nothing more."""
        self._closed.set()
        for iterator in list(self._iterators):
            iterator.close(ValueError(CLOSED))
        self._buffers.close()
        self._memory.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @cached_property
    def _layout(self) -> Layout:
        """Made late without a sharding: `load_host` then starts no device."""
        return Layout(self._sharding, self._form)

    def _own_streams(self) -> frozenset[int]:
        """The streams that have a row on a device of this process; all without a sharding."""
        batch, streams = self.token_batch_params.batch, self.params.streams
        if self._sharding is None:
            return frozenset(range(streams))
        processes = self._layout.processes(batch)
        if processes > streams:
            logging.getLogger("flatmix").warning(
                "%d processes have rows of their own, and there are %d streams: some read the same blocks. Streams "
                "are part of the order, so take %d for the next run",
                processes,
                streams,
                processes,
            )
        return frozenset(row // (batch // streams) for row in self._layout.own_rows(batch).tolist())

    def _what_the_past_depends_on(self) -> Facts:
        shape = self.token_batch_params
        window = {"len": shape.len, "tokens": shape.window, "stride": shape.window_stride}
        return Facts(
            digests=[split.identity for split in self._splits.values()],
            window={**window, "packing": self.params.sequence_packing},
            keys=dict(self.mixture.keys or {}),
        )

    def _prepare(self, order: Order, step: int) -> EncodedBatch:
        """The rows of this process's devices, on their way there."""
        batch = order.timeline.batch(step)
        own = self._own_rows.get(batch)  # asked of the mesh once for each batch size, not at every step
        if own is None:
            self._layout.check(batch)
            own = self._own_rows[batch] = self._layout.own_rows(batch)
        chosen = None if len(own) == batch else own
        return self._layout.to_devices(batch, own, *self._host_rows(order, step, chosen))

    def _host_rows(
        self, order: Order, step: int, chosen: NDArray[np.int64] | None
    ) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
        """uint32[rows, words] and the language of each row, in memory of their own: jax may keep it."""
        self._check_open()
        count = order.timeline.batch(step) if chosen is None else len(chosen)
        encoded = self._memory.empty((count, self._form.words), np.uint32)
        with TraceAnnotation("flatmix: read rows"):
            language = self._buffers.fetch(order, step, chosen, encoded)
        return encoded, language

    def _check_open(self) -> None:
        if self._closed.is_set():
            raise ValueError(CLOSED)

    def _waited(self, seconds: float) -> None:
        self._buffers.metrics.seconds_waited += seconds
