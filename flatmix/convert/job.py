"""(sources, tokenizer, settings) -> a job: all that decides what a conversion writes, as one file that workers read.

A job is divided into units, runs of stretches of the input, which are the same whoever works on them. Its key is a hash
of what decides the result, so the same command finds the work that an interrupted one has left, and another command
does not take it for its own.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from flatmix.convert.inputs import Fields, Input
from flatmix.convert.reading import cut
from flatmix.convert.tokenizer import describe_tokenizer
from flatmix.store.format import Compression

VERSION = 1  # of what is staged; another version begins anew
UNITS = 2**10  # into so many, or more, an input is divided that is large enough
SMALLEST_UNIT, LARGEST_UNIT = 2**20, 2**24  # bytes


class Sizes(msgspec.Struct, frozen=True):
    """How the work is divided. Bounds memory, and what a crash loses; changes no content."""

    unit_bytes: int = 0  # of the input, for one call of a worker; 0 for what suits all of it
    part_tokens: int = 2**23  # a part is finished when it has as many of one of these
    part_characters: int = 2**25
    part_documents: int = 2**20
    batch_documents: int = 2**10  # what is tokenized at once
    batch_characters: int = 2**20


class JobSource(msgspec.Struct, frozen=True):
    """What goes to one split: of `language`, or of those that the records name."""

    language: str | None
    split: str
    data: str
    fields: Fields
    inputs: tuple[Input, ...]


class Stretch(msgspec.Struct, array_like=True, frozen=True):
    """A stretch of one input."""

    source: int
    input: int  # of the source
    start: int
    stop: int | None
    size: int  # bytes, about


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """One conversion."""

    version: int = VERSION
    store: str  # absolute
    sources: tuple[JobSource, ...]
    tokenizer: str | None  # as workers load it; None where all input is tokens
    identity: dict[str, Any] | None
    begin: int | None = None
    end: int | None = None
    hold_out: dict[str, float] = {}  # split -> share of the documents
    zarr_format: int = 3
    compression: Compression = "fast"
    strict: bool = False
    replace: bool = False
    sizes: Sizes = Sizes()
    parts: str = ""  # the folder of the staged parts
    units: tuple[tuple[Stretch, ...], ...] = ()

    def input(self, stretch: Stretch) -> Input:
        return self.sources[stretch.source].inputs[stretch.input]

    def targets(self) -> set[tuple[str | None, str]]:
        """The (language, split) that it writes; None for languages that the records name."""
        return {(source.language, split) for source in self.sources for split in splits_of(source.split, self.hold_out)}


def splits_of(split: str, hold_out: Mapping[str, float]) -> list[str]:
    """The splits that a source for `split` goes to."""
    return [split, *hold_out]


def key(job: Job) -> str:
    """16 hexadecimal digits of what decides the result; neither the division of work nor what is there before."""
    deciding = msgspec.structs.replace(job, parts="", units=(), strict=False, replace=False)
    return hashlib.sha256(msgspec.json.encode(deciding, order="deterministic")).hexdigest()[:16]


def difference(one: Job, other: Job) -> str:
    """The first setting in which two jobs differ, with both values, for messages."""
    if one.identity != other.identity:
        ours, theirs = (job.identity and describe_tokenizer(job.identity) for job in (one, other))
        return f"its tokenizer is {theirs or 'none'}, and now it is {ours or 'none'}"
    for name in ("begin", "end", "hold_out", "zarr_format", "compression", "sizes", "version"):
        ours, theirs = getattr(one, name), getattr(other, name)
        if ours != theirs:
            return f"its {name} is {theirs}, and now it is {ours}"
    for ours, theirs in zip(one.sources, other.sources, strict=False):
        if ours.inputs != theirs.inputs:
            known = {found.path: found for found in theirs.inputs}
            for found in ours.inputs:
                if found.path not in known:
                    return f"{found.path} is now among its input"
                if found != known[found.path]:
                    return f"{found.path} has changed"
            return f"{len(theirs.inputs)} files were its input, and now {len(ours.inputs)} are"
        if ours != theirs:
            return f"its source was {theirs.data} for {theirs.language}/{theirs.split} with {theirs.fields}"
    return f"it has {len(other.sources)} sources, and now there are {len(one.sources)}"


def unit_size(sources: Sequence[JobSource]) -> int:
    """Bytes of a unit that suit the input: enough units for workers to end together, and no more files than needed."""
    total = sum(found.size for source in sources for found in source.inputs)
    return min(max(total // UNITS, SMALLEST_UNIT), LARGEST_UNIT)


def divide(sources: Sequence[JobSource], size: int) -> tuple[tuple[Stretch, ...], ...]:
    """Units of about `size` bytes, in the sequence of the input; small files share one, large ones have many."""
    units: list[tuple[Stretch, ...]] = []
    open_unit: list[Stretch] = []
    filled = 0
    for stretch in _stretches(sources, size):
        if open_unit and filled + stretch.size > size:
            units.append(tuple(open_unit))
            open_unit, filled = [], 0
        open_unit.append(stretch)
        filled += stretch.size
        if stretch.size == 0:  # nobody knows how much it is
            filled = size
    return (*units, tuple(open_unit)) if open_unit else tuple(units)


def _stretches(sources: Sequence[JobSource], size: int) -> Iterator[Stretch]:
    for number, source in enumerate(sources):
        for place, found in enumerate(source.inputs):
            for start, stop, count in cut(found, size):
                yield Stretch(number, place, start, stop, count)
