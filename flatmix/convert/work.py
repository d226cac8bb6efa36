"""one unit of a job -> staged parts: what a worker does, in whatever process and on whatever machine.

A part is there as a whole or not at all, is never written twice, and the next begins at the record after its last: that
is the whole of a restart, and of two workers who, unknown to each other, do the same unit. Documents keep the sequence
of the input, so how they were divided is not to be seen in the store.

Cost: the tokenizer's time and a few percent; the memory of one batch and of one part (`job.Sizes`).
"""

from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

import numpy as np

from flatmix.convert.find import stamp_now
from flatmix.convert.hold_out import split_of
from flatmix.convert.inputs import Record
from flatmix.convert.job import Job, Stretch
from flatmix.convert.parts import part_path, read_part
from flatmix.convert.pending import Pending
from flatmix.convert.reading import holds_tokens, place_of, read_records, read_tokens
from flatmix.convert.staging import load_job
from flatmix.convert.tokenizer import Tokenizer, load_tokenizer
from flatmix.errors import ConvertError


def convert_unit(folder: str, unit: int) -> None:
    """Does what is left to do of a unit of the job in `folder`, part by part.

    ConvertError for input that changed, and for a bad record where the job is strict; ReadError for input that cannot
    be read to its end; OSError for a part that cannot be written.
    """
    job = load_job(folder)
    while True:
        number, seen, size = _what_is_there(Path(job.parts), unit)
        if seen is None:
            return
        try:
            _go_on(job, unit, number, seen, size)
        except FileExistsError:  # another worker does this unit as well: after its part, then
            continue


def _what_is_there(parts: Path, unit: int) -> tuple[int, dict[int, int] | None, int]:
    """The number of the next part, and what was seen: records of each stretch, None when the unit is done; bytes."""
    number = size = 0
    seen: dict[int, int] = {}
    while (path := part_path(parts, unit, number)).exists():
        part = read_part(path)
        size += part.size
        if part.last:
            return number, None, size
        for stretch, records in part.records.items():
            seen[stretch] = seen.get(stretch, 0) + records
        number += 1
    return number, seen, size


def _go_on(job: Job, unit: int, number: int, seen: dict[int, int], size: int) -> None:
    pending = Pending(job, unit, number)
    begin = max(seen, default=0)
    reached = max(0, size - sum(stretch.size for stretch in job.units[unit][:begin]))
    for place, stretch in enumerate(job.units[unit][begin:], begin):
        _check_same(job, stretch)
        convert = _convert_tokens if holds_tokens(job.input(stretch)) else _convert_texts
        for _ in convert(pending, job, place, stretch, seen.get(place, 0), reached):
            if pending.is_full:
                pending.flush(last=False)
        _check_same(job, stretch)
        reached = 0
    pending.flush(last=True)


def _check_same(job: Job, stretch: Stretch) -> None:
    found = job.input(stretch)
    if stamp_now(found) != found.stamp:
        raise ConvertError(
            f"{found.path} changed while it was converted; begin anew with --restart once it stays as it is"
        )


def _convert_tokens(
    pending: Pending, job: Job, place: int, stretch: Stretch, skip: int, reached: int
) -> Iterator[None]:
    """Adds the documents of a stretch of tokens after the first `skip`, which take `reached` bytes.

    Yields wherever a part may end.
    """
    found, source = job.input(stretch), job.sources[stretch.source]
    number = skip
    for run in read_tokens(found, stretch.start, stretch.stop, skip):
        _check_vocabulary(job, found.path, int(run.ids.max(initial=0)))
        ends = np.cumsum(run.lengths)
        documents = [run.ids[i:j] for i, j in zip(ends - run.lengths, ends, strict=True)] if job.hold_out else []
        splits = np.array([split_of(ids, source.split, job.hold_out) for ids in documents])
        for split in [source.split, *job.hold_out]:
            chosen = np.flatnonzero(splits == split) if job.hold_out else np.arange(len(run.lengths))
            if len(chosen):
                ids = np.concatenate([documents[i] for i in chosen]) if job.hold_out else run.ids
                lengths = run.lengths[chosen]
                empty = int(np.sum(lengths == 0))
                pending.add((stretch.source, source.language, split), ids, lengths, place, number + chosen, None, empty)
        pending.saw(place, len(run.lengths), max(0, run.end - reached))
        number, reached = number + len(run.lengths), run.end
        yield


