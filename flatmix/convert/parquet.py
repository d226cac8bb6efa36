"""Parquet file -> batches of rows: a stretch of them, only the columns that are needed, a few megabytes at a time.

Whoever begins in the middle of a row group decodes what lies before it there, which is quick beside the work on the
text. From far away all that would be fetched as well, so there a group stays whole.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from flatmix.convert.columns import check_schema, each, failing, load_library, names_of
from flatmix.convert.inputs import Cut, Fields, Input
from flatmix.convert.layout import Layout, batch_rows, cut_rows
from flatmix.convert.places import file_system_of, is_remote, size_and_stamp
from flatmix.errors import ReadError

KIND = "parquet"
_BUFFER = 2**20  # bytes of a column that are fetched at once


def find_parquet(path: str, name: str) -> Input:
    """The file at a path or an address, called `name` in the store. ReadError where it cannot be read as Parquet."""
    path = path if is_remote(path) else os.path.abspath(path)  # noqa: PTH100  links keep their names
    size, stamp = size_and_stamp(path)
    with _opened(path) as file:
        return Input(path=path, name=name, kind=KIND, size=size, stamp=stamp, options={"rows": file.metadata.num_rows})


def check_parquet(found: Input, fields: Fields) -> None:
    """ConvertError unless the columns that `fields` names are there and hold strings."""
    with _opened(found.path) as file:
        check_schema(file.schema_arrow, fields, found.path)


def cut_parquet(found: Input, size: int) -> list[Cut]:
    """Stretches of about `size` bytes, in rows; at an address of at least a row group."""
    with _opened(found.path) as file:
        return cut_rows(_layout(file.metadata), size, whole=is_remote(found.path))


def read_parquet(
    found: Input, start: int, stop: int | None, fields: Fields, skip: int
) -> Iterator[tuple[Any, list[int]]]:
    """Batches of the rows [start + skip, stop), and for each row the bytes of the stretch up to its end."""
    with _opened(found.path) as file:
        check_schema(file.schema_arrow, fields, found.path)
        layout = _layout(file.metadata)
        stop = layout.rows if stop is None else stop
        if stop > layout.rows:
            raise ReadError(f"{found.path} has {layout.rows} rows and had {stop} at least: it was changed")
        row = start + skip
        if row >= stop:
            return
        begin = int(layout.bytes_before(start, start + 1)[0])
        for batch in _batches(file, layout, row, stop, names_of(fields), found.path):
            ends = layout.bytes_before(row + 1, row + 1 + batch.num_rows) - begin
            yield batch, ends.tolist()
            row += batch.num_rows
        if row != stop:
            raise ReadError(f"{found.path} says that it has {layout.rows} rows, and ends after row {row}")


def _batches(file: Any, layout: Layout, start: int, stop: int, columns: list[str], path: str) -> Iterator[Any]:
    """The rows [start, stop), out of the row groups that hold them."""
    first = int(np.searchsorted(layout.row_ends, start, "right")) - 1
    last = int(np.searchsorted(layout.row_ends, stop, "left"))
    groups = [file.metadata.row_group(number) for number in range(first, last)]
    size = min(batch_rows(group.num_rows, group.total_byte_size) for group in groups if group.num_rows)
    with failing(f"{path} cannot be read from row {start} on"):
        source = file.iter_batches(size, row_groups=list(range(first, last)), columns=columns, use_threads=False)
    row = int(layout.row_ends[first])
    for batch in each(source, path, row):
        before, row = row, row + batch.num_rows
        if row > start:
            skipped = max(0, start - before)
            yield batch.slice(skipped, min(row, stop) - before - skipped)
        if row >= stop:
            return


def _layout(metadata: Any) -> Layout:
    """The ends of the row groups, in rows and in bytes as they lie on disk."""
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    rows = [group.num_rows for group in groups]
    sizes = [sum(group.column(at).total_compressed_size for at in range(group.num_columns)) for group in groups]
    return Layout(np.cumsum([0, *rows]), np.cumsum([0, *sizes]))


@contextmanager
def _opened(path: str) -> Iterator[Any]:
    """The file, opened by a library that must not read ahead: it would hold whole row groups."""
    library = load_library("pyarrow.parquet")
    with failing(f"{path} cannot be opened"):
        source = _open_bytes(path)
    with source:
        with failing(f"{path} cannot be read as a Parquet file; it was cut, or is another kind of file"):
            file = library.ParquetFile(source, buffer_size=_BUFFER, pre_buffer=False, page_checksum_verification=True)
        with file:
            yield file


def _open_bytes(path: str) -> BinaryIO | Any:
    if not is_remote(path):
        return Path(path).open("rb")
    file_system, inside = file_system_of(path)
    return file_system.open(inside, "rb")
