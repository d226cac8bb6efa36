"""Stores for the tests of `flatmix.store`: small ones, one that is larger than 2^32 tokens, and ways to damage them."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from flatmix.store import Split, open_store
from flatmix.store import format as layout
from flatmix.store.folders import create_array
from flatmix.store.reader import Reader
from flatmix.store.writer import SplitWriter

GIANT_SHARDS = 257  # 4,311,744,512 tokens: one shard beyond 2^32


def write_split(
    path: str | os.PathLike[str],
    documents: Iterable[Sequence[int]],
    language: str = "en",
    split: str = "train",
    **settings: Any,
) -> Split:
    """Writes the documents one by one, and returns the split."""
    with SplitWriter(path, language, split, **settings) as writer:
        for ids in documents:
            writer.add(ids)
        return writer.finish()


def read(reader: Reader, start: int, stop: int) -> np.ndarray:
    """The encoded tokens [start, stop), uint32[stop - start]; memory that was not filled would show as 0xdeadbeef."""
    out = np.full(stop - start, 0xDEADBEEF, np.uint32)
    reader.read(start, stop, out).result()
    return out


def documents_of(split: Split) -> list[list[int]]:
    """All documents of a split, cut at seq_starts; asserts that start bits stand exactly where documents begin."""
    encoded = read(split.reader(), 0, split.tokens)
    starts = split.seq_starts(0, split.documents + 1).astype(np.int64)
    expected = np.zeros(split.tokens, bool)
    expected[starts[:-1][starts[1:] > starts[:-1]]] = True
    np.testing.assert_array_equal(expected, (encoded & 1).astype(bool))
    return [(encoded[start:stop] >> 1).tolist() for start, stop in pairwise(starts.tolist())]


def edit_json(folder: str | os.PathLike[str], change: Callable[[dict[str, Any]], Any], name: str = "zarr.json") -> None:
    """Changes the zarr.json in `folder`, or another file, by hand; hard links to the file stay as they were."""
    file = Path(folder, name)
    content = json.loads(file.read_text("utf-8"))
    change(content)
    file.unlink()
    file.write_text(json.dumps(content, ensure_ascii=False), "utf-8")


def files_of(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in sorted(folder.rglob("*")) if file.is_file()}


def giant_store(
    path: str | os.PathLike[str], language: str = "en", split: str = "train", shards: int = GIANT_SHARDS
) -> str:
    """A whole and true store of `shards` documents of 2^24 tokens each, made of hard links to one shard.

    Token i has the id i % 2^24. Takes some MB on disk, and a second or two.
    """
    with SplitWriter(path, language, split) as writer:
        writer.add_many(np.arange(layout.SHARD, dtype=np.uint32), np.array([layout.SHARD]))
        one = writer.finish()
    folder = Path(one.path)
    tokens = shards * layout.SHARD
    for shard in range(1, shards):
        os.link(folder / "encoded_tokens/c/0", folder / f"encoded_tokens/c/{shard}")
    edit_json(folder / "encoded_tokens", lambda array: array.update(shape=[tokens]))

    starts = np.arange(shards + 1, dtype=np.uint64) * np.uint64(layout.SHARD)
    digests = one.piece_digests()[[0] * shards + [1]]
    digests[-1] = np.frombuffer(hashlib.sha256(starts.astype("<u8")).digest(), np.uint8)
    for name, values in (("seq_starts", starts), ("piece_digests", digests)):
        shutil.rmtree(folder / name)
        create_array(folder / name, values.shape, values.dtype)[:] = values
    digest = hashlib.sha256(digests).hexdigest()
    edit_json(
        folder, lambda group: group["attributes"]["flatmix"].update(tokens=tokens, documents=shards, digest=digest)
    )
    assert open_store(path)[language][split].tokens == tokens
    return str(path)
