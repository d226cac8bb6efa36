"""a split and what a user names -> its source, and the documents that this gives, from any of them on.

A store does not keep where its source lies, so the user names it again, and its files must be called as they were. The
documents of a split are records of its source in their sequence: whoever knows where one of them came from can make all
that follow. The nearest one whose origin can be read is where reading begins, and the first record of all where none
can. Which records become documents of this split is decided as it was when they were converted.

Cost: passing over the records before, and the tokenizer's time for the rest.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any, NamedTuple

import numpy as np

from flatmix.convert.find import ReadOptions, find_source
from flatmix.convert.hold_out import check_hold_out, split_of
from flatmix.convert.inputs import Fields, Input, Record
from flatmix.convert.job import Sizes
from flatmix.convert.plan import SourceSpec
from flatmix.convert.reading import holds_tokens, read_records, read_tokens
from flatmix.convert.tokenizer import Tokenizer, describe_tokenizer, same_tokenizer
from flatmix.convert.work import batches
from flatmix.errors import ConvertError
from flatmix.store import Split
from flatmix.store import format as layout

Damaged = Mapping[str, set[int]]  # array -> numbers of its pieces that cannot be relied on
_Batch = tuple[np.ndarray, np.ndarray, np.ndarray]  # ids of all documents, and of each its length and its record
_SIZES = Sizes()
ANEW = "convert it again with --replace"


@dataclass(frozen=True)
class Origin:
    """What the documents of a split are made of again."""

    split: Split
    inputs: tuple[Input, ...]
    fields: Fields
    shares: Mapping[str, float]  # held out, of a source that was divided
    tokenizer: Tokenizer


class Run(NamedTuple):
    """Documents that follow each other, of one input."""

    first: int  # number of the first of them
    ids: np.ndarray  # uint32[tokens] of all
    lengths: np.ndarray  # int64[documents]
    file: int
    records: np.ndarray  # int64[documents]


def find_origin(split: Split, specs: Sequence[SourceSpec], tokenizer: Tokenizer) -> Origin:
    """The source of a split among `specs`; ConvertError where it is not there, or is not what the split says."""
    kept = split.source or {}
    options = _object(kept.get("options"))
    shares = check_hold_out(_object(options.get("hold_out")))
    spec = _spec_of(split, specs, shares)
    text = options.get("text_field", spec.text_field)
    fields = Fields(text, options.get("language_field", spec.language_field))
    patterns = [spec.data] if isinstance(spec.data, str) else spec.data
    found = find_source(spec.language, spec.split, patterns, fields, ReadOptions(spec.download, spec.tokens))
    _check_names(kept.get("files"), [one.name for one in found.inputs])
    texts = any(not holds_tokens(one) for one in found.inputs)
    if texts and split.tokenizer is not None and not same_tokenizer(split.tokenizer, tokenizer.identity):
        raise ConvertError(
            f"its tokenizer is {describe_tokenizer(split.tokenizer)}, and {describe_tokenizer(tokenizer.identity)} is "
            "given; name the one it was converted with, and its begin and end token"
        )
    return Origin(split, found.inputs, fields, shares, tokenizer)


def _spec_of(split: Split, specs: Sequence[SourceSpec], shares: dict[str, float]) -> SourceSpec:
    """What is named for this split; else for the one that it was held out of. A language comes before a field."""
    fitting = [
        spec
        for spec in specs
        if spec.language in (split.language, None) and (spec.split == split.name or split.name in shares)
    ]
    if not fitting:
        raise ConvertError(f"its source is not named; name it, as in --language {split.language}=FILES")
    return min(fitting, key=lambda spec: (spec.split != split.name, spec.language is None))


def _check_names(kept: Any, named: list[str]) -> None:
    if not isinstance(kept, list):
        raise ConvertError(f"it does not say which files it came from; {ANEW}")
    for number, (old, new) in enumerate(zip_longest(kept, named)):
        if old != new:
            raise ConvertError(
                f"it was converted from {len(kept)} files, and {len(named)} are named: number {number} was {old!r}, "
                f"and now it is {new!r}; name the same files in the same sequence, or {ANEW}"
            )


def _object(value: Any) -> dict[str, Any]:
    """A JSON object of an attribute that anybody may have written."""
    return value if isinstance(value, dict) else {}


def documents(origin: Origin, damaged: Damaged, first: int, stop: int) -> Iterator[Run]:
    """The documents [first, stop) of the split. ConvertError where the source has no more; ReadError."""
    if first >= stop:
        return
    number, begin, skip = _known_place(origin.split, damaged, first)
    for file, found in enumerate(origin.inputs[begin:], begin):
        for ids, lengths, records in _batches(origin, found, skip):
            i, j = min(max(first - number, 0), len(lengths)), min(stop - number, len(lengths))
            if i < j:
                ends = np.cumsum(lengths)
                yield Run(number + i, ids[ends[i] - lengths[i] : ends[j - 1]], lengths[i:j], file, records[i:j])
            number += len(lengths)
            if number >= stop:
                return
        skip = 0
    raise ConvertError(
        f"its source ends before document {number} (counted from 0), and {origin.split.documents} were converted: it "
        "has changed"
    )


def _known_place(split: Split, damaged: Damaged, document: int) -> tuple[int, int, int]:
    """The nearest document up to this one whose origin can be read: its number, its file and its record."""
    lost = damaged.get(layout.SOURCE_FILE, set()) | damaged.get(layout.SOURCE_RECORD, set())
    while document >= 0 and document // layout.PIECE in lost:
        document = document // layout.PIECE * layout.PIECE - 1
    sources = split.sources(document, document + 1) if document >= 0 else None
    if sources is None:
        return 0, 0, 0
    return document, int(sources[0][0]), int(sources[1][0])


def _batches(origin: Origin, found: Input, skip: int) -> Iterator[_Batch]:
    """The documents of the split that an input holds, but for those of its first `skip` records."""
    return _token_batches(origin, found, skip) if holds_tokens(found) else _text_batches(origin, found, skip)


def _token_batches(origin: Origin, found: Input, skip: int) -> Iterator[_Batch]:
    for run in read_tokens(found, 0, None, skip):
        records = np.arange(skip, skip + len(run.lengths))
        skip += len(run.lengths)
        if not origin.shares:
            yield run.ids, run.lengths, records
            continue
        each = np.split(run.ids, np.cumsum(run.lengths)[:-1])
        chosen = np.array([_goes_here(origin, ids) for ids in each], bool)
        yield run.ids[np.repeat(chosen, run.lengths)], run.lengths[chosen], records[chosen]


def _text_batches(origin: Origin, found: Input, skip: int) -> Iterator[_Batch]:
    records = read_records(found, 0, None, origin.fields, skip)
    for first, batch in batches(records, skip, _SIZES.batch_documents, _SIZES.batch_characters):
        texts, numbers = [], []
        for number, record in enumerate(batch, first):
            if record.text is not None and _is_document(origin, record):
                texts.append(record.text)
                numbers.append(number)
        ids, lengths, failed = origin.tokenizer.encode_able(texts)  # those that fail became no documents
        yield ids, lengths, np.array([one for i, one in enumerate(numbers) if i not in failed], np.int64)


def _is_document(origin: Origin, record: Record) -> bool:
    mine = origin.fields.language is None or record.language == origin.split.language
    return mine and _goes_here(origin, record.text)


def _goes_here(origin: Origin, content: str | np.ndarray) -> bool:
    """Whether a document of the source goes to this split, and not to another that it was divided into."""
    name = origin.split.name
    return split_of(content, "", origin.shares) == (name if name in origin.shares else "")
