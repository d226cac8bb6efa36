"""arguments -> plan: all that can be known before the first token is made, so that what is wrong shows at once.

The input is read twice, first to count its documents and to find each broken record, then to convert. The first pass
takes about a hundredth of the time of a tokenizer (a tenth of that of bytes); it is what lets an error in the last
file come before any work is lost, and before an old split is replaced.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from flatmix.convert.records import BadRecords, Fields, read_records, record_decoder
from flatmix.convert.sources import Source, find_source
from flatmix.convert.tokenizer import Tokenizer, describe_tokenizer, same_tokenizer
from flatmix.errors import ConvertError, StoreError
from flatmix.store import local_folder, open_store
from flatmix.store.format import Compression, check_compression, check_name, check_zarr_format
from flatmix.store.locks import is_being_written

Patterns = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
Progress = Callable[[str, int, int], None]  # stage, bytes read, bytes in all


@dataclass(frozen=True)
class Part:
    """One source and what the first pass found in it."""

    source: Source
    documents: dict[str, int]  # by language, in sorted order
    bad: BadRecords


@dataclass(frozen=True)
class Plan:
    """A conversion that was checked and may start."""

    store: str
    split: str
    tokenizer: Tokenizer
    fields: Fields
    decoder: msgspec.json.Decoder
    parts: tuple[Part, ...]
    skip_bad: bool
    replace: bool
    zarr_format: int
    compression: Compression


def make_plan(
    store: str,
    sources: Mapping[str, Patterns] | Patterns,
    split: str,
    tokenizer: Tokenizer,
    fields: Fields,
    *,
    skip_bad: bool,
    replace: bool,
    zarr_format: int,
    compression: Compression,
    progress: Progress,
) -> Plan:
    """Check everything, cheap things first, and count the documents. Raises ConvertError; writes nothing."""
    check_name("split", split)
    check_zarr_format(zarr_format)
    check_compression(compression)
    decoder = record_decoder(fields)
    found = _find_sources(sources, fields)
    named = [source.language for source in found if source.language is not None]
    check_output(store, named, split, tokenizer.identity, replace=replace, zarr_format=zarr_format)
    _check_apart(found, store)
    parts: list[Part] = []
    total, done = sum(source.size for source in found), 0
    for source in found:
        parts.append(
            _count(source, decoder, skip_bad, lambda read, done=done: progress("checking", done + read, total))
        )
        done += source.size
    progress("checking", total, total)
    _check_counts(parts)
    if fields.language is not None:
        languages = list(parts[0].documents)
        check_output(store, languages, split, tokenizer.identity, replace=replace, zarr_format=zarr_format)
    return Plan(store, split, tokenizer, fields, decoder, tuple(parts), skip_bad, replace, zarr_format, compression)


def _find_sources(sources: Mapping[str, Patterns] | Patterns, fields: Fields) -> list[Source]:
    if isinstance(sources, Mapping):
        if fields.language is not None:
            raise ConvertError("give either languages with their files or a field that names the language, not both")
        for language in sources:
            check_name("language", language)
        found = [find_source(language, _as_list(patterns)) for language, patterns in sources.items()]
    else:
        if fields.language is None:
            raise ConvertError(f"which language is {sources}? Name it, or the field of each record that names it")
        found = [find_source(None, _as_list(sources))]
    if not found:
        raise ConvertError("nothing to convert: name at least one language and its files")
    return found


def _check_apart(sources: Sequence[Source], store: str) -> None:
    """Refuses a file of two languages, and a store among its own input: the next conversion would read it."""
    owners: dict[str, str | None] = {}
    root = os.path.realpath(local_folder(store))
    for source in sources:
        for folder in source.folders:
            if Path(root).is_relative_to(folder):
                raise ConvertError(f"the store {store} would lie in {folder}, which is its input; choose another place")
        for file, real in zip(source.files, source.real, strict=True):
            if Path(real).is_relative_to(root):
                raise ConvertError(f"the input {file} lies in the store {store}; choose another place for one of them")
            owner = owners.setdefault(real, source.language)
            if owner != source.language:
                raise ConvertError(
                    f"{file} is named for {owner!r} and for {source.language!r}; a file is of one language, unless its "
                    "records name it"
                )


def _as_list(patterns: Patterns) -> list[str | os.PathLike[str]]:
    given = [patterns] if isinstance(patterns, (str, os.PathLike)) else list(patterns)
    if not given:
        raise ConvertError("nothing to convert: no files were named")
    return given


def _count(source: Source, decoder: msgspec.json.Decoder, skip_bad: bool, report: Callable[[int], None]) -> Part:
    bad = BadRecords(skip_bad)
    documents = {} if source.language is None else {source.language: 0}
    reported = 0
    for record in read_records(source.files, decoder, bad):
        language = source.language if record.language is None else record.language
        documents[language] = documents.get(language, 0) + 1
        if record.end - reported >= 2**24:
            reported = record.end
            report(reported)
    return Part(source, dict(sorted(documents.items())), bad)


def _check_counts(parts: Sequence[Part]) -> None:
    without = [language for part in parts for language, documents in part.documents.items() if documents == 0]
    if without or not any(part.documents for part in parts):
        bad = sum(part.bad.count for part in parts)
        whose = f" of {', '.join(without)}" if without else ""
        skipped = f" (bad records left out: {bad})" if bad else ""
        raise ConvertError(f"the input{whose} holds no document{skipped}; nothing was written")


def check_output(
    store: str,
    languages: Sequence[str],
    split: str,
    tokenizer: dict[str, Any],
    *,
    replace: bool,
    zarr_format: int,
) -> None:
    """Refuse a folder that is not ours, splits that are there, and a store of another tokenizer or version of Zarr.

    Raises ConvertError and touches nothing.
    """
    _check_case("languages", languages)
    folder = local_folder(store)
    _check_writable(folder)
    if not os.path.lexists(folder) or (folder.is_dir() and not any(folder.iterdir())):
        return
    try:
        there = open_store(store)
    except (StoreError, OSError) as error:
        raise ConvertError(f"{store} is there and cannot be added to, nothing in it was touched: {error}") from error
    if there.zarr_format != zarr_format:
        raise ConvertError(
            f"{store} is of Zarr v{there.zarr_format}, and a store is of one version: ask for "
            f"--zarr-format {there.zarr_format}, or choose another store"
        )
    _check_case("languages", {*languages, *there.languages})
    for language in languages:
        # Of all first: what another process has completed is not to be replaced while it goes on with the next.
        if is_being_written(folder / language / split):
            raise ConvertError(
                f"{store}: {language}/{split} is being written by another process; wait until it is done"
            )
    for language in languages:
        splits = there[language].splits if language in there.languages else ()
        _check_case("splits", {split, *splits})
        if language not in there.languages:
            _check_absent(folder / language)
        if split in splits and not replace:
            state = "" if there.status(language, split) == "complete" else ", though not complete"
            raise ConvertError(
                f"{store} has {language}/{split} already{state}; give another --split, or --replace to write it anew"
            )
        if split not in splits:
            _check_absent(folder / language / split)
    for language in there.languages:
        for name in there[language].splits:
            if language not in languages or name != split:  # the others will be replaced
                _check_tokenizer(f"{store}: {language}/{name}", _tokenizer_of(there, language, name), tokenizer)


def _check_writable(folder: Path) -> None:
    """The first folder above, or `folder` itself, that is there must take new files."""
    there = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if not there.is_dir():
        raise ConvertError(f"{there} is a file, and the store is a folder; choose another place")
    if not os.access(there, os.W_OK | os.X_OK):
        raise ConvertError(f"{there} cannot be written to; choose another place, or ask for the right")


def _check_absent(folder: Path) -> None:
    """What lies where a group will be must be nothing, or an empty folder."""
    if os.path.lexists(folder) and not (folder.is_dir() and not any(folder.iterdir())):
        raise ConvertError(f"{folder} is there and is not ours; nothing in it was touched, move it away first")


def _tokenizer_of(store: Any, language: str, split: str) -> dict[str, Any] | None:
    try:
        return store[language][split].tokenizer
    except StoreError:  # not complete: it holds no tokens that could be mixed with others
        return None


def _check_tokenizer(where: str, there: dict[str, Any] | None, ours: dict[str, Any]) -> None:
    if there is not None and not same_tokenizer(there, ours):
        raise ConvertError(
            f"{where} was made with {describe_tokenizer(there)}, this conversion uses {describe_tokenizer(ours)}; "
            "a store holds the tokens of one tokenizer: use the same, or another store"
        )


def _check_case(what: str, names: Iterable[str]) -> None:
    seen: dict[str, str] = {}
    for name in sorted(names):
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            raise ConvertError(f"{what} {other!r} and {name!r} differ only in case, and some file systems hold but one")
