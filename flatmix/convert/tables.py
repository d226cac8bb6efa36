"""table -> records, in rows: Parquet files, data sets that `save_to_disk` wrote, and those of the Hugging Face hub.

What is on this machine is read by whoever has the time, stretch by stretch; a stream of the hub, or of each of its
parts, has no place to begin but its start.
"""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from flatmix.convert import hub
from flatmix.convert.columns import check_schema, each, failing, load_library, names_of, records_of
from flatmix.convert.inputs import Cut, Fields, Input, Record
from flatmix.convert.layout import batch_rows, cut_rows, even_layout
from flatmix.convert.parquet import KIND as PARQUET
from flatmix.convert.parquet import check_parquet, cut_parquet, find_parquet, read_parquet
from flatmix.errors import ConvertError, ReadError

__all__ = ["KINDS", "check_columns", "cut", "find_parquet", "find_saved", "is_saved", "read_records"]

SAVED = "saved"
KINDS = (PARQUET, SAVED, hub.STREAM, hub.ROWS)


def is_saved(path: str) -> bool:
    """Whether `save_to_disk` wrote this folder: one data set, or several as splits."""
    one = all(Path(path, name).is_file() for name in ("state.json", "dataset_info.json"))
    return one or Path(path, "dataset_dict.json").is_file()


def find_saved(path: str, split: str) -> list[Input]:
    """What was saved in a folder: its split `split` where it has splits, all of it where it has none.

    ConvertError where there is no such split or no row, ReadError for a folder that cannot be read.
    """
    folder = Path(os.path.abspath(path))  # noqa: PTH100  links keep their names
    name = folder.name
    if (folder / "dataset_dict.json").is_file():
        splits = _read_json(folder / "dataset_dict.json", "splits")
        if split not in splits:
            there = ", ".join(map(repr, splits)) or "none"
            raise ConvertError(f"{path}: there is no split {split!r} in this saved data set; its splits are {there}")
        folder, name = folder / split, f"{name}/{split}"
    with failing(f"{folder} cannot be read as a saved data set"):
        files = [folder / file["filename"] for file in _read_json(folder / "state.json", "_data_files")]
        size = sum(file.stat().st_size for file in files)
        stamp = str(_read_json(folder / "state.json", "_fingerprint"))
    if not files:  # the library itself cannot open such a one
        raise ConvertError(f"{folder}: this saved data set has no rows; leave it out")
    found = Input(path=str(folder), name=name, kind=SAVED, size=size, stamp=stamp)
    return [msgspec.structs.replace(found, options={"rows": _open_rows(found).num_rows})]


def check_columns(found: Input, fields: Fields) -> None:
    """ConvertError, with the columns that are there, unless those that `fields` names are, and hold strings.

    Reads no rows. The hub's were checked when they were found.
    """
    if found.kind == PARQUET:
        check_parquet(found, fields)
    elif found.kind == SAVED:
        check_schema(_open_rows(found).data.schema, fields, found.path)


def cut(found: Input, size: int) -> list[Cut]:
    """Stretches of about `size` bytes, in rows; at least one, and a stream is one."""
    if found.kind == hub.STREAM:
        return [Cut(0, None, found.size)]
    if found.kind == PARQUET:
        return cut_parquet(found, size)
    return cut_rows(even_layout(found.options["rows"], found.size), size, whole=False)


def read_records(found: Input, start: int, stop: int | None, fields: Fields, skip: int) -> Iterator[Record]:
    """All rows of the stretch [start, stop) but the first `skip`, those with a problem too.

    ReadError where they cannot be read to the end; ConvertError where a column is not there at all.
    """
    if found.kind == hub.STREAM:
        tables = hub.read_stream(found, fields, skip)
    elif found.kind == PARQUET:
        tables = read_parquet(found, start, stop, fields, skip)
    else:
        tables = _read_rows(found, start, stop, fields, skip)
    for table, ends in tables:
        yield from records_of(table, fields, ends)


def _read_rows(
    found: Input, start: int, stop: int | None, fields: Fields, skip: int
) -> Iterator[tuple[Any, list[int]]]:
    """Tables of the rows [start + skip, stop), and for each row the bytes of the stretch up to its end."""
    data, rows = _open_rows(found), found.options["rows"]
    check_schema(data.data.schema, fields, found.path)
    if data.num_rows != rows:
        raise ReadError(f"{found.path} has {data.num_rows} rows and had {rows}: it was changed")
    data = data.select_columns(names_of(fields)).with_format("arrow")
    stop = rows if stop is None else stop
    layout, size = even_layout(rows, found.size), batch_rows(rows, found.size)
    begin = int(layout.bytes_before(start, start + 1)[0])
    slices = (data[row : min(row + size, stop)] for row in range(start + skip, stop, size))
    row = start + skip
    for table in each(slices, found.path, row):
        yield table, (layout.bytes_before(row + 1, row + 1 + table.num_rows) - begin).tolist()
        row += table.num_rows


def _open_rows(found: Input) -> Any:
    """The `datasets.Dataset` in a saved folder or in one file of the cache, mapped and not read."""
    datasets = load_library("datasets")
    with failing(f"{found.path} cannot be read as a saved data set"):
        return datasets.load_from_disk(found.path) if found.kind == SAVED else datasets.Dataset.from_file(found.path)


def _read_json(file: Path, key: str) -> Any:
    with failing(f"{file} cannot be read"):
        return json.loads(file.read_bytes())[key]
