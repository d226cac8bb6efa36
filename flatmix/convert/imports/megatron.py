"""Megatron's NAME.bin and NAME.idx -> documents, each the sequences that its index puts together.

The index says everything (`megatron_index` has its layout); the .bin is numbers, little-endian, of the type that the
index names. Its documents are kept as they are: most are closed by the id that preprocess_data.py appended
(`--append-eod`), and some are empty.

Cost: 1 to 2 ns a token where sequences lie one after another, one read for each where they do not.
"""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import numpy as np

from flatmix.convert.imports import megatron_index as layout
from flatmix.convert.imports.documents import Cut, cut_documents, runs
from flatmix.convert.imports.settings import Settings, check_type, refuse_boundary
from flatmix.convert.imports.spans import SpanFile, size_and_stamp
from flatmix.convert.inputs import Input, TokenRun
from flatmix.errors import ConvertError
from flatmix.store.documents import find_bad_id

KIND = "megatron"


def has_index(path: str) -> bool:
    """Whether `path` is an index of Megatron, or a .bin or a prefix with one beside it."""
    file = _prefix(path) + ".idx"
    if path.endswith((".idx", ".bin")) and not Path(path).is_file():
        return False
    try:
        with Path(file).open("rb") as index:
            return index.read(len(layout.MAGIC)).startswith((layout.MAGIC, layout.OLDER_MAGIC))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return False


def find_megatron(path: str, settings: Settings, split: str) -> list[Input]:
    """The .bin at `path`, or beside the .idx there, or of the prefix; its index is checked wholly.

    ReadError where either file was cut; ConvertError where one is missing or damaged, or their documents are no text.
    """
    prefix = _prefix(path)
    data, index_path = prefix + ".bin", prefix + ".idx"
    refuse_boundary(settings, data)
    size, stamp = size_and_stamp(data)
    _, index_stamp = size_and_stamp(index_path)
    with SpanFile(index_path) as file:
        index = layout.open_index(file)
        check_type(settings, index.type, data)
        total = layout.check_index(index, size)
    options = {"type": index.type, "sequences": index.sequences, "documents": index.documents}
    stamp = f"{stamp}-{index_stamp}"
    return [Input(path=data, name=Path(data).name, kind=KIND, size=total, stamp=stamp, options=options)]


def cut_megatron(found: Input, size: int) -> list[Cut]:
    """Stretches of about `size` bytes, in documents."""
    with SpanFile(_prefix(found.path) + ".idx") as file:
        index = _open_same(found, file)
        return cut_documents(
            (lengths for _, lengths in index.document_lengths(0, index.documents)), index.token_bytes, size
        )


def read_megatron(found: Input, start: int, stop: int | None, skip: int) -> Iterator[TokenRun]:
    """Documents [start + skip, stop).

    ReadError where a file has become shorter, ConvertError for ids no store can hold.
    """
    with SpanFile(_prefix(found.path) + ".idx") as file, SpanFile(found.path) as data:
        index = _open_same(found, file)
        stop = index.documents if stop is None else stop
        begin = min(start + skip, stop)
        done = sum(int(lengths.sum()) for _, lengths in index.document_lengths(start, begin))
        for first, lengths in index.document_lengths(begin, stop):
            firsts = index.firsts(first, first + len(lengths) + 1)
            for i, j in runs(lengths):
                ids = _read_sequences(index, data, int(firsts[i]), int(firsts[j]))
                _check_ids(found, ids, lengths[i:j], first + i)
                done += len(ids)
                yield TokenRun(done * index.token_bytes, ids.astype(np.uint32), lengths[i:j])


def _prefix(path: str) -> str:
    return path[:-4] if path.endswith((".bin", ".idx")) else path


def _open_same(found: Input, file: SpanFile) -> layout.Index:
    index = layout.open_index(file)
    if {"type": index.type, "sequences": index.sequences, "documents": index.documents} != found.options:
        raise ConvertError(f"{file.path} changed while it was read; begin anew")
    return index


def _read_sequences(index: layout.Index, data: SpanFile, start: int, stop: int) -> np.ndarray:
    """The ids of sequences [start, stop), of the type of the file: those that lie together with one read."""
    lengths, pointers = index.lengths(start, stop), index.pointers(start, stop)
    layout.check_sequences(index, start, lengths, pointers, size_and_stamp(data.path)[0])
    dtype = np.dtype(index.type).newbyteorder("<").str
    gaps = np.flatnonzero(pointers[1:] != pointers[:-1] + lengths[:-1] * index.token_bytes) + 1
    edges = [0, *gaps.tolist(), len(lengths)]
    parts = [data.read(int(pointers[i]), int(lengths[i:j].sum()), dtype) for i, j in pairwise(edges) if i < j]
    return parts[0] if len(parts) == 1 else np.concatenate([np.empty(0, dtype), *parts])


def _check_ids(found: Input, ids: np.ndarray, lengths: np.ndarray, first: int) -> None:
    bad = find_bad_id(ids, lengths)
    if bad is not None:
        at, document = bad
        place = at - int(lengths[:document].sum())
        raise ConvertError(
            f"{found.path}: token {place} of document {first + document} (both counted from 0) is {ids[at]}, and ids "
            "of a store are from 0 to 2**31 - 1"
        )
