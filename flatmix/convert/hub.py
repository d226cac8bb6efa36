"""name of a data set of the Hugging Face hub -> inputs: streamed part by part, or downloaded once and read in rows.

A name is looked up once, and from then on its commit is read and no other: by each worker, and by a run that goes on
later. A folder on this machine may stand for a name, and has no commit. It is always streamed: the library's cache
would take a folder for any other of the same name.
"""

import hashlib
import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flatmix.convert.columns import check_schema, each, failing, load_library, names_of
from flatmix.convert.inputs import Fields, Input
from flatmix.errors import ConvertError, ReadError

STREAM, ROWS = "hub-stream", "hub-rows"
PREFIX = "hf:"
_BATCH = 256  # rows of a stream that are decoded at once
_COMMIT = re.compile("[0-9a-f]{40}")


class Named(NamedTuple):
    """A split of a data set."""

    name: str
    config: str | None
    split: str
    revision: str | None = None  # the commit; None for a folder

    def __str__(self) -> str:
        return f"{PREFIX}{self.name}:{self.config or ''}:{self.split}"


def find_hub(spec: str, split: str, fields: Fields, download: bool) -> list[Input]:
    """The parts of the data set "hf:NAME[:CONFIG[:SPLIT]]", `split` unless it names one, in their sequence.

    download: fetch all of it now into the cache of the library, instead of streaming it while it is read; a folder is
    streamed all the same.

    Raises ConvertError for a data set, configuration, split or column that is not there, ReadError where the hub cannot
    be reached or what it has cannot be read.
    """
    named = _parse(spec, split)
    builder = _build(named, spec)
    is_folder = Path(named.name).is_dir()
    if _COMMIT.fullmatch(str(builder.hash)) and not is_folder:
        named = named._replace(revision=str(builder.hash))
        builder = _build(named, spec)
    stream = _stream_of(builder, named, spec)
    schema = _schema_of(stream, spec)
    if schema is not None:
        check_schema(schema, fields, spec)
    base = "/".join(filter(None, [_base(named), named.config, named.split]))
    if download and not is_folder:
        return _downloaded(builder, named, base, spec)
    shards = max(1, stream.num_shards)
    names = _part_names(base, shards)
    stamp = _stamp_of_folder(builder, named.split) if is_folder else builder.hash
    options = {**named._asdict(), "shards": shards}
    return [
        Input(path=str(named), name=name, kind=STREAM, size=0, stamp=stamp, options={**options, "shard": shard})
        for shard, name in enumerate(names)
    ]


def read_stream(found: Input, fields: Fields, skip: int) -> Iterator[tuple[Any, list[int]]]:
    """Tables of all rows of a part but the first `skip`, and for each row the bytes of those up to its end."""
    shard, shards = found.options["shard"], found.options["shards"]
    named = Named(**{key: found.options[key] for key in Named._fields})
    with failing(f"{found.name} cannot be opened"):
        stream = _pinned_stream(named) if named.revision else _open_stream(named)
        if max(1, stream.num_shards) != shards:
            raise ReadError(
                f"{found.name}: the data set has {stream.num_shards} parts and had {shards}: it was changed"
            )
        stream = stream.shard(shards, shard) if shards > 1 else stream
        if stream.features is not None:  # what else is there, pictures perhaps, is not decoded
            stream = stream.select_columns(names_of(fields))
        tables = stream.skip(skip).with_format("arrow").iter(_BATCH)
    passed = 0
    for table in each(tables, found.name, skip):
        ends = passed + np.linspace(0, table.nbytes, table.num_rows + 1)[1:].astype(np.int64)
        yield table, ends.tolist()
        passed += table.nbytes


def _downloaded(builder: Any, named: Named, base: str, spec: str) -> list[Input]:
    """The files of the cache that hold the split, after fetching what is not there yet."""
    datasets = load_library("datasets")
    with failing(f"{spec} cannot be downloaded"):
        builder.download_and_prepare()
        files = [file["filename"] for file in builder.as_dataset(split=named.split).cache_files]
        rows = [datasets.Dataset.from_file(file).num_rows for file in files]
    if not files:
        raise ConvertError(f"{spec}: split {named.split!r} has no rows")
    return [
        Input(
            path=file,
            name=name,
            kind=ROWS,
            size=Path(file).stat().st_size,
            stamp=builder.hash,
            options={**named._asdict(), "rows": count},
        )
        for file, name, count in zip(files, _part_names(base, len(files)), rows, strict=True)
    ]


def _parse(spec: str, split: str) -> Named:
    name, config, own = [*spec.removeprefix(PREFIX).split(":", 2), "", ""][:3]
    if not spec.startswith(PREFIX) or not name:
        raise ConvertError(f"{spec!r} names no data set; write hf:NAME, hf:NAME:CONFIG or hf:NAME:CONFIG:SPLIT")
    return Named(os.path.abspath(name) if Path(name).is_dir() else name, config or None, own or split)  # noqa: PTH100


def _base(named: Named) -> str:
    """What the store keeps of the name: of a folder not where it lies."""
    return Path(named.name).name if Path(named.name).is_dir() else named.name


def _stamp_of_folder(builder: Any, split: str) -> str:
    """What differs when the files of a split do: the times of their last change."""
    files = (builder.config.data_files or {}).get(split)
    return "" if files is None else hashlib.sha256(repr(files.origin_metadata).encode()).hexdigest()[:16]


def _part_names(base: str, count: int) -> list[str]:
    return [base] if count == 1 else [f"{base}/{number:05}-of-{count:05}" for number in range(count)]


def _build(named: Named, spec: str) -> Any:
    """What knows the files of a data set. ConvertError where there is none, ReadError where that cannot be known."""
    datasets = load_library("datasets")
    try:
        return datasets.load_dataset_builder(named.name, named.config, revision=named.revision)
    except Exception as error:  # of many kinds
        raise _failure(spec, error) from error


def _stream_of(builder: Any, named: Named, spec: str) -> Any:
    try:
        splits = builder.as_streaming_dataset()
    except Exception as error:
        raise _failure(spec, error) from error
    if named.split not in splits:
        there = ", ".join(map(repr, splits)) or "none"
        raise ConvertError(
            f"{spec}: there is no split {named.split!r}; the data set has {there}: name one, as in hf:NAME:CONFIG:SPLIT"
        )
    return splits[named.split]


def _schema_of(stream: Any, spec: str) -> Any:
    """The columns; of some data sets they are not known before a row is read. None where there is no row."""
    if stream.features is not None:
        return stream.features.arrow_schema
    with failing(f"{spec}: its first row cannot be read"):
        table = next(iter(stream.with_format("arrow").iter(1)), None)
    return None if table is None else table.schema


def _open_stream(named: Named) -> Any:
    return _stream_of(_build(named, str(named)), named, str(named))


_pinned_stream = lru_cache(maxsize=4)(_open_stream)  # a commit does not change, and each part would ask for it anew


def _failure(spec: str, error: Exception) -> ConvertError | ReadError:
    """Why a data set cannot be opened: there is none such, or the hub did not say."""
    said = f"{type(error).__name__}: {error}"
    if isinstance(error, (ValueError, FileNotFoundError, RuntimeError)):
        return ConvertError(f"{spec} cannot be used: {said}")
    return ReadError(f"{spec} cannot be opened: {said} (check the network, or name a folder with a copy)")
