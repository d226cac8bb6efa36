"""plan -> splits: each batch of records is tokenized once and its documents go to the writers of their languages.

A language's documents stay in the order of the input. What is in memory is one batch and, for each language that is
being written, what its writer holds back (at most one shard); languages named one by one are written one by one.
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np

from flatmix.convert.plan import Part, Plan
from flatmix.convert.records import BadRecords, Record, batches, place_of, read_records
from flatmix.convert.summary import LanguageSummary
from flatmix.errors import ConvertError
from flatmix.store.writer import SplitWriter


@dataclass
class Output:
    """The writer of one language and what has gone to it."""

    writer: SplitWriter
    documents: int = 0
    empty: int = 0
    utf8_bytes: int = 0


def write_part(
    plan: Plan, part: Part, batch_documents: int, batch_characters: int, report: Callable[[int], None]
) -> list[LanguageSummary]:
    """Convert one source. Leaves its splits incomplete, or the old ones as they were, where an error ends it."""
    bad = BadRecords(plan.skip_bad)
    records = read_records(part.source.files, plan.decoder, bad)
    with ExitStack() as stack:
        outputs = {language: Output(stack.enter_context(_writer(plan, part, language))) for language in part.documents}
        for batch in batches(records, batch_documents, batch_characters):
            _write_batch(plan, part, outputs, batch)
            report(batch[-1].end)
        _check_unchanged(part, outputs, bad)
        return [_finish(language, part, output) for language, output in outputs.items()]


def _writer(plan: Plan, part: Part, language: str) -> SplitWriter:
    options = {"text_field": plan.fields.text, "language_field": plan.fields.language, "skip_bad": plan.skip_bad}
    source = {"data": part.source.data, "files": list(part.source.names), "options": options}
    return SplitWriter(
        plan.store,
        language,
        plan.split,
        tokenizer=plan.tokenizer.identity,
        source=source,
        record_sources=True,
        replace=plan.replace,
        zarr_format=plan.zarr_format,
        compression=plan.compression,
    )


def _write_batch(plan: Plan, part: Part, outputs: dict[str, Output], batch: Sequence[Record]) -> None:
    ids = _encode(plan, part, batch)
    lengths = np.array([len(one) for one in ids], np.int64)
    places: dict[str | None, list[int]] = {}
    for place, record in enumerate(batch):
        places.setdefault(part.source.language if record.language is None else record.language, []).append(place)
    for language, here in places.items():
        if language not in outputs:
            raise _changed(part)
        output = outputs[language]
        records = [batch[place] for place in here]
        utf8_bytes = sum(_utf8_length(record.text) for record in records)
        output.writer.add_many(
            np.concatenate([ids[place] for place in here]),
            lengths[here],
            utf8_bytes=utf8_bytes,
            source_file=np.array([record.file for record in records], np.uint32),
            source_record=np.array([record.number for record in records], np.uint64),
        )
        output.documents += len(here)
        output.empty += int(np.sum(lengths[here] == plan.tokenizer.added_per_document))
        output.utf8_bytes += utf8_bytes


def _encode(plan: Plan, part: Part, batch: Sequence[Record]) -> list[np.ndarray]:
    try:
        return plan.tokenizer.encode_batch([record.text for record in batch])
    except ConvertError:
        for record in batch:  # one by one, to say which
            try:
                plan.tokenizer.encode_batch([record.text])
            except ConvertError as error:
                raise ConvertError(f"{place_of(part.source.files[record.file], record.number)}: {error}") from error
        raise


def _utf8_length(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _check_unchanged(part: Part, outputs: dict[str, Output], bad: BadRecords) -> None:
    written = {language: output.documents for language, output in outputs.items()}
    if written != part.documents or bad.count != part.bad.count:
        raise _changed(part)


def _changed(part: Part) -> ConvertError:
    return ConvertError(
        f"{part.source.data} changed between the check and the conversion, so what was written is not complete and not "
        "to be used; convert again with --replace"
    )


def _finish(language: str, part: Part, output: Output) -> LanguageSummary:
    split = output.writer.finish()
    bad = 0 if part.source.language is None else part.bad.count
    return LanguageSummary(
        language, output.documents, output.empty, bad, int(split.tokens), output.utf8_bytes, str(split.digest)
    )
