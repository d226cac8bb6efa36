"""what a user asks for -> a job: all that can be known before the first token is made.

Names and settings are checked, inputs found, the store and the tokenizer looked at, and the first records of each input
read: an input none of whose first records is a document is of another form. A record that is bad further on is known
only when it is reached; it is counted there, and ends nothing.
"""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec

from flatmix.convert.checks import check_apart
from flatmix.convert.find import ReadOptions, Source, find_source
from flatmix.convert.hold_out import check_hold_out
from flatmix.convert.inputs import Fields
from flatmix.convert.job import Job, JobSource, Sizes, splits_of
from flatmix.convert.reading import check_readable, holds_tokens
from flatmix.convert.staging import staging_root
from flatmix.convert.tokenizer import Tokenizer, load_tokenizer
from flatmix.errors import ConvertError
from flatmix.store import local_folder
from flatmix.store.format import Compression, check_compression, check_name, check_zarr_format

Patterns = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
_PEEKS = 16  # inputs that are looked at together; what takes time is a remote one's answer


class SourceSpec(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What goes to one split.

    language, or language_field: the language of all, or the field of each record that names it. data: files, folders,
    globs, addresses, or "hf:NAME:CONFIG:SPLIT". tokens: what files of tokens do not say of themselves,
    {"format", "type", "document_end", "document_start"}. download: whether a data set of the hub is downloaded first,
    and not streamed.
    """

    data: str | list[str]
    language: str | None = None
    language_field: str | None = None
    split: str = "train"
    text_field: str = "text"
    tokens: dict[str, Any] | None = None
    download: bool = False


def source_specs(
    sources: Mapping[str, Patterns] | Patterns | Sequence[SourceSpec],
    split: str,
    *,
    text_field: str,
    language_field: str | None,
    tokens: dict[str, Any] | None,
    download: bool,
) -> list[SourceSpec]:
    """Any form of sources, as specs; a key of a mapping is a language, or "language/split"."""
    common = {"text_field": text_field, "tokens": tokens, "download": download}
    if isinstance(sources, Mapping):
        if language_field is not None:
            raise ConvertError("give either languages with their files or a field that names the language, not both")
        specs = []
        for name, patterns in sources.items():
            language, slash, own = name.partition("/")
            data = _as_list(patterns)
            specs.append(SourceSpec(data=data, language=language, split=own if slash else split, **common))
        return specs
    if not isinstance(sources, str | os.PathLike) and any(isinstance(one, SourceSpec) for one in sources):
        return list(sources)
    if language_field is None:
        raise ConvertError(f"which language is {sources}? Name it, or the field of each record that names it")
    return [SourceSpec(data=_as_list(sources), language_field=language_field, split=split, **common)]


def make_job(
    store: str | os.PathLike[str],
    specs: Sequence[SourceSpec],
    tokenizer: str | os.PathLike[str] | None,
    begin_token: str | int | None,
    end_token: str | int | None,
    *,
    hold_out: Mapping[str, float],
    strict: bool,
    replace: bool,
    zarr_format: int,
    compression: Compression,
    staging: str | None,
    sizes: Sizes,
) -> Job:
    """Check everything that costs little. Raises ConvertError, ReadError; writes nothing."""
    check_zarr_format(zarr_format)
    check_compression(compression)
    shares = check_hold_out(hold_out)
    if not specs:
        raise ConvertError("nothing to convert: name at least one language and its files")
    _check_targets(specs, shares)
    folder = os.path.abspath(local_folder(store))  # noqa: PTH100
    ours = {os.path.realpath(path) for path in (folder, staging_root(folder))}  # what a run leaves is no input
    found = [_find(spec, ours) for spec in specs]
    check_apart(found, os.fspath(store), staging)
    loaded = _tokenizer(found, tokenizer, begin_token, end_token)
    inputs = [(one, source.fields) for source in found for one in source.inputs]
    with ThreadPoolExecutor(_PEEKS, "flatmix-peek") as pool:
        for _ in pool.map(lambda one: check_readable(*one), inputs):
            pass
    return Job(
        store=folder,
        sources=tuple(JobSource(one.language, one.split, one.data, one.fields, one.inputs) for one in found),
        tokenizer=None if loaded is None else loaded.spec,
        identity=None if loaded is None else loaded.identity,
        begin=None if loaded is None else loaded.begin,
        end=None if loaded is None else loaded.end,
        hold_out=shares,
        zarr_format=zarr_format,
        compression=compression,
        strict=strict,
        replace=replace,
        sizes=sizes,
    )


def _check_targets(specs: Sequence[SourceSpec], shares: Mapping[str, float]) -> None:
    seen: set[tuple[str, str]] = set()
    for spec in specs:
        check_name("split", spec.split)
        if (spec.language is None) == (spec.language_field is None):
            given = "both" if spec.language is not None else "neither"
            raise ConvertError(f"{spec.data}: give a language or a field that names it; {given} is given")
        if spec.split in shares:
            raise ConvertError(f"the split {spec.split!r} is given, and is to be held out as well; call one otherwise")
        if spec.language is not None:
            check_name("language", spec.language)
            for split in splits_of(spec.split, shares):
                if (spec.language, split) in seen:
                    problem = "is named twice" if split == spec.split else "would be held out of two splits"
                    raise ConvertError(f"{spec.language}/{split} {problem}; name all its files in one place")
                seen.add((spec.language, split))


def _find(spec: SourceSpec, passed: set[str]) -> Source:
    fields = Fields(spec.text_field, spec.language_field)
    patterns = _as_list(spec.data)
    return find_source(spec.language, spec.split, patterns, fields, ReadOptions(spec.download, spec.tokens), passed)


def _as_list(patterns: Patterns) -> list[str]:
    given = [patterns] if isinstance(patterns, (str, os.PathLike)) else list(patterns)
    if not given:
        raise ConvertError("nothing to convert: no files were named")
    return [os.fspath(one) for one in given]


def _tokenizer(
    sources: Sequence[Source], given: str | os.PathLike[str] | None, begin: str | int | None, end: str | int | None
) -> Tokenizer | None:
    """The tokenizer of all texts, the built-in one unless another is given; None where all input is tokens already."""
    tokens = [found for source in sources for found in source.inputs if holds_tokens(found)]
    if tokens and (begin is not None or end is not None):
        raise ConvertError(f"{tokens[0].path} holds tokens already, and no token is added to them")
    texts = any(not holds_tokens(found) for source in sources for found in source.inputs)
    if given is None and tokens and texts:
        raise ConvertError(
            f"{tokens[0].path} holds tokens already, and other input is text: name the tokenizer that made them"
        )
    if given is None and tokens:
        return None
    return load_tokenizer("bytes" if given is None else given, begin, end)
