"""staged parts -> the arrays of a split: each shard is written once, by one worker, in its place, and read back.

A piece is 2^24 values of one array, which are behind one digest, and one shard (in Zarr v2, four chunks). Its mark, a
file with the digest, says that it is written and read back; a piece without a mark is written anew. So it does not
matter who writes what, nor who is killed.

Cost: some 20 ns a token; two pieces, at most 256 MB, in memory.
"""

import bisect
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from flatmix.convert.job import Job
from flatmix.convert.outputs import Output, Placed, load_bases, load_output
from flatmix.convert.parts import ENCODED, LENGTHS, RECORD, STRETCH, PartReader, written_whole
from flatmix.convert.staging import load_job
from flatmix.errors import StoreError
from flatmix.store import format as layout
from flatmix.store.arrays import array_metadata
from flatmix.store.reader import TensorStoreReader, digest_array
from flatmix.store.shards import write_shard
from flatmix.store.split import place_of

MARKS = "marks"
ARRAYS = (layout.ENCODED_TOKENS, layout.SEQ_STARTS, layout.SOURCE_FILE, layout.SOURCE_RECORD)
Piece = tuple[int, str, int]  # number of the output, array, number of the piece
_TASK = 2**24  # values that one task writes; small pieces share one
_PIECE_COST = 2**18  # in values, of opening an array


def array_length(output: Output, array: str) -> int:
    return {layout.ENCODED_TOKENS: output.tokens, layout.SEQ_STARTS: output.documents + 1}.get(array, output.documents)


def pieces_of(number: int, output: Output) -> list[Piece]:
    return [
        (number, array, piece) for array in ARRAYS for piece in range(layout.piece_count(array_length(output, array)))
    ]


def tasks(outputs: Sequence[Output], pieces: Sequence[Piece]) -> Iterator[list[Piece]]:
    """Runs of pieces of about the same work."""
    task: list[Piece] = []
    filled = 0
    for number, array, piece in pieces:
        values = min(layout.PIECE, array_length(outputs[number], array) - piece * layout.PIECE)
        if task and filled + values > _TASK:
            yield task
            task, filled = [], 0
        task.append((number, array, piece))
        filled += values + _PIECE_COST
    if task:
        yield task


def mark_path(folder: Path, piece: Piece) -> Path:
    number, array, index = piece
    return folder / MARKS / f"{number}-{array}-{index}"


def write_pieces(folder: str, places: dict[int, str], pieces: Sequence[Piece]) -> None:
    """Writes the pieces that have no mark yet; `places` are the folders of the outputs' splits.

    StoreError for what does not read back as it was written, ReadError for a staged part that cannot be read, OSError
    for what cannot be written.
    """
    for piece in pieces:
        mark = mark_path(Path(folder), piece)
        if mark.exists():
            continue
        number, array, index = piece
        digest = _write_piece(folder, load_output(folder, number), Path(places[number]), array, index)
        with written_whole(mark) as file:
            file.write(digest.hex().encode())


def _write_piece(folder: str, output: Output, place: Path, array: str, index: int) -> bytes:
    job = load_job(folder)
    length = array_length(output, array)
    first, stop = index * layout.PIECE, min((index + 1) * layout.PIECE, length)
    values = _values(folder, job, output, array, first, stop)
    digest = hashlib.sha256(values).digest()
    step = layout.values_per_file(job.zarr_format)
    for start in range(0, len(values), step):
        write_shard(place / array, first + start, values[start : start + step], job.zarr_format)
    del values
    where = place_of(job.store, output.language, output.split)
    metadata = array_metadata(place, array, (length,), where, job.zarr_format)
    if digest_array(TensorStoreReader(str(place), metadata, where), first, stop) != digest:
        raise StoreError(f"{array}[{first}:{stop}] of {where} does not read back as it was written")
    return digest


def _values(folder: str, job: Job, output: Output, array: str, first: int, stop: int) -> np.ndarray:
    """Values [first, stop) of an array, in its own type, little-endian."""
    if array == layout.ENCODED_TOKENS:
        found = [
            PartReader(Path(job.parts, one.part), one.content).read(ENCODED, i, j)
            for one, i, j in _spans(output.placed, first, stop, tokens=True)
        ]
    elif array == layout.SEQ_STARTS:
        found = [np.zeros(1, np.uint64)] if first == 0 else []
        found += [
            _ends(PartReader(Path(job.parts, one.part), one.content).read(LENGTHS, 0, j), one.first_token)[i:]
            for one, i, j in _spans(output.placed, max(first - 1, 0), stop - 1, tokens=False)
        ]
    else:
        found = [
            _sources(folder, job, output, one, i, j, array)
            for one, i, j in _spans(output.placed, first, stop, tokens=False)
        ]
    dtype = np.dtype(layout.DTYPES[array]).newbyteorder("<")
    return np.concatenate([np.empty(0, dtype), *found], dtype=dtype)


def _spans(placed: list[Placed], first: int, stop: int, tokens: bool) -> Iterator[tuple[Placed, int, int]]:
    """The contents that hold tokens, or documents, [first, stop) of a split, and which of their own these are."""

    def begin(one: Placed) -> int:
        return one.first_token if tokens else one.first_document

    def count(one: Placed) -> int:
        return one.tokens if tokens else one.documents

    for one in placed[max(0, bisect.bisect_right(placed, first, key=begin) - 1) :]:
        if begin(one) >= stop:
            return
        i, j = max(first - begin(one), 0), min(stop - begin(one), count(one))
        if i < j:
            yield one, i, j


def _ends(lengths: np.ndarray, first_token: int) -> np.ndarray:
    return np.cumsum(lengths, dtype=np.uint64) + np.uint64(first_token)


def _sources(folder: str, job: Job, output: Output, one: Placed, i: int, j: int, array: str) -> np.ndarray:
    reader = PartReader(Path(job.parts, one.part), one.content)
    stretches = reader.read(STRETCH, i, j)
    if array == layout.SOURCE_FILE:
        return np.array([stretch.input for stretch in job.units[one.unit]], np.uint32)[stretches]
    bases = np.array(load_bases(folder)[one.unit], np.uint64)
    return bases[stretches] + reader.read(RECORD, i, j)
