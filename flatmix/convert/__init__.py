"""documents -> store, in parallel and restartable; the same input gives the same store, to the bit, whoever makes it.

    names --find--> inputs --job--> units --work--> parts --outputs--> places --assemble--> shards --publish--> splits

Read `plan` (what is checked before any work), `job` (what is done, and its division), `work` (what a worker does
with a unit), `outputs` and `assemble` (how the shards come of that), and `publish`. What reads the kinds of input is
listed in `reading`. Nothing travels between processes but files in the staging folder (`staging`), so whoever is
killed, the same call goes on with what is there.
"""

import os
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from flatmix.convert.checks import check_case, check_output
from flatmix.convert.engine import Backend, Engine
from flatmix.convert.job import LARGEST_UNIT, Job, Sizes, key
from flatmix.convert.outputs import gather, save_layouts
from flatmix.convert.parts import written_whole
from flatmix.convert.plan import Patterns, SourceSpec, make_job, source_specs
from flatmix.convert.publish import published, write_outputs
from flatmix.convert.staging import SUMMARY, Staging, open_staging, staging_root
from flatmix.convert.summary import EmptyInputError, LanguageSummary, Summary
from flatmix.convert.survey import Progress, Survey
from flatmix.convert.tokenizer import Tokenizer, load_tokenizer
from flatmix.convert.work import convert_unit
from flatmix.store.format import Compression

__all__ = [
    "EmptyInputError",
    "LanguageSummary",
    "Progress",
    "SourceSpec",
    "Summary",
    "Tokenizer",
    "convert",
    "load_tokenizer",
]


def convert(
    store: str | os.PathLike[str],
    sources: Mapping[str, Patterns] | Patterns | Sequence[SourceSpec],
    split: str = "train",
    tokenizer: str | os.PathLike[str] | None = None,
    *,
    text_field: str = "text",
    language_field: str | None = None,
    begin_token: str | int | None = None,
    end_token: str | int | None = None,
    tokens: dict[str, Any] | None = None,
    download: bool = False,
    hold_out: Mapping[str, float] | None = None,
    strict: bool = False,
    replace: bool = False,
    zarr_format: int = 3,
    compression: Compression = "fast",
    workers: int | None = None,
    backend: Backend = "local",
    address: str | None = None,
    staging: str | os.PathLike[str] | None = None,
    restart: bool = False,
    progress: Callable[[Progress], None] | None = None,
    sizes: Sizes | None = None,
) -> Summary:
    """Convert documents to splits of the store at `store`, which may be there already.

    sources: {language: a file, a folder, a glob, an address, a data set "hf:NAME:CONFIG:SPLIT", or a list of these},
        for the split `split`, or with "language/split" as the key; or, with `language_field`, just the latter, and
        each record names its language; or a list of `SourceSpec`.
    tokenizer: see `load_tokenizer`; "bytes" when not given, and none where all input is tokens already. begin_token,
        end_token: put before, or after, every document.
    tokens: what files of tokens do not say of themselves: "format", "type", "document_end", "document_start".
    download: download data sets of the hub first, instead of streaming them.
    hold_out: {split: share}: documents that go there instead, by a hash of their content.
    strict: the first bad record ends the run. Otherwise it is counted, and its place reported.
    replace: write splits that are there anew; each old one stays until the new one is complete.
    zarr_format: 3, or 2 for readers that know no other; that of the store, where there is one.
    compression: "fast", or "small" for splits that are 15 to 30 % smaller and take nearly twice the CPU time to read;
        it changes no digest.
    workers: processes of this machine, or at most so many of a cluster; None for what suits the work.
    backend, address: "local", or "dask" or "ray" and where its scheduler is. The store, the staging folder and the
        input must then be at the same paths everywhere.
    staging: a folder for what is made until it is written to the store, about as much as that takes; None for
        "STORE.staging" beside it. It is removed at the end.
    restart: drop what an interrupted conversion of the same splits has left, and begin anew.
    progress: called from another thread with how far it is, about once a second.
    sizes: how the work is divided; changes no content.

    What an interrupted call has done, the same call goes on with. Raises ConvertError, a ValueError, before any work
    where that is possible, and EmptyInputError, one of them, at the end where a language had no document; ReadError
    for input that cannot be read to its end; OSError for what cannot be written, and for a worker that was lost. No
    split is there before it is complete.
    """
    begun = time.perf_counter()
    engine = Engine(workers, backend, address)
    specs = source_specs(
        sources, split, text_field=text_field, language_field=language_field, tokens=tokens, download=download
    )
    job = make_job(
        store,
        specs,
        tokenizer,
        begin_token,
        end_token,
        hold_out=hold_out or {},
        strict=strict,
        replace=replace,
        zarr_format=zarr_format,
        compression=compression,
        staging=None if staging is None else os.fspath(staging),
        sizes=sizes or Sizes(),
    )
    folder = staging_root(job.store) / key(job)
    done = {} if restart else published(folder)
    _check_targets(job, sorted((language, one) for language, one in job.targets() if language is not None), done)
    with open_staging(job, None if staging is None else os.fspath(staging), restart) as held:
        summary = _finished(held) or _run(held, engine, progress or (lambda _: None))
        held.clear()
    summary = msgspec.structs.replace(summary, seconds=time.perf_counter() - begun)
    if summary.without or not summary.languages:
        raise EmptyInputError(summary)
    return summary


def _check_targets(job: Job, targets: Sequence[tuple[str, str]], done: Mapping[str, str]) -> None:
    """Of the splits that this job has not completed itself."""
    left = [(language, split) for language, split in targets if f"{language}/{split}" not in done]
    check_output(job.store, left, job.identity, replace=job.replace, zarr_format=job.zarr_format)


def _run(staging: Staging, engine: Engine, progress: Callable[[Progress], None]) -> Summary:
    job = staging.job
    done = published(staging.folder)
    named = {source.language for source in job.sources}
    known = named - {None}

    def check_languages(found: list[str]) -> None:
        known.update(found)
        check_case("languages", known)
        splits = {split for language, split in job.targets() if language is None}
        _check_targets(job, [(language, split) for language in found for split in sorted(splits)], done)

    survey = Survey(job, progress, check_languages)
    survey.look()
    with survey.watching():
        calls = [(unit,) for unit in range(len(job.units))]
        size = sum(stretch.size or LARGEST_UNIT for unit in job.units for stretch in unit)
        engine.run(str(staging.folder), convert_unit, calls, size, survey.raise_failure)
    survey.look()
    gathered = gather(job)
    save_layouts(staging.folder, gathered)
    written = write_outputs(staging, gathered, engine, survey.wrote)
    found = {output.language for output in gathered.outputs}
    summary = Summary(
        store=job.store,
        tokenizer=job.identity,
        languages=tuple(written),
        bad=sum(gathered.bad.values()),
        bad_examples=tuple(gathered.examples),
        without=tuple(sorted(language for language in named if language is not None and language not in found)),
    )
    with written_whole(staging.folder / SUMMARY) as file:
        file.write(msgspec.json.encode(summary))
    return summary


def _finished(staging: Staging) -> Summary | None:
    """What an earlier run has come to that was killed while it cleared up."""
    path = Path(staging.folder, SUMMARY)
    return msgspec.json.decode(path.read_bytes(), type=Summary) if path.exists() else None