def _check_vocabulary(job: Job, path: str, largest: int) -> None:
    if job.identity is not None and largest >= job.identity["vocabulary"]:
        raise ConvertError(
            f"{path} holds the id {largest}, and the tokenizer {job.identity['name']} has {job.identity['vocabulary']} "
            "ids; name the tokenizer that made these tokens, or none"
        )


def _convert_texts(pending: Pending, job: Job, place: int, stretch: Stretch, skip: int, reached: int) -> Iterator[None]:
    """Adds the documents of a stretch of records after the first `skip`, which take `reached` bytes.

    Yields wherever a part may end.
    """
    found, source = job.input(stretch), job.sources[stretch.source]
    tokenizer = _tokenizer(job.tokenizer, job.begin, job.end, job.identity["sha256"])
    records = read_records(found, stretch.start, stretch.stop, source.fields, skip)
    for first, batch in batches(records, skip, job.sizes.batch_documents, job.sizes.batch_characters):
        good: list[tuple[int, Record]] = []
        for number, record in enumerate(batch, first):
            if record.text is not None:
                good.append((number, record))
            elif record.problem is not None:
                _add_problem(pending, job, place, stretch, number, record.problem)
        _add_texts(pending, job, tokenizer, place, stretch, good)
        pending.saw(place, len(batch), max(0, batch[-1].end - reached))
        reached = batch[-1].end
        yield


@lru_cache(maxsize=1)
def _tokenizer(spec: str, begin: int | None, end: int | None, digest: str) -> Tokenizer:
    loaded = load_tokenizer(spec, begin, end)
    if loaded.identity["sha256"] != digest:
        raise ConvertError(f"tokenizer {spec} changed while it was used; begin anew with --restart")
    return loaded


def batches(
    records: Iterable[Record], first: int, documents: int, characters: int
) -> Iterator[tuple[int, list[Record]]]:
    """Runs of at most `documents` records and, unless one alone is longer, `characters` characters.

    Each with the number of its first record; `first` is that of the first run.
    """
    batch: list[Record] = []
    size = 0
    for record in records:
        length = 0 if record.text is None else len(record.text)
        if batch and (len(batch) >= documents or size + length > characters):
            yield first, batch
            first, batch, size = first + len(batch), [], 0
        batch.append(record)
        size += length
    if batch:
        yield first, batch


def _add_texts(
    pending: Pending, job: Job, tokenizer: Tokenizer, place: int, stretch: Stretch, records: list[tuple[int, Record]]
) -> None:
    source = job.sources[stretch.source]
    records, ids, lengths = _encode(pending, job, tokenizer, place, stretch, records)
    ends = np.cumsum(lengths)
    groups: dict[tuple[str, str], list[int]] = {}
    for i, (_, record) in enumerate(records):
        language = record.language if source.language is None else source.language
        groups.setdefault((language, split_of(record.text, source.split, job.hold_out)), []).append(i)
    for (language, split), members in groups.items():
        whole = len(members) == len(records)
        pending.add(
            (stretch.source, language, split),
            ids if whole else np.concatenate([ids[ends[i] - lengths[i] : ends[i]] for i in members]),
            lengths[members],
            place,
            np.array([records[i][0] for i in members]),
            sum(utf8_length(records[i][1].text) for i in members),
            int(np.sum(lengths[members] == tokenizer.added_per_document)),
        )


def _encode(
    pending: Pending, job: Job, tokenizer: Tokenizer, place: int, stretch: Stretch, records: list[tuple[int, Record]]
) -> tuple[list[tuple[int, Record]], np.ndarray, np.ndarray]:
    """The records that the tokenizer takes, the ids of all, and the length of each; the others become problems."""
    ids, lengths, failed = tokenizer.encode_able([record.text for _, record in records])
    for i, reason in failed.items():
        _add_problem(pending, job, place, stretch, records[i][0], reason)
    return [record for i, record in enumerate(records) if i not in failed], ids, lengths


def utf8_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _add_problem(pending: Pending, job: Job, place: int, stretch: Stretch, record: int, reason: str) -> None:
    if job.strict:
        found, fields = job.input(stretch), job.sources[stretch.source].fields
        before = sum(1 for _ in read_records(found, 0, stretch.start, fields, 0)) if stretch.start else 0
        raise ConvertError(f"{place_of(found, before + record)}: {reason}; it ends the run, as --strict asks for")
    pending.add_problem(stretch.source, place, record, reason)
