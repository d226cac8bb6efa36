"""Files of tokens as other tools write them, and what an import reads out of one."""

import struct
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

CODES = {"uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "float64": 6, "float32": 7, "uint16": 8}


def raw_file(path: Path, ids: Iterable[int], dtype: str = "<u2") -> str:
    """Ids and nothing else."""
    np.array(list(ids), dtype).tofile(path)
    return str(path)


def llmc_file(path: Path, ids: Sequence[int], wide: bool = False, version: int | None = None, count: int = -1) -> str:
    """A header of 256 int32, then the ids; `version` and `count` may be wrong."""
    header = np.zeros(256, "<i4")
    header[0] = 20240801 if wide else 20240520
    header[1] = (7 if wide else 1) if version is None else version
    header[2] = len(ids) if count < 0 else count
    path.write_bytes(header.tobytes() + np.array(ids, "<u4" if wide else "<u2").tobytes())
    return str(path)


def index_bytes(
    lengths: Sequence[int],
    pointers: Sequence[int],
    firsts: Sequence[int],
    dtype: str = "uint16",
    version: int = 1,
    code: int | None = None,
) -> bytes:
    """An index of Megatron with exactly these entries."""
    header = b"MMIDIDX\0\0" + struct.pack("<QB", version, CODES[dtype] if code is None else code)
    arrays = np.array(lengths, "<i4"), np.array(pointers, "<i8"), np.array(firsts, "<i8")
    return header + struct.pack("<QQ", len(lengths), len(firsts)) + b"".join(array.tobytes() for array in arrays)


def megatron_files(prefix: Path, documents: Sequence[Sequence[Sequence[int]]], dtype: str = "uint16") -> str:
    """PREFIX.bin and PREFIX.idx of documents, each some sequences of ids; the path of the .bin."""
    sequences = [sequence for document in documents for sequence in document]
    lengths = [len(sequence) for sequence in sequences]
    pointers = (np.cumsum([0, *lengths]) * np.dtype(dtype).itemsize).tolist()[:-1]
    firsts = np.cumsum([0, *map(len, documents)]).tolist()
    data = prefix.with_name(prefix.name + ".bin")
    np.array([token for sequence in sequences for token in sequence], dtype).tofile(data)
    prefix.with_name(prefix.name + ".idx").write_bytes(index_bytes(lengths, pointers, firsts, dtype))
    return str(data)


def split_ids(ids: Sequence[int], end: int | None, start: int | None) -> list[list[int]]:
    """The documents of a file, told token by token."""
    documents: list[list[int]] = []
    closed = True
    for token in ids:
        if closed or token == start:
            documents.append([])
        documents[-1].append(token)
        closed = token == end
    return documents


def find(path: Any, kind: str, split: str = "train", **tokens: Any) -> list[Any]:
    from flatmix.convert import imports

    return imports.find_inputs(str(path), kind, tokens or None, split)


def read(found: Any, size: int = 2**40, skip: int = 0) -> list[list[int]]:
    """The documents of all stretches of that size, without the first `skip` of each."""
    from flatmix.convert import imports

    stretches = imports.cut(found, size)
    stops = [stop for _, stop, _ in stretches]
    assert [start for start, _, _ in stretches] == [0, *stops[:-1]]
    assert sum(size for _, _, size in stretches) == found.size or found.options.get("header")
    documents = []
    for start, stop, stretch_size in stretches:
        end = 0
        for run in imports.read_tokens(found, start, stop, skip):
            assert run.ids.dtype == np.uint32
            assert run.lengths.dtype == np.int64
            assert len(run.lengths)
            assert end <= run.end
            end = run.end
            documents += [part.tolist() for part in np.split(run.ids, np.cumsum(run.lengths))[:-1]]
            assert int(run.lengths.sum()) == len(run.ids)
        assert stretch_size >= 0
    return documents
