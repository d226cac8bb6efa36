"""documents -> staged parts: what a worker has made so far, in files that are there as a whole or not at all.

A part is one file: compressed blocks of values, then a JSON text that says what they are, then the length of that text.
It gets its name when all of it is on disk, so whatever a killed worker leaves behind is not a part. A block is read
alone, and a checksum finds one that is damaged.

Cost: 1 to 2 bytes a token on disk; one block, 1 MB, at a time in memory.
"""

import contextlib
import os
import struct
import uuid
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numcodecs import Blosc

from flatmix.errors import ReadError

ENCODED, LENGTHS, STRETCH, RECORD = "encoded_tokens", "lengths", "stretch", "record"
DTYPES = {ENCODED: "<u4", LENGTHS: "<u4", STRETCH: "<u4", RECORD: "<u8"}
BLOCK = 2**18  # values that are compressed together
_END = struct.Struct("<Q8s")
_MAGIC = b"fmxpart1"
_ENDING = ".part"


class Block(msgspec.Struct, array_like=True, frozen=True):
    """Where some values of a column lie."""

    offset: int
    size: int  # bytes
    values: int
    checksum: int  # CRC-32 of the bytes


class Content(msgspec.Struct, frozen=True):
    """What a part holds of one split of one language."""

    source: int
    language: str
    split: str
    documents: int
    empty: int
    tokens: int
    utf8_bytes: int | None
    largest: int
    columns: dict[str, list[Block]]


class Problem(msgspec.Struct, array_like=True, frozen=True):
    """A record that became no document."""

    stretch: int  # of the unit
    record: int  # of the stretch
    reason: str


class Part(msgspec.Struct, frozen=True):
    """One step of the work on a unit, done."""

    unit: int
    number: int
    records: dict[int, int]  # stretch of the unit -> records of it that this part has seen
    bad: dict[int, int]  # source -> records that became no document
    problems: list[Problem]  # the first of them
    size: int  # bytes of the input, about
    seconds: float
    last: bool  # the unit is done
    contents: list[Content]


def part_path(folder: Path, unit: int, number: int) -> Path:
    return folder / f"{unit:07d}-{number:05d}{_ENDING}"


def part_names(folder: Path) -> list[str]:
    """The names of all parts, those of a unit together and in their sequence."""
    return sorted(name for name in os.listdir(folder) if name.endswith(_ENDING))  # noqa: PTH208


def write_part(path: Path, part: Part, values: list[dict[str, np.ndarray]]) -> None:
    """Writes `part`, whose contents have the columns `values`, in their sequence; what it says of blocks is added.

    FileExistsError where it is there: a part is written once.
    """
    with written_whole(path, replace=False) as file:
        contents = []
        for content, columns in zip(part.contents, values, strict=True):
            blocks = {name: _write_blocks(file, columns[name].astype(DTYPES[name], copy=False)) for name in columns}
            contents.append(msgspec.structs.replace(content, columns=blocks))
        text = msgspec.json.encode(msgspec.structs.replace(part, contents=contents))
        file.write(text + _END.pack(len(text), _MAGIC))


@contextlib.contextmanager
def written_whole(path: Path, replace: bool = True) -> Iterator[Any]:
    """A new file that gets the name `path` once all of it is on disk; nothing of it stays after an error.

    FileExistsError where the name is taken, unless it may `replace`.
    """
    fresh = path.with_name(f"{path.name}.{uuid.uuid4().hex}.partial")
    try:
        with fresh.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if replace:
            fresh.replace(path)
        else:
            _rename_new(fresh, path)
    except FileExistsError:
        raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        fresh.unlink(missing_ok=True)


def _rename_new(fresh: Path, path: Path) -> None:
    try:
        os.link(fresh, path)
    except FileExistsError:
        raise
    except OSError:  # a file system without links: the look and the renaming are then two steps
        if path.exists():
            raise FileExistsError(path) from None
        fresh.replace(path)


def read_part(path: Path) -> Part:
    """What the part at `path` says of itself. ReadError for what is none."""
    try:
        with path.open("rb") as file:
            end = file.seek(-_END.size, os.SEEK_END)
            length, magic = _END.unpack(file.read(_END.size))
            if magic != _MAGIC or length > end:
                raise ValueError("its end is not that of a part")
            file.seek(end - length)
            return msgspec.json.decode(file.read(length), type=Part)
    except (OSError, ValueError) as error:
        raise ReadError(f"staged part {path} cannot be read: {error}; remove it, and convert again") from error


class PartReader:
    """The values of one content of a part."""

    def __init__(self, path: Path, content: int) -> None:
        self._path = path
        self.content = read_part(path).contents[content]

    def read(self, column: str, start: int, stop: int) -> np.ndarray:
        """Values [start, stop) of a column. ReadError where they are damaged."""
        blocks = self.content.columns[column]
        first, found = 0, []
        with self._path.open("rb") as file:
            for block in blocks:
                i, j = max(start - first, 0), min(stop - first, block.values)
                if i < j:
                    found.append(self._read_block(file, column, block)[i:j])
                first += block.values
        return np.concatenate(found) if found else np.empty(0, DTYPES[column])

    def _read_block(self, file: Any, column: str, block: Block) -> np.ndarray:
        file.seek(block.offset)
        raw = file.read(block.size)
        if len(raw) != block.size or zlib.crc32(raw) != block.checksum:
            raise ReadError(f"staged part {self._path} is damaged at byte {block.offset}; remove it, and convert again")
        return np.frombuffer(Blosc().decode(raw), DTYPES[column])


def _write_blocks(file: Any, values: np.ndarray) -> list[Block]:
    codec = Blosc("lz4", 5, Blosc.BITSHUFFLE)
    blocks = []
    for first in range(0, len(values), BLOCK):
        some = np.ascontiguousarray(values[first : first + BLOCK])
        raw = bytes(codec.encode(some))
        blocks.append(Block(file.tell(), len(raw), len(some), zlib.crc32(raw)))
        file.write(raw)
    return blocks
