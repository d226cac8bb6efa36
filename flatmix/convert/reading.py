"""input -> stretches, records and tokens, whatever its kind: the one list of kinds and their readers."""

from collections.abc import Iterator
from itertools import islice

from flatmix.convert import imports, lines
from flatmix.convert.inputs import Cut, Fields, Input, Record, TokenRun
from flatmix.convert.lines import check_fields
from flatmix.errors import ConvertError

LINES = lines.KINDS
PEEKED = 100  # records of an input that are looked at before any work


def holds_tokens(found: Input) -> bool:
    """Whether it is read with `read_tokens`; any other is read with `read_records`."""
    return found.kind in imports.KINDS


def cut(found: Input, size: int) -> list[Cut]:
    """Stretches of about `size` bytes, which together are the input; at least one."""
    if holds_tokens(found):
        return [Cut(*one) for one in imports.cut(found, size)]
    return _reader(found).cut(found, size)


def read_records(found: Input, start: int, stop: int | None, fields: Fields, skip: int) -> Iterator[Record]:
    """All records of the stretch [start, stop) but the first `skip`; ReadError where it cannot be read to its end."""
    return _reader(found).read_records(found, start, stop, fields, skip)


def read_tokens(found: Input, start: int, stop: int | None, skip: int) -> Iterator[TokenRun]:
    """The documents of the stretch [start, stop) but the first `skip`; ReadError, ConvertError as in `imports`."""
    return imports.read_tokens(found, start, stop, skip)


def _reader(found: Input):
    if found.kind in LINES:
        return lines
    from flatmix.convert import tables  # here: they need packages that lines do not

    return tables


def place_of(found: Input, number: int) -> str:
    """Where record `number`, counted from 0, stands, in words; lines are counted from 1, as editors do."""
    if found.kind == "text":
        return found.path
    if found.kind == "json-lines":
        return f"{found.path}, line {number + 1}"
    where = found.path if found.kind in ("parquet", "saved") or holds_tokens(found) else found.name
    return f"{where}, {'document' if holds_tokens(found) else 'row'} {number} (counted from 0)"


def check_readable(found: Input, fields: Fields) -> None:
    """ConvertError where none of the first records of an input is a document: it is then of another form.

    Also for fields that cannot be, and columns that are not there. ReadError where it cannot be read. Files of tokens
    were checked when they were found.
    """
    if holds_tokens(found):
        return
    check_fields(fields)
    if found.kind not in LINES:
        _reader(found).check_columns(found, fields)
    first: tuple[int, str] | None = None
    seen = 0
    for number, record in enumerate(islice(read_records(found, 0, None, fields, 0), PEEKED)):
        if record.text is not None:
            return
        seen += record.problem is not None
        if first is None and record.problem is not None:
            first = number, record.problem
    if first is not None:
        count = f"none of its first {seen} records" if seen > 1 else "not its only record"
        raise ConvertError(f"{place_of(found, first[0])}: {first[1]} ({count} can be converted)")
