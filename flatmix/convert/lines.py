"""file of JSON lines or text -> records; plain, .gz or .zst, here or at an address.

A JSON line ends at the byte "\\n" and nowhere else: U+2028, U+2029 and U+0085 may stand raw inside a JSON string, and
cutting there would lose the record. So lines are split as bytes and decoded one by one, which is also what lets a
broken one be named, or left out, alone. A line belongs to the stretch in which its first byte lies, so any division of
a file gives the same records. What is compressed has no such places, and is one stretch; a file of text is one record.

Costs one line in memory and a buffer, and about 6 s per GB; the window of a .zst besides, 8 MB mostly.
"""

import gzip
import io
import re
import zlib
from collections.abc import Iterator

import msgspec

from flatmix.convert.inputs import Cut, Fields, Input, Record, language_problem
from flatmix.convert.places import Stream
from flatmix.errors import ConvertError, ReadError

JSON_LINES, TEXT = "json-lines", "text"
KINDS = (JSON_LINES, TEXT)
SUFFIXES = {".jsonl": JSON_LINES, ".json": JSON_LINES, ".ndjson": JSON_LINES, ".txt": TEXT}
COMPRESSIONS = ("gz", "zst")

BYTE_ORDER_MARK = b"\xef\xbb\xbf"
BLANK = b" \t\r\n"  # JSON's own white space

_BUFFER = 2**20
_FEED = 2**14  # bytes of .zst that are decompressed at once: at worst each makes 2**15
_WINDOW = 2**31  # bytes a .zst may need, as zstd --long=31 writes it

# The escapes of a JSON string one by one: of a pair of surrogates, of one that stands alone (the group), any other.
_ESCAPES = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)


def kind_of(name: str) -> tuple[str, str | None] | None:
    """The kind and the compression that a file's name tells; None where it is none of KINDS."""
    name, compression = name.lower(), None
    for ending in COMPRESSIONS:
        if name.endswith(f".{ending}"):
            name, compression = name[: -len(ending) - 1], ending
            break
    kinds = [kind for suffix, kind in SUFFIXES.items() if name.endswith(suffix)]
    return (kinds[0], compression) if kinds else None


def check_fields(fields: Fields) -> None:
    """ConvertError for names that no field can have, or that are the same."""
    _decoder(fields)


def cut(found: Input, size: int) -> list[Cut]:
    """Stretches of about `size` bytes, in bytes; one where the input is compressed, text, or of unknown size."""
    if found.kind == TEXT or found.options.get("compression") or not found.size:
        return [Cut(0, None, found.size)]
    stops = [*range(size, found.size, size), found.size]
    return [Cut(start, stop, stop - start) for start, stop in zip([0, *stops], stops, strict=False)]


def read_records(found: Input, start: int, stop: int | None, fields: Fields, skip: int) -> Iterator[Record]:
    """The records of a stretch but the first `skip`, blank and broken ones too.

    Raises ReadError for what cannot be read to its end, and ConvertError for fields that cannot be.
    """
    if found.kind == TEXT:
        yield from _read_text(found) if not skip else ()
        return
    decoder = _decoder(fields)
    for number, (end, line) in enumerate(_lines(found, start, stop)):
        if number >= skip:
            yield _record(decoder, end, line.removeprefix(BYTE_ORDER_MARK) if start + number == 0 else line)


def _read_text(found: Input) -> Iterator[Record]:
    with Stream(found.path) as stream:
        raw = io.BufferedReader(_plain(found, stream), _BUFFER).read()
        end = stream.position
    _check_end(found, end)
    try:
        yield Record(end, None, raw.removeprefix(BYTE_ORDER_MARK).decode())
    except UnicodeDecodeError as error:
        yield Record(end, None, None, _reason(error, raw))


def _lines(found: Input, start: int, stop: int | None) -> Iterator[tuple[int, bytes]]:
    """(bytes of the stretch up to its end, line) of all lines that begin in it."""
    begin = max(start - 1, 0)  # a line begins at `start` where the byte before ends one
    with Stream(found.path, begin) as stream:
        lines = io.BufferedReader(_plain(found, stream), _BUFFER)
        if found.options.get("compression"):
            for line in lines:
                yield stream.position, line
            _check_end(found, stream.position)
            return
        position = begin if not start else _pass_line(lines, begin, stop)
        while stop is None or position < stop:
            line = lines.readline()
            position += len(line)
            if not line.endswith(b"\n"):
                _check_end(found, position)
            if not line:
                return
            yield position - start, line


def _pass_line(lines: io.BufferedReader, position: int, stop: int | None) -> int:
    """Where the next line begins; or some place after `stop`, as soon as it can only begin there."""
    while stop is None or position < stop:
        part = lines.readline(_BUFFER)
        position += len(part)
        if not part or part.endswith(b"\n"):
            break
    return position


