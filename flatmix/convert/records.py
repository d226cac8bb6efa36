"""files -> records (file, number, language, text), in their order.

A JSON line ends at the byte "\\n" and nowhere else: U+2028, U+2029 and U+0085 may stand raw inside a JSON string, and
cutting there would lose the record. So lines are split as bytes and decoded one by one, which is also what lets a
broken one be named, or left out, alone. A plain text file is one record. Costs one line in memory, and about 6 s
per GB.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import msgspec

from flatmix.convert.sources import PLAIN_TEXT
from flatmix.errors import ConvertError
from flatmix.store.format import check_name

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
BLANK = b" \t\r\n"  # JSON's own white space
EXAMPLES = 10  # bad records whose places are kept

# The escapes of a JSON string one by one: of a pair of surrogates, of one that stands alone (the group), any other.
_ESCAPES = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)


class Record(NamedTuple):
    """One document; `number` counts a JSON file's lines from 0, blank and bad ones too, and is 0 for plain text."""

    file: int  # its place among the files
    number: int
    end: int  # bytes of all files up to the end of this record
    language: str | None  # None where the record does not say
    text: str


@dataclass
class BadRecords:
    """What happens to a record that cannot be converted: an error, or with `skip` a count and the first few places."""

    skip: bool = False
    count: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, message: str) -> None:
        if not self.skip:
            raise ConvertError(f"{message} (--skip-bad counts such records and leaves them out)")
        self.count += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(message)


class Fields(NamedTuple):
    """The names of the fields that hold the text and, if records name it, the language."""

    text: str = "text"
    language: str | None = None


def place_of(file: Path, number: int) -> str:
    """Where a record stands, in words."""
    return str(file) if file.suffix.lower() in PLAIN_TEXT else f"{file}, line {number + 1}"


def record_decoder(fields: Fields) -> msgspec.json.Decoder:
    """A decoder of one JSON object into its `text`, a string, and its `language`, a string or None.

    Raises ConvertError for names that no field can have or that are the same.
    """
    if fields.text == fields.language:
        raise ConvertError(f"the text and the language cannot both be in the field {fields.text!r}")
    try:
        wanted: list[tuple] = [("text", str, msgspec.field(name=fields.text))]
        if fields.language is None:
            return msgspec.json.Decoder(msgspec.defstruct("Fields", wanted, namespace={"language": None}))
        wanted.append(("language", str, msgspec.field(name=fields.language)))
        return msgspec.json.Decoder(msgspec.defstruct("Fields", wanted))
    except ValueError as error:
        raise ConvertError(f"no field can be called so: {error}") from error


def read_records(files: Sequence[Path], decoder: msgspec.json.Decoder, bad: BadRecords) -> Iterator[Record]:
    """The records of all files; what is broken goes to `bad` with the file, its line (from 1) and the reason."""
    start = 0
    refusals: dict[str, str | None] = {}  # language -> why it can be no name, None for a good one
    for place, file in enumerate(files):
        if file.suffix.lower() in PLAIN_TEXT:
            yield from _read_text(place, file, start, bad)
        else:
            yield from _read_json_lines(place, file, start, decoder, refusals, bad)
        start += file.stat().st_size


def _read_json_lines(
    place: int,
    file: Path,
    end: int,
    decoder: msgspec.json.Decoder,
    refusals: dict[str, str | None],
    bad: BadRecords,
) -> Iterator[Record]:
    with file.open("rb") as lines:
        for number, line in enumerate(lines):
            end += len(line)
            if number == 0:
                line = line.removeprefix(BYTE_ORDER_MARK)
            if not line.strip(BLANK):
                continue
            try:
                if not line.isascii():
                    line.decode()  # the decoder passes over fields that are not wanted
                record = decoder.decode(line)
            except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
                bad.add(f"{place_of(file, number)}: {_reason(error, line)}")
                continue
            refusal = None if record.language is None else _refusal(record.language, refusals)
            if refusal is not None:
                bad.add(f"{place_of(file, number)}: {refusal}")
                continue
            yield Record(place, number, end, record.language, record.text)


def _read_text(place: int, file: Path, start: int, bad: BadRecords) -> Iterator[Record]:
    raw = file.read_bytes()
    try:
        text = raw.removeprefix(BYTE_ORDER_MARK).decode()
    except UnicodeDecodeError as error:
        bad.add(f"{place_of(file, 0)}: {_reason(error, raw)}")
        return
    yield Record(place, 0, start + len(raw), None, text)


def _reason(error: Exception, line: bytes) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8: byte {error.object[error.start]:#04x} at byte {error.start} ({error.reason})"
    if isinstance(error, msgspec.DecodeError) and not isinstance(error, msgspec.ValidationError):
        lone = next((escape[1] for escape in _ESCAPES.finditer(line) if escape[1]), None)
        if lone is not None:  # the decoder calls the line malformed, or cut short
            return f"{lone.decode()} stands alone: it is half a character (a surrogate), and no text"
    return str(error)


def _refusal(language: str, known: dict[str, str | None]) -> str | None:
    if language not in known:
        try:
            check_name("language", language)
            known[language] = None
        except ValueError as error:
            known[language] = str(error)
    return known[language]


def batches(records: Iterable[Record], documents: int, characters: int) -> Iterator[list[Record]]:
    """Runs of at most `documents` records and, unless one alone is longer, about `characters` characters.

    The two bounds keep memory small for many short documents and for few long ones; they change no content.
    """
    batch: list[Record] = []
    size = 0
    for record in records:
        if batch and (len(batch) >= documents or size + len(record.text) > characters):
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += len(record.text)
    if batch:
        yield batch
