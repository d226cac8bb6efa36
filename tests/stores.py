"""Small stores whose ids say where they stand, loaders over them, and the batches that they must give.

STD is the standard store: `en`, `ar` and `sw` with 80, 40 and 4 windows of 8 tokens, each language one document of
consecutive ids, in chunks of 50 tokens, which is no multiple of a window.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from flatmix import FlatTokensParams, MixtureParams, ShufflingLoader, TokenBatchParams
from flatmix.store import format as layout
from flatmix.store.writer import SplitWriter

Documents = Sequence[Sequence[int]]
FIELDS = ("inputs", "targets", "is_seq_start", "loss_mask", "language")
WEIGHTS = {"en": 0.6, "ar": 0.3, "sw": 0.1}
EN_ALONE = {"en": 1.0}


def num(n: int, base: int) -> list[list[int]]:
    """One document of the ids base, base + 1, ..., base + n - 1."""
    return [list(range(base, base + n))]


STD = {"en": num(640, 1000), "ar": num(320, 5000), "sw": num(32, 9000)}


@contextmanager
def chunks_of(tokens: int) -> Iterator[None]:
    """Stores written inside have chunks of that many values, two to a shard."""
    before = layout.CHUNK, layout.SHARD
    layout.CHUNK, layout.SHARD = tokens, 2 * tokens
    try:
        yield
    finally:
        layout.CHUNK, layout.SHARD = before


def write_store(
    path: str | os.PathLike[str], languages: Mapping[str, Documents], split: str = "train", chunk: int = 50
) -> str:
    """Writes the documents of each language, in the sequence given; returns the path."""
    with chunks_of(chunk):
        for language, documents in languages.items():
            with SplitWriter(path, language, split) as writer:
                for ids in documents:
                    writer.add(ids)
                writer.finish()
    return str(path)


def standard_store(path: str | os.PathLike[str]) -> str:
    return write_store(path, STD)


def chunk_file(path: str | os.PathLike[str], language: str, shard: int = 0, split: str = "train") -> Path:
    """The file of one shard of the tokens, which holds two chunks."""
    return Path(path, language, split, "encoded_tokens", "c", str(shard))


def params(path: str | os.PathLike[str], **changes: Any) -> FlatTokensParams:
    """The settings of the standard loader: 4 windows a block, 2 blocks a buffer, 1 stream, seed 7."""
    standard = {"streams": 1, "seed": 7, "sequences_per_read_block": 4, "read_blocks_per_shuffle_buffer": 2}
    return FlatTokensParams(str(path), **{**standard, **changes})


def loader(
    path: str | os.PathLike[str],
    weights: Mapping[str, float] = WEIGHTS,
    *,
    len: int = 8,
    batch: int = 8,
    extra_tokens: int = 0,
    stride: int | None = None,
    selector: str = "hash",
    phases: Any = None,
    keys: Any = None,
    sharding: Any = None,
    timeline: Any = None,
    split: str = "train",
    **changes: Any,
) -> ShufflingLoader:
    """The standard loader, in batches of 8 rows of 8 tokens, with some settings changed."""
    return ShufflingLoader(
        split,
        params(path, **changes),
        MixtureParams(weights, selector, phases, keys),
        TokenBatchParams(len, batch, extra_tokens, stride),
        sharding,
        timeline,
    )


def first_ids(batch: Any) -> list[int]:
    """The first target of each row, which in a document of consecutive ids says which window it is."""
    return np.asarray(batch.targets)[:, 0].tolist()


def over_devices(count: int) -> NamedSharding:
    """Rows over so many devices."""
    return NamedSharding(jax.make_mesh((count,), ("data",)), PartitionSpec("data"))


def host_batches(own: ShufflingLoader, start: int, stop: int) -> list[Any]:
    return [own.load_host(step) for step in range(start, stop)]


def assert_same(expected: Any, found: Any) -> None:
    """All five arrays are equal, their types too."""
    for name in FIELDS:
        one, other = np.asarray(getattr(expected, name)), np.asarray(getattr(found, name))
        assert one.dtype == other.dtype, name
        if not np.array_equal(one, other):
            np.testing.assert_array_equal(one, other, err_msg=name)


def tokens_digest(batches: Iterable[Any]) -> str:
    """SHA-256 of the targets and start flags of all batches."""
    digest = hashlib.sha256()
    for batch in batches:
        digest.update(np.asarray(batch.targets).astype("<u4").tobytes())
        digest.update(np.asarray(batch.is_seq_start).astype("u1").tobytes())
    return digest.hexdigest()


class Plain(NamedTuple):
    """A batch in NumPy, made one token at a time."""

    inputs: np.ndarray
    targets: np.ndarray
    is_seq_start: np.ndarray
    loss_mask: np.ndarray
    language: np.ndarray


def plain_batch(
    languages: Mapping[str, Documents], names: Sequence[str], rows: Iterable[tuple[int, int]], shape: TokenBatchParams
) -> Plain:
    """The batch of the given (language, window) rows, cut out of the documents token by token."""
    table: list[list[tuple[int, int, bool, bool]]] = []
    chosen = list(rows)
    for language, window in chosen:
        stream = [(token, place == 0) for ids in languages[names[language]] for place, token in enumerate(ids)]
        first = window * shape.window_stride
        own = stream[first : first + shape.window]
        assert len(own) == shape.window
        row = []
        for place in range(shape.extra_tokens, shape.window):
            target, starts = own[place]
            known = starts or place > 0
            before = 0 if starts or place == 0 else own[place - 1][0]
            row.append((before, target, starts, known))
        table.append(row)
    columns = np.array(table, np.int64).reshape(len(chosen), shape.len, 4)
    return Plain(
        columns[:, :, 0].astype(np.uint32),
        columns[:, :, 1].astype(np.uint32),
        columns[:, :, 2].astype(bool),
        columns[:, :, 3].astype(bool),
        np.array([language for language, _ in chosen], np.int32),
    )


def expected_batch(
    own: ShufflingLoader, languages: Mapping[str, Documents], step: int, rows: Sequence[int] | None = None
) -> Plain:
    """What the loader must give at `step`: the order's windows, cut by `plain_batch`."""
    order = own.order.rows(step)
    addresses = list(zip(order.language.tolist(), order.window.tolist(), strict=True))
    chosen = addresses if rows is None else [addresses[row] for row in rows]
    return plain_batch(languages, own.languages, chosen, own.token_batch_params)