def _check_end(found: Input, position: int) -> None:
    """ReadError where a file ends elsewhere than when it was found."""
    if found.size and position != found.size:
        change = "was cut" if position < found.size else "has grown"
        raise ReadError(f"{found.path} had {found.size} bytes when it was found, and {position} were read: it {change}")


def _record(decoder: msgspec.json.Decoder, end: int, line: bytes) -> Record:
    if not line.strip(BLANK):
        return Record(end, None, None)
    try:
        if not line.isascii():
            line.decode()  # the decoder passes over fields that are not wanted
        record = decoder.decode(line)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        return Record(end, None, None, _reason(error, line))
    refusal = None if record.language is None else language_problem(record.language)
    if refusal is not None:
        return Record(end, None, None, refusal)
    return Record(end, record.language, record.text)


def _decoder(fields: Fields) -> msgspec.json.Decoder:
    """A decoder of one JSON object into its `text`, a string, and its `language`, a string or None."""
    if fields.text == fields.language:
        raise ConvertError(f"the text and the language cannot both be in the field {fields.text!r}")
    try:
        wanted: list[tuple] = [("text", str, msgspec.field(name=fields.text))]
        if fields.language is None:
            return msgspec.json.Decoder(msgspec.defstruct("Wanted", wanted, namespace={"language": None}))
        wanted.append(("language", str, msgspec.field(name=fields.language)))
        return msgspec.json.Decoder(msgspec.defstruct("Wanted", wanted))
    except ValueError as error:
        raise ConvertError(f"no field can be called so: {error}") from error


def _reason(error: Exception, line: bytes) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"not UTF-8: byte {error.object[error.start]:#04x} at byte {error.start} ({error.reason})"
    if isinstance(error, msgspec.DecodeError) and not isinstance(error, msgspec.ValidationError):
        lone = next((escape[1] for escape in _ESCAPES.finditer(line) if escape[1]), None)
        if lone is not None:  # the decoder calls the line malformed, or cut short
            return f"{lone.decode()} stands alone: it is half a character (a surrogate), and no text"
    return str(error)


def _plain(found: Input, stream: Stream) -> io.RawIOBase:
    """The stream as it is without its compression."""
    compression = found.options.get("compression")
    if compression is None:
        return stream
    return _Parts(_gunzip(stream) if compression == "gz" else _unzstd(stream))


class _Parts(io.RawIOBase):
    """Parts of bytes, none of them empty, as a file."""

    def __init__(self, parts: Iterator[bytes]) -> None:
        super().__init__()
        self._parts, self._left = parts, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        if not self._left:
            self._left = memoryview(next(self._parts, b""))
        count = min(len(buffer), len(self._left))
        buffer[:count], self._left = self._left[:count], self._left[count:]
        return count


def _gunzip(stream: Stream) -> Iterator[bytes]:
    """All members, one after another."""
    done = 0
    try:
        with gzip.GzipFile(fileobj=stream) as file:
            while part := file.read1(_BUFFER):  # which gives what comes before a fault
                done += len(part)
                yield part
    except EOFError:
        raise _was_cut(stream, "gz", done) from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise _damaged(stream, "gz", done, error) from error
    if not stream.position:
        raise _was_cut(stream, "gz", done)


def _unzstd(stream: Stream) -> Iterator[bytes]:
    """All frames, one after another. Each has its own decompressor, which alone can tell whether it ended."""
    try:
        import zstandard
    except ImportError:
        raise ConvertError(f"{stream.path}: the package that reads .zst is not there; pip install zstandard") from None
    done = 0
    frame = None
    compressed = io.BufferedReader(stream, _BUFFER)
    try:
        while fed := compressed.read(_FEED):
            while fed:
                frame = frame or zstandard.ZstdDecompressor(max_window_size=_WINDOW).decompressobj()
                part = frame.decompress(fed)
                fed = frame.unused_data
                frame = None if frame.eof else frame
                done += len(part)
                if part:
                    yield part
    except zstandard.ZstdError as error:
        raise _damaged(stream, "zst", done, error) from error
    finally:
        compressed.detach()
    if frame is not None or not stream.position:
        raise _was_cut(stream, "zst", done)


def _was_cut(stream: Stream, compression: str, done: int) -> ReadError:
    return ReadError(
        f"{stream.path} was cut: its {compression} data goes on after its {stream.position} bytes, which are {done} "
        "bytes of content"
    )


def _damaged(stream: Stream, compression: str, done: int, error: Exception) -> ReadError:
    return ReadError(
        f"{stream.path} is no {compression}, or damaged: after {done} bytes of content, and {stream.position} of the "
        f"file at most: {error}"
    )
