"""documents -> store: read, tokenize, write; the same input gives the same store, to the bit, wherever it lies.

Read `sources` (pattern -> files), `records` (files -> documents), `tokenizer` (text -> ids), `plan` (what is checked
before any work) and `write` (documents -> splits), in this order. `convert` joins them. One process; the time is the
tokenizer's, and memory holds a batch of documents and at most one shard of each language that is being written.
"""

import os
from collections.abc import Mapping

from flatmix.convert.plan import Patterns, Progress, make_plan
from flatmix.convert.records import Fields
from flatmix.convert.summary import LanguageSummary, Summary
from flatmix.convert.tokenizer import Tokenizer, load_tokenizer
from flatmix.convert.write import write_part
from flatmix.errors import ConvertError
from flatmix.store.format import Compression

__all__ = ["LanguageSummary", "Summary", "Tokenizer", "convert", "load_tokenizer"]


def convert(
    store: str | os.PathLike[str],
    sources: Mapping[str, Patterns] | Patterns,
    split: str = "train",
    tokenizer: str | os.PathLike[str] = "bytes",
    *,
    text_field: str = "text",
    language_field: str | None = None,
    begin_token: str | int | None = None,
    end_token: str | int | None = None,
    skip_bad: bool = False,
    replace: bool = False,
    zarr_format: int = 3,
    compression: Compression = "fast",
    batch_documents: int = 1024,
    batch_characters: int = 2**22,
    progress: Progress | None = None,
) -> Summary:
    """Convert documents to the split `split` of each language of the store at `store`, which may be there already.

    sources: {language: a file, a folder, a glob, or a list of these}; or, with `language_field`, just the latter, and
        each record names its language. JSON lines (.jsonl, .json, .ndjson) or plain text (.txt, a file is a document).
        A folder stands for all files in it and below; links are followed, hidden files and folders passed over.
    tokenizer: "bytes" or the path of a tokenizer.json; begin_token, end_token: see `load_tokenizer`.
    skip_bad: leave out and count broken records, instead of raising.
    replace: write splits that are there anew; each old one stays until the new one is complete, and both are on disk.
    zarr_format: 3, or 2 for readers that know no other; that of the store, where there is one.
    compression: "fast", or "small" for splits that are 15 to 30 % smaller and take nearly twice the CPU time to read;
        it changes no digest.
    batch_documents, batch_characters: what is tokenized at once; bounds memory and changes no content.
    progress: called with ("checking" or "converting", bytes read, bytes in all).

    Raises ConvertError, a ValueError, before anything is written where that is possible; OSError for what cannot be
    read or written. A split whose conversion ends with an error is left incomplete, and readers refuse it; one that was
    to be replaced stays as it was. A split that another process is writing is refused.
    """
    for name, value in (("batch_documents", batch_documents), ("batch_characters", batch_characters)):
        if isinstance(value, bool) or value < 1:
            raise ConvertError(f"{name} must be an integer of at least 1, not {value}")
    report = progress or (lambda stage, done, total: None)
    loaded = load_tokenizer(tokenizer, begin_token, end_token)
    fields = Fields(text_field, language_field)
    path = os.fspath(store)
    plan = make_plan(
        path,
        sources,
        split,
        loaded,
        fields,
        skip_bad=skip_bad,
        replace=replace,
        zarr_format=zarr_format,
        compression=compression,
        progress=report,
    )

    total, done = sum(part.source.size for part in plan.parts), 0
    report("converting", 0, total)
    languages: list[LanguageSummary] = []
    for part in plan.parts:
        languages += write_part(
            plan,
            part,
            batch_documents,
            batch_characters,
            lambda read, done=done: report("converting", done + read, total),
        )
        done += part.source.size
    report("converting", total, total)
    examples = [message for part in plan.parts for message in part.bad.examples]
    bad = sum(part.bad.count for part in plan.parts)
    return Summary(path, split, loaded.identity, tuple(languages), bad, tuple(examples))
