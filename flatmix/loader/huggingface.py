"""documents -> TokenBatch: a Hugging Face data set streamed, tokenized and packed on its way, in its own sequence.

For trying things out, before there is a store. Documents lie end to end, and row r of the run holds the tokens from
r * stride on, so a document goes on from one row to the next and from one batch to the next: no token is lost. Such a
row cannot be reached but through all rows before it. So there is no jump, no resume and no shuffle: for those, convert
the texts to a store.

Costs some 30 microseconds a document and the time of the tokenizer; memory holds a few hundred documents. With several
processes each one reads everything and keeps the rows of its own devices.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NoReturn, Self

import numpy as np
from jax.sharding import NamedSharding
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from flatmix.errors import StateError
from flatmix.loader.batch import EncodedBatch, Layout, TokenBatch
from flatmix.loader.dataset import Passed, describe, encoded_documents
from flatmix.loader.host import RowFormat
from flatmix.loader.prefetch import Prefetcher
from flatmix.order import whole_number
from flatmix.order.windows import window_count, window_span
from flatmix.params import HuggingFaceDataParams, TokenBatchParams

_CLOSED = "this loader is closed: make a new one"
_ONCE = (
    "this loader reads its data set once, from the start on, and can neither jump nor resume: for that, convert the "
    "data set to a flat-tokens store and read it with ShufflingLoader"
)


class HuggingFaceDataLoader:
    """Batches of one split of a Hugging Face data set, each once and in the sequence of the data.

    Args:
        split: "train" or another split of the data set. A saved set without splits is "train".
        params: the data set and its tokenizer.
        token_batch_params: the shape of a batch.
        sharding: how the rows lie on the devices; everything on one device of this process without it.

    Raises ImportError without the library `datasets`, ValueError for settings (ConvertError for a data set that cannot
    be used, or a tokenizer), and ReadError, an OSError, for one that cannot be reached. One thread at a time may ask
    for batches.
    """

    def __init__(
        self,
        split: str,
        params: HuggingFaceDataParams,
        token_batch_params: TokenBatchParams,
        sharding: NamedSharding | None = None,
    ):
        if not isinstance(split, str) or not split:
            raise ValueError(f"split is {split!r}: the name of a split of the data set is needed")
        self.params, self.token_batch_params = params, token_batch_params
        self._layout = Layout(sharding, RowFormat(token_batch_params.len, token_batch_params.extra_tokens))
        self._layout.check(token_batch_params.batch)
        self._where = describe(params, split)
        self._passed = Passed()
        self._rows = pack(encoded_documents(params, split, self._passed), token_batch_params)
        self._batches: Prefetcher[EncodedBatch, TokenBatch] | None = None
        self._next = 0
        self._ended = self._told = self._closed = False

    @property
    def languages(self) -> tuple[str, ...]:
        """The one language, which `language` of a batch counts as 0."""
        return (self.params.language,)

    def load(self, step: int) -> TokenBatch:
        """The next batch, as jax.Arrays over the devices of the sharding; `step` must be its number, from 0 on.

        Raises ValueError for any other step and after the last batch; ConvertError, a ValueError, for a record without
        text; ReadError where the data could not be read. After such an error no batch comes any more.
        """
        self._check_next(whole_number(step, "step", 0), "step")
        batch = self._take()
        if batch is None:
            raise ValueError(f"there is no step {step}: {self._end()}. To read it again, make a new loader")
        return batch

    def steps(self, start: int = 0, stop: int | None = None) -> Iterator[TokenBatch]:
        """The batches of the steps start, start + 1, ... up to `stop` or the end of the data, made ahead in the
        background; `start` must be the next step. What fills no whole batch at the end is left out, and logged."""
        start = whole_number(start, "start", 0)
        stop = None if stop is None else whole_number(stop, "stop", 0)
        self._check_next(start, "start")
        return self._given(start, stop)

    def state(self, step: int) -> NoReturn:
        """Raises StateError: there is no state to save."""
        raise StateError(f"there is no state of step {step}: {_ONCE}")

    def restore(self, state: Mapping[str, Any]) -> NoReturn:
        """Raises StateError: no state can be gone on from."""
        raise StateError(f"no state can be restored: {_ONCE}")

    def metrics(self) -> dict[str, int | float]:
        """`documents` and `tokens` read so far, `rows` given, `rows_left_out` and `tokens_left_out` at the end of the
        data (the rows that fill no batch, the tokens that are in no row), and `seconds_waited` for batches."""
        rows, tokens = self._left_out() if self._ended else (0, 0)
        given = self._next * self.token_batch_params.batch
        return {**vars(self._passed), "rows": given, "rows_left_out": rows, "tokens_left_out": tokens}

    def close(self) -> None:
        """Ends the background thread. A closed loader loads nothing more."""
        self._closed = True
        if self._batches is not None:
            self._batches.close(ValueError(_CLOSED))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _given(self, step: int, stop: int | None) -> Iterator[TokenBatch]:
        while stop is None or step < stop:
            self._check_next(step, "step")  # another iterator may have taken it
            batch = self._take()
            if batch is None:
                self._tell_end()
                return
            yield batch
            step += 1

    def _take(self) -> TokenBatch | None:
        """The next batch, or None at the end of the data."""
        if self._batches is None:  # not before it is needed: a loader that is not used reads nothing
            prepare = _preparer(self._rows, self._layout, self.token_batch_params.batch)
            self._batches = Prefetcher(prepare, self._layout.decode, 0, None, self.params.prefetch, self._passed.waited)
        try:
            batch = next(self._batches)
        except StopIteration:
            self._ended = True
            return None
        self._next += 1
        return batch

    def _check_next(self, step: int, name: str) -> None:
        if self._closed:
            raise ValueError(_CLOSED)
        if step != self._next:
            raise ValueError(f"{name} is {step}, and the next step is {self._next}: {_ONCE}")

    def _tell_end(self) -> None:
        """Logs what is left out at the end, once: to an iterator that just stops it would go unseen."""
        if not self._told and self._left_out()[1]:
            logging.getLogger("flatmix").warning("%s", self._end())
        self._told = True

    def _left_out(self) -> tuple[int, int]:
        """After the last batch: rows that fill no batch, and tokens that are in no row that was given."""
        shape = self.token_batch_params
        given = self._next * shape.batch
        following = given * shape.window_stride
        seen = window_span(given - 1, shape.window, shape.window_stride)[1] if given else 0
        left = max(0, self._passed.tokens - following)
        rows = window_count(left, shape.window, shape.window_stride)
        return rows, max(0, self._passed.tokens - max(seen, following))

    def _end(self) -> str:
        rows, tokens = self._left_out()
        left = f", of which the last {tokens}, enough for {rows} rows, fill no batch and are left out" if tokens else ""
        return (
            f"{self._where} ends after {self._next} batches of {self.token_batch_params.batch} rows: it has "
            f"{self._passed.documents} documents with {self._passed.tokens} tokens{left}"
        )


def pack(documents: Iterable[NDArray[np.uint32]], shape: TokenBatchParams) -> Iterator[NDArray[np.uint32]]:
    """Tokens of each document -> the rows of step after step, uint32[batch, window], while they fill whole batches.

    Documents are laid end to end, and row r of all rows has the tokens from r * stride on. A batch is a view of memory
    that is not written again.
    """
    window, stride, batch = shape.window, shape.window_stride, shape.batch
    needed = window_span(batch - 1, window, stride)[1]
    parts: list[NDArray[np.uint32]] = []
    held = skip = 0  # tokens in `parts`, and how many of them lie before the next row: some, where stride > window
    for tokens in documents:
        parts.append(tokens)
        held += tokens.size
        if held - skip < needed:
            continue
        stream, start = np.concatenate(parts), skip
        while stream.size - start >= needed:
            yield sliding_window_view(stream[start : start + needed], window)[::stride]
            start += batch * stride
        parts, skip = [stream[start:].copy()], max(0, start - stream.size)
        held = parts[0].size


def _preparer(rows: Iterator[NDArray[np.uint32]], layout: Layout, batch: int) -> Callable[[int], EncodedBatch]:
    """What the background thread does for each step. It holds no loader, so one that is dropped ends its thread."""
    own = layout.own_rows(batch)
    language = np.zeros(len(own), np.int64)

    def prepare(step: int) -> EncodedBatch:
        encoded = next(rows)  # StopIteration goes to the caller of the Prefetcher, as the end that it is
        return layout.to_devices(batch, own, encoded[own], language)

    return prepare
