"""what `verify` found damaged -> the same values once more, from the source, each piece proven before it is written.

A piece is 2^24 values behind one digest, so what the source gives is compared with what was converted before anything
on disk is touched: either a shard is what it was, to the bit, or it stays as it is. Where documents came from has no
digest; it is written again only where every token of these documents is the one that the store holds. Files are put in
place whole, and a split keeps its attributes, so loaders that have it open go on with what is repaired.

Cost: that of `remake` for each damaged piece; all of a split is read where `piece_digests` is damaged.
"""

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from flatmix.convert.origin import ANEW, Damaged, Origin, Run, documents, find_origin
from flatmix.convert.parts import written_whole
from flatmix.convert.plan import SourceSpec
from flatmix.convert.remake import encoded_run, seq_starts_piece, span, tokens_piece
from flatmix.convert.tokenizer import Tokenizer, load_tokenizer
from flatmix.errors import ConvertError, ReadError, StoreError
from flatmix.store import Split, open_store
from flatmix.store import format as layout
from flatmix.store.locks import locked
from flatmix.store.reader import digest_array
from flatmix.store.shards import write_shard
from flatmix.store.split import place_of
from flatmix.verify import Report, SplitReport, verify

_PROVEN = (layout.ENCODED_TOKENS, layout.SEQ_STARTS)  # in the sequence of their rows in piece_digests
_SOURCES = (layout.SOURCE_FILE, layout.SOURCE_RECORD)


@dataclass(frozen=True)
class SplitRepair:
    """What became of one split that was not sound: pieces that were written again, by array, and what was not, why."""

    language: str
    split: str
    repaired: dict[str, list[int]]
    refused: tuple[str, ...]


