"""NAME.idx -> where the sequences of NAME.bin lie and which of them make a document, in blocks.

As megatron/core/datasets/indexed_dataset.py of github.com/NVIDIA/Megatron-LM writes it, little-endian: `MMIDIDX` and
two zero bytes, version 1 as uint64, a code of the type as uint8, the counts of sequences and of document indices as
uint64; then the length of each sequence in tokens, int32, where it begins in the .bin in bytes, int64, and the first
sequence of each document and the number of all, int64. With images there is one more int8 for each sequence.

An index may name any part of the .bin, in any sequence and more than once, and what it names is what is read. Cost: one
pass over it for the checks, some 20 ns a sequence; a block of it in memory.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from flatmix.convert.imports.spans import SpanFile, size_and_stamp
from flatmix.errors import ConvertError, ReadError

MAGIC, OLDER_MAGIC = b"MMIDIDX\0\0", b"TNTIDX\0\0"
HEADER = 34  # bytes
BLOCK = 2**16  # entries that are read at once
TYPES = {1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 8: "uint16"}
_FLOATS = (6, 7)


class Index(NamedTuple):
    """An open index."""

    file: SpanFile
    type: str
    sequences: int
    documents: int

    @property
    def token_bytes(self) -> int:
        return np.dtype(self.type).itemsize

    def lengths(self, start: int, stop: int) -> np.ndarray:
        """Tokens of those sequences, int64."""
        return self.file.read(HEADER + 4 * start, stop - start, "<i4").astype(np.int64)

    def pointers(self, start: int, stop: int) -> np.ndarray:
        """Bytes of the .bin before those sequences, int64."""
        return self.file.read(HEADER + 4 * self.sequences + 8 * start, stop - start, "<i8")

    def firsts(self, start: int, stop: int) -> np.ndarray:
        """The first sequences of those documents, int64; there are documents + 1 of them."""
        return self.file.read(HEADER + 12 * self.sequences + 8 * start, stop - start, "<i8")

    def document_lengths(self, start: int, stop: int) -> Iterator[tuple[int, np.ndarray]]:
        """Tokens of those documents, int64[at most BLOCK] at a time, after the number of the first of them."""
        for first in range(start, stop, BLOCK):
            firsts = self.firsts(first, min(first + BLOCK, stop) + 1)
            before = np.concatenate([[0], np.cumsum(self.lengths(int(firsts[0]), int(firsts[-1])))])
            yield first, np.diff(before[firsts - firsts[0]])


def open_index(file: SpanFile) -> Index:
    """The index in an open file, its header checked. ConvertError for another, and for types that are no ids."""
    path = file.path
    size, _ = size_and_stamp(path)
    start = file.read(0, min(size, len(MAGIC)), "u1").tobytes()
    if start[: len(OLDER_MAGIC)] == OLDER_MAGIC:
        raise ConvertError(
            f"{path} is an index of the older kind (TNTIDX), which is not read here; write the data anew with the kind "
            "'mmap' of Megatron's preprocess_data.py"
        )
    if start != MAGIC:
        raise ConvertError(f"{path} is no index of Megatron: such a file begins with {MAGIC[:7].decode()}")
    if size < HEADER:
        raise ReadError(f"{path} has {size} bytes, and its header alone has {HEADER}: it was cut")
    version = int(file.read(9, 1, "<u8")[0])
    code = int(file.read(17, 1, "u1")[0])
    sequences, entries = file.read(18, 2, "<u8").tolist()
    if version != 1:
        raise ConvertError(f"{path} is of version {version}, and version 1 is read here")
    if code not in TYPES:
        kind = "floating-point numbers, which are no ids" if code in _FLOATS else "a type that is not known"
        raise ConvertError(f"{path} says that its tokens are of type {code}: {kind}")
    wanted = HEADER + 12 * sequences + 8 * entries
    if size == wanted + sequences and sequences:
        raise ConvertError(f"{path} is of the multimodal kind, whose sequences are not all text; it is not read here")
    if size != wanted:
        what = (
            f"{path} has {size} bytes, and its counts ({sequences} sequences, {entries} document indices) say {wanted}"
        )
        raise ReadError(f"{what}: it was cut") if size < wanted else ConvertError(what)
    if not entries:
        raise ConvertError(f"{path} has no document indices, not even that of the end, so it is damaged")
    return Index(file, TYPES[code], sequences, entries - 1)


def check_index(index: Index, data_bytes: int) -> int:
    """Checks all entries against each other and the size of the .bin; the bytes of all sequences.

    ReadError where the .bin ends before a sequence does; ConvertError for what contradicts itself, and where a plain
    index, sequence after sequence from the first byte on, ends before the .bin.
    """
    _check_documents(index)
    expected, plain = 0, True
    total = 0
    for start in range(0, index.sequences, BLOCK):
        stop = min(start + BLOCK, index.sequences)
        lengths, pointers = index.lengths(start, stop), index.pointers(start, stop)
        check_sequences(index, start, lengths, pointers, data_bytes)
        ends = pointers + lengths * index.token_bytes
        plain = plain and int(pointers[0]) == expected and bool(np.all(pointers[1:] == ends[:-1]))
        expected = int(ends[-1])
        total += int(lengths.sum()) * index.token_bytes
    if plain and expected < data_bytes:
        raise ConvertError(
            f"{_data_path(index)} has {data_bytes} bytes, and {index.file.path} ends at byte {expected}, so they are "
            f"not of one run; if what follows is to be left out, cut it: truncate -s {expected}"
        )
    return total


def check_sequences(index: Index, first: int, lengths: np.ndarray, pointers: np.ndarray, data_bytes: int) -> None:
    """Raises unless those sequences, from number `first` on, lie in the .bin."""
    fair = (lengths >= 0) & (pointers >= 0)
    if not fair.all():
        at = int(np.argmin(fair))
        where = f"{index.file.path}: sequence {first + at} (counted from 0)"
        raise ConvertError(f"{where} has {lengths[at]} tokens from byte {pointers[at]} on, so it is damaged")
    # Not by their ends, which may be more than 64 bits hold.
    inside = (pointers <= data_bytes) & (lengths <= (data_bytes - pointers) // index.token_bytes)
    if not inside.all():
        at = int(np.argmin(inside))
        where = f"sequence {first + at} (counted from 0), {lengths[at]} tokens from byte {pointers[at]} on"
        raise ReadError(f"{_data_path(index)} has {data_bytes} bytes, and ends before its {where}: it was cut")


def _check_documents(index: Index) -> None:
    before = 0
    for start in range(0, index.documents + 1, BLOCK):
        firsts = index.firsts(start, min(start + BLOCK, index.documents + 1))
        steps = np.diff(firsts, prepend=before)
        if not (steps >= 0).all() or (start == 0 and firsts[0] != 0):
            at = 0 if start == 0 and firsts[0] != 0 else int(np.argmin(steps >= 0))
            where = f"{index.file.path}: document {start + at} (counted from 0)"
            raise ConvertError(f"{where} begins with sequence {firsts[at]}, and these rise from 0; it is damaged")
        before = int(firsts[-1])
    if before != index.sequences:
        raise ConvertError(
            f"{index.file.path} has {index.sequences} sequences, and its documents end with number {before}"
        )


def _data_path(index: Index) -> str:
    return index.file.path[:-4] + ".bin"
