"""One piece of one array -> what it holds, as far as it can be told from the piece alone.

Every piece is read once, by one thread, and all pieces of all arrays can be read at the same time; whether facts of
several pieces agree with each other, and with what the split says of itself, is for `judge`.

Cost: some 7 ns of CPU a token: 4 to read it, 2.6 for SHA-256, the rest for the kernel.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from flatmix.store import Split
from flatmix.store import format as layout
from flatmix.store.older import undo_delta
from flatmix.store.reader import TensorStoreReader
from flatmix.verify.kernels import scan_starts, scan_tokens
from flatmix.verify.pieces import Damage, Memory, block_entries, read_blocks

_WHOLE = 2**64


@dataclass(frozen=True)
class Piece:
    """Entries [start, stop) of an array, its piece `number`."""

    array: str
    number: int
    start: int
    stop: int


@dataclass(frozen=True)
class Beyond:
    """Entries that are larger than they may be: how many, and the first and the last of them."""

    count: int
    first: int
    last: int


@dataclass(frozen=True)
class Marks:
    """Places of document starts, by pieces of encoded_tokens from piece `base` on: int64[n] and uint64[n]."""

    base: int
    counts: np.ndarray
    sums: np.ndarray


@dataclass(frozen=True)
class Facts:
    """What one piece holds. Which fields there are depends on the array; none but the first three where it is empty."""

    piece: Piece
    damages: tuple[Damage, ...] = ()
    digest: bytes | None = None  # None where some of it cannot be read, and in an older store
    largest: int = -1  # id, or number of a source file
    beyond: Beyond | None = None
    marks: Marks | None = None  # of a piece of seq_starts, all but that of its first entry
    first: int | None = None  # entries of seq_starts
    last: int | None = None
    fault: tuple[int, int, int] | None = None  # the first that falls or is above `tokens`: number, value, one before
    rows: np.ndarray | None = None  # of piece_digests: uint8[n, 32]; what cannot be read is 0, and among the damages
    began: float = 0.0  # seconds of a clock that only runs
    ended: float = 0.0


def piece_entries(split: Split, array: str) -> int:
    """Entries of a piece; an older store has no digests to go by, and may need whole chunks."""
    if not split.weak:
        return layout.PIECE
    chunk = split.arrays[array].chunk
    return max(1, layout.PIECE // chunk) * chunk


def pieces_of(split: Split, array: str) -> list[Piece]:
    size, length = piece_entries(split, array), split.arrays[array].shape[0]
    if split.weak and array == layout.SEQ_STARTS and not split.tokens:
        return []  # all are 0, and need not have been written
    return [
        Piece(array, number, start, min(start + size, length)) for number, start in enumerate(range(0, length, size))
    ]


def bytes_of(piece: Piece) -> int:
    """What its entries take in memory."""
    entry = layout.DIGEST_BYTES if piece.array == layout.PIECE_DIGESTS else 1
    return (piece.stop - piece.start) * entry * np.dtype(layout.DTYPES[piece.array]).itemsize


def file_limit(split: Split) -> int | None:
    """How many source files the split says there are; None where it does not say."""
    files = (split.source or {}).get("files")
    return len(files) if isinstance(files, list) else None


def tasks_of(split: Split, memory: Memory) -> Iterator[Callable[[], Facts]]:
    """What is to be read of a split; each may run in any thread, and gives the facts of one piece."""
    for array in split.arrays:
        reader = split.array_reader(array)
        for piece in pieces_of(split, array):
            yield partial(_timed, split, reader, piece, memory)


def _timed(split: Split, reader: TensorStoreReader, piece: Piece, memory: Memory) -> Facts:
    began = time.perf_counter()
    if piece.array == layout.ENCODED_TOKENS:
        facts = token_facts(reader, piece, split, memory)
    elif piece.array == layout.SEQ_STARTS:
        facts = start_facts(reader, piece, split, memory)
    elif piece.array == layout.PIECE_DIGESTS:
        facts = row_facts(reader, piece, memory)
    else:
        facts = number_facts(reader, piece, file_limit(split) if piece.array == layout.SOURCE_FILE else None, memory)
    return replace(facts, began=began, ended=time.perf_counter())


@dataclass
class _Sum:
    """What all blocks of a piece have in common; without `digests`, nothing is hashed."""

    digests: layout.PieceDigests | None
    damages: list[Damage] = field(default_factory=list)

    def add(self, block: np.ndarray) -> None:
        if self.digests is not None:
            self.digests.update(block)

    def digest(self) -> bytes | None:
        return None if self.damages or self.digests is None else self.digests.finish()


def _sum(split: Split) -> _Sum:
    return _Sum(None if split.weak else layout.PieceDigests())


def token_facts(reader: TensorStoreReader, piece: Piece, split: Split, memory: Memory) -> Facts:
    """Of encoded_tokens: digest, largest id, ids beyond max_token_id, and where documents start."""
    total, largest, beyond, count, marks = _sum(split), -1, None, 0, 0
    for start, encoded, damages in read_blocks(reader, piece.start, piece.stop, memory):
        total.damages += damages
        if encoded is None:
            continue
        total.add(encoded)
        top, starts, sums = scan_tokens(encoded, np.uint64(start))
        largest, count, marks = max(largest, int(top) >> 1), count + int(starts), (marks + int(sums)) % _WHOLE
        if int(top) >> 1 > split.max_token_id:
            beyond = _joined(beyond, start, np.flatnonzero(encoded >> np.uint32(1) > np.uint32(split.max_token_id)))
    found = Marks(piece.number, np.array([count]), np.array([marks], np.uint64))
    return Facts(piece, tuple(total.damages), total.digest(), largest, beyond, found)


def start_facts(reader: TensorStoreReader, piece: Piece, split: Split, memory: Memory) -> Facts:
    """Of seq_starts: digest, whether it rises and to what, and where documents that have tokens start."""
    total, tokens, token_piece = _sum(split), split.tokens, piece_entries(split, layout.ENCODED_TOKENS)
    counts = np.zeros(-(-tokens // token_piece), np.int64)
    sums = np.zeros(len(counts), np.uint64)
    first, last, fault = None, None, None
    for start, entries, damages in read_blocks(reader, piece.start, piece.stop, memory):
        total.damages += damages
        if entries is None:
            last = None
            continue
        if reader.metadata.delta:
            undo_delta(entries, reader.metadata.chunk)
        total.add(entries)
        if start == piece.start:
            first = int(entries[0])
        if fault is None:
            previous = entries[0] if last is None else np.uint64(last)
            at = scan_starts(entries, previous, np.uint64(tokens), np.uint64(token_piece), counts, sums)
            if at >= 0:
                fault = start + int(at), int(entries[at]), int(entries[at - 1] if at else previous)
        last = int(entries[-1])
    touched = np.flatnonzero(counts)
    base, stop = (int(touched[0]), int(touched[-1]) + 1) if len(touched) else (0, 0)
    marks = Marks(base, counts[base:stop].copy(), sums[base:stop].copy())
    return Facts(piece, tuple(total.damages), total.digest(), marks=marks, first=first, last=last, fault=fault)


def number_facts(reader: TensorStoreReader, piece: Piece, limit: int | None, memory: Memory) -> Facts:
    """Of source_file and source_record: that they can be read; the largest, and those that are not below `limit`."""
    damages, largest, beyond = [], -1, None
    for start, numbers, damaged in read_blocks(reader, piece.start, piece.stop, memory):
        damages += damaged
        if numbers is None:
            continue
        largest = max(largest, int(numbers.max()))
        if limit is not None and largest >= limit:
            beyond = _joined(beyond, start, np.flatnonzero(numbers >= numbers.dtype.type(limit)))
    return Facts(piece, tuple(damages), largest=largest, beyond=beyond)


def row_facts(reader: TensorStoreReader, piece: Piece, memory: Memory) -> Facts:
    """Of piece_digests: what it holds."""
    rows, damages = np.zeros((piece.stop - piece.start, layout.DIGEST_BYTES), np.uint8), []
    for start, block, damaged in read_blocks(reader, piece.start, piece.stop, memory):
        damages += damaged
        if block is not None:
            rows[start - piece.start :][: len(block)] = block
            continue
        for first, last in _between(damaged, start, min(start + block_entries(reader.metadata), piece.stop)):
            reader.read(first, last, rows[first - piece.start : last - piece.start]).result()
    return Facts(piece, tuple(damages), rows=rows)


def _between(damages: Sequence[Damage], start: int, stop: int) -> Iterator[tuple[int, int]]:
    """The spans of [start, stop) that are not damaged."""
    for damage in damages:
        if start < damage.start:
            yield start, damage.start
        start = damage.stop
    if start < stop:
        yield start, stop


def _joined(beyond: Beyond | None, start: int, found: np.ndarray) -> Beyond | None:
    """`beyond`, and the entries `found` in a block that begins at `start`."""
    if not len(found):
        return beyond
    first, last = start + int(found[0]), start + int(found[-1])
    return Beyond(len(found), first, last) if beyond is None else Beyond(beyond.count + len(found), beyond.first, last)