@dataclass(frozen=True)
class RepairReport:
    """What became of all splits that were not sound; `after` is what is found in the store now."""

    splits: tuple[SplitRepair, ...]
    after: Report

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON: the report of what is there now, and `repairs`."""
        return self.after.as_dict() | {"repairs": [asdict(split) for split in self.splits]}


def repair(
    report: Report,
    specs: Sequence[SourceSpec],
    tokenizer: str | os.PathLike[str] | None = None,
    begin_token: str | int | None = None,
    end_token: str | int | None = None,
    *,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> RepairReport:
    """Writes again what `report` found damaged, and nothing else; then verifies the splits that were written to.

    specs, tokenizer, begin_token, end_token: as for `convert`; the fields of the text and of the language, and the
    shares held out, are those that a split keeps. `threads` and `progress` are those of `verify`.

    What cannot be repaired is in the report. ConvertError for a tokenizer that cannot be loaded; OSError for what
    cannot be written.
    """
    loaded = load_tokenizer("bytes" if tokenizer is None else tokenizer, begin_token, end_token)
    done = [_repair_split(report.store, one, specs, loaded) for one in report.splits.values() if not one.sound]
    return RepairReport(tuple(done), _verified(report, [one for one in done if one.repaired], threads, progress))


def _verified(
    before: Report, written: Sequence[SplitRepair], threads: int | None, progress: Callable[[int, int], None] | None
) -> Report:
    """`before`, with the splits that were written to verified anew."""
    splits = dict(before.splits)
    for language in dict.fromkeys(one.language for one in written):
        names = [one.split for one in written if one.language == language]
        splits |= verify(before.store, [language], names, threads=threads, progress=progress).splits
    return replace(before, splits=splits)


def _repair_split(store: str, found: SplitReport, specs: Sequence[SourceSpec], tokenizer: Tokenizer) -> SplitRepair:
    repaired: dict[str, list[int]] = {}
    refused: list[str] = []
    if not found.damaged:
        refused.append(f"what is wrong with it lies in no piece of an array; {ANEW}")
    elif not found.proven:
        refused.append("an older store has no digests to prove a repair by; convert its source to a new store")
    else:
        try:
            with _held(store, found):
                split = open_store(store)[found.language][found.split]
                for array, number in _mend(split, found, specs, tokenizer, refused):
                    repaired.setdefault(array, []).append(number)
        except (ConvertError, ReadError, StoreError) as error:
            refused.append(str(error))
    return SplitRepair(found.language, found.split, repaired, tuple(dict.fromkeys(refused)))


@contextlib.contextmanager
def _held(store: str, found: SplitReport) -> Iterator[None]:
    """Keeps writers away from the split."""
    folder = Path(store, found.language, found.split)
    with ExitStack() as locks:
        try:
            with locked(folder.parent, wait=True):
                locks.enter_context(locked(folder, wait=False))
        except BlockingIOError:
            raise StoreError("it is being written at this moment; repair it when that is done") from None
        yield


def _mend(
    split: Split, found: SplitReport, specs: Sequence[SourceSpec], tokenizer: Tokenizer, refused: list[str]
) -> Iterator[tuple[str, int]]:
    """Writes what can be proven; yields each piece that was written, and adds to `refused` those that were not."""
    damaged = {array: set(numbers) for array, numbers in found.damaged.items() if array in split.arrays}

    @cache
    def origin() -> Origin:  # late: piece_digests can be repaired without any source
        return find_origin(split, specs, tokenizer)

    def remade(array: str, number: int) -> np.ndarray:
        make = tokens_piece if array == layout.ENCODED_TOKENS else seq_starts_piece
        return make(origin(), damaged, number)

    rows = _proven_rows(split, damaged, remade)
    for array in (layout.SEQ_STARTS, layout.ENCODED_TOKENS):  # tokens are found by document starts
        for number in sorted(damaged.get(array, ())):
            values = remade(array, number)
            if hashlib.sha256(values).digest() != rows[array, number]:
                refused.append(
                    f"{array}: the source does not give what was converted: its piece {number} has another SHA-256; "
                    f"name the source as it was then, or {ANEW}"
                )
                continue
            _write(split, array, span(split, array, number)[0], values)
            if digest_array(split.array_reader(array), *span(split, array, number)) != rows[array, number]:
                raise StoreError(f"{array}: piece {number} does not read back as it was written")
            damaged[array].discard(number)
            yield array, number
    yield from _mend_sources(split, damaged, origin)
    yield from _mend_digests(split, damaged, rows)


def _proven_rows(
    split: Split, damaged: Damaged, remade: Callable[[str, int], np.ndarray]
) -> dict[tuple[str, int], bytes]:
    """The digest of each piece: as they are stored, or, where these are damaged, as content and source give them.

    The attribute digest proves either. ConvertError where it does not.
    """
    pieces = [
        (array, number) for array in _PROVEN for number in range(layout.piece_count(split.arrays[array].shape[0]))
    ]
    with contextlib.suppress(ReadError):
        stored = split.piece_digests().tobytes()
        if layout.digest(stored) == split.digest:
            size = layout.DIGEST_BYTES
            return {piece: stored[i * size : (i + 1) * size] for i, piece in enumerate(pieces)}
    if all(damaged.get(array) for array in _PROVEN):
        raise ConvertError(f"{layout.PIECE_DIGESTS} is damaged with {' and '.join(_PROVEN)}; {ANEW}")
    rows = {
        (array, number): hashlib.sha256(remade(array, number)).digest()
        if number in damaged.get(array, ())
        else digest_array(split.array_reader(array), *span(split, array, number))
        for array, number in pieces
    }
    if layout.digest(b"".join(rows.values())) != split.digest:
        raise ConvertError(
            f"{layout.PIECE_DIGESTS} is damaged, and what else there is has not the attribute digest; {ANEW}"
        )
    return rows


def _mend_sources(split: Split, damaged: Damaged, origin: Callable[[], Origin]) -> Iterator[tuple[str, int]]:
    lost = {array: damaged[array] for array in _SOURCES if damaged.get(array)}
    if lost and any(damaged.get(array) for array in _PROVEN):
        raise ConvertError(f"{' and '.join(lost)} can be repaired when its tokens are")
    for number in sorted(set().union(*lost.values())):
        first, stop = span(split, layout.SOURCE_FILE, number)
        files, records = np.empty(stop - first, np.uint32), np.empty(stop - first, np.uint64)
        for run in documents(origin(), damaged, first, stop):
            _check_tokens(split, run)
            place = slice(run.first - first, run.first - first + len(run.lengths))
            files[place], records[place] = run.file, run.records
        for array, values in zip(_SOURCES, (files, records), strict=True):
            if number in lost.get(array, ()):
                _write(split, array, first, values)
                _check_read_back(split, array, first, values)
                yield array, number


def _check_tokens(split: Split, run: Run) -> None:
    """ConvertError unless the store has exactly these documents there."""
    starts = split.seq_starts(run.first, run.first + len(run.lengths) + 1)
    same = np.array_equal(np.diff(starts), run.lengths)
    if same:
        stored = np.empty(len(run.ids), np.uint32)
        split.reader().read(int(starts[0]), int(starts[-1]), stored).result()
        same = np.array_equal(stored, encoded_run(split, run))
    if not same:
        raise ConvertError(
            f"the source does not give what was converted: of the documents [{run.first}, "
            f"{run.first + len(run.lengths)}) some have other tokens; name the source as it was then, or {ANEW}"
        )


def _mend_digests(split: Split, damaged: Damaged, rows: dict[tuple[str, int], bytes]) -> Iterator[tuple[str, int]]:
    numbers = sorted(damaged.get(layout.PIECE_DIGESTS, ()))
    if numbers:
        values = np.frombuffer(b"".join(rows.values()), np.uint8).reshape(-1, layout.DIGEST_BYTES)
        _write(split, layout.PIECE_DIGESTS, 0, values)
        _check_read_back(split, layout.PIECE_DIGESTS, 0, values)
    for number in numbers:
        yield layout.PIECE_DIGESTS, number


def _check_read_back(split: Split, array: str, first: int, values: np.ndarray) -> None:
    found = np.empty_like(values)
    split.array_reader(array).read(first, first + len(values), found).result()
    if not np.array_equal(found, values):
        raise StoreError(f"{array}: what was repaired does not read back as it was written")


def _write(split: Split, array: str, first: int, values: np.ndarray) -> None:
    """Puts the files of [first, first + len(values)) in place of those that are there, each at once.

    They are made in another folder, so that nothing is read of what is damaged.
    """
    metadata, folder = split.arrays[array], Path(split.path, array)
    step = metadata.shard or metadata.chunk
    last = first + len(values)
    if first % step or (last % step and last != metadata.shape[0]):
        place = place_of(split.store_path, split.language, split.name)
        raise StoreError(f"{array} of {place} has files of {step} entries, which divide no piece; {ANEW}")
    with tempfile.TemporaryDirectory(prefix="flatmix-repair-") as made:
        name = layout.METADATA if metadata.zarr_format == 3 else layout.ARRAY_V2
        Path(made, name).write_bytes((folder / name).read_bytes())
        for start in range(0, len(values), step):
            write_shard(Path(made), first + start, values[start : start + step], metadata.zarr_format)
        for file in sorted(Path(made).rglob("*")):
            if file.is_file() and file.name != name:
                target = folder / file.relative_to(made)
                target.parent.mkdir(parents=True, exist_ok=True)
                with written_whole(target) as whole:
                    whole.write(file.read_bytes())
