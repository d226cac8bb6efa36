"""table of Arrow -> Records: two columns of strings, read as bytes and decoded one by one.

Neither Parquet nor Arrow looks at the bytes of a string, and a whole batch of strings cannot be had while one of them
is no UTF-8. So they are taken for bytes, which costs no copy, and a broken one is a problem of its own row. The
libraries are loaded when they are first needed: they come with the extra `hf`.
"""

import importlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from flatmix.convert.inputs import Fields, Record, language_problem
from flatmix.errors import ConvertError, ReadError

_STRINGS = ("string", "large_string", "string_view")


def load_library(name: str) -> Any:
    """The module `name`. ImportError with the extra that brings it where it is not there."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(
            f"reading tables and data sets needs the library {name.split('.')[0]} (pip install 'flatmix[hf]'): {error}"
        ) from error


def names_of(fields: Fields) -> list[str]:
    """The columns that are read."""
    return [fields.text] if fields.language is None else [fields.text, fields.language]


def check_schema(schema: Any, fields: Fields, where: str) -> None:
    """ConvertError unless each column that `fields` names is there, once, and holds strings."""
    for role, name in zip(("text", "language"), names_of(fields), strict=False):
        types = [column.type for column in schema if column.name == name]
        if len(types) == 1 and _holds_strings(types[0]):
            continue
        there = ", ".join(f"{column.name!r} ({column.type})" for column in schema) or "none"
        if not types:
            problem = f"there is no column {name!r}"
        elif len(types) > 1:
            problem = f"there are {len(types)} columns {name!r}"
        else:
            problem = f"the column {name!r} holds no strings but {types[0]}"
        raise ConvertError(f"{where}: {problem}; name the column of the {role}; the columns are {there}")


def records_of(table: Any, fields: Fields, ends: Sequence[int]) -> Iterator[Record]:
    """The rows of a table, or of a batch of one, as records that end at `ends`."""
    texts = _decoded(table, fields.text)
    if fields.language is None:
        for end, (text, problem) in zip(ends, texts, strict=True):
            yield Record(end, None, text, problem)
        return
    for end, (text, problem), (language, other) in zip(ends, texts, _decoded(table, fields.language), strict=True):
        problem = problem or other or language_problem(str(language))
        yield Record(end, None, None, problem) if problem else Record(end, language, text)


def _decoded(table: Any, name: str) -> Iterator[tuple[str | None, str | None]]:
    """Each value of a column, or why there is none."""
    at = table.schema.get_field_index(name)
    if at < 0:
        yield from [(None, f"there is no column {name!r}")] * table.num_rows
        return
    column = table.column(at)
    if not _holds_strings(column.type) and str(column.type) != "null":
        yield from [(None, f"its column {name!r} holds no string but {column.type}")] * table.num_rows
        return
    for raw in column.cast("large_binary").to_pylist():
        if raw is None:
            yield None, f"its column {name!r} is null"
            continue
        try:
            yield raw.decode(), None
        except UnicodeDecodeError as error:
            byte = f"byte {raw[error.start]:#04x} at byte {error.start}"
            yield None, f"its column {name!r} is not UTF-8: {byte} ({error.reason})"


def _holds_strings(kind: Any) -> bool:
    """Whether a column of this type has strings, each written out or by its number in a dictionary."""
    return str(getattr(kind, "value_type", kind) if str(kind).startswith("dictionary<") else kind) in _STRINGS


@contextmanager
def failing(message: str) -> Iterator[None]:
    """Errors of a library, of many kinds, as ReadError with words that say what was read."""
    try:
        yield
    except (ConvertError, ReadError):
        raise
    except Exception as error:
        raise ReadError(f"{message}: {type(error).__name__}: {error}") from error


def each(tables: Iterable[Any], where: str, row: int) -> Iterator[Any]:
    """`tables`, the first of which begins at `row`; ReadError, with the rows that came before, where they break off."""
    source = iter(tables)
    while True:
        with failing(f"{where} cannot be read to its end, only up to row {row} (counted from 0)"):
            table = next(source, None)
        if table is None:
            return
        row += table.num_rows
        yield table
