"""a folder of shards and their index.json -> the ids of each shard: uint16, little-endian, nothing else.

index.json is `{name: number of tokens}`, and the only authority: a file that it does not name is not read, and one
that it names has exactly that many tokens. The sequence is that of the sorted names. A shard is a whole: no document
goes on in the next.
"""

from pathlib import Path, PurePosixPath

import msgspec

from flatmix.convert.imports.boundaries import boundary_input
from flatmix.convert.imports.settings import TYPES, Settings, check_type, needed_boundary
from flatmix.convert.imports.spans import size_and_stamp
from flatmix.convert.inputs import Input
from flatmix.errors import ConvertError, ReadError

KIND = "shards"
INDEX = "index.json"
TYPE = "uint16"
_LIMIT = 2**26  # bytes of an index; some 10**6 shards


def read_index(folder: str) -> dict[str, int] | None:
    """The index in `folder`, sorted by name; None where there is none, or a file that is no such index."""
    try:
        with Path(folder, INDEX).open("rb") as file:
            raw = file.read(_LIMIT + 1)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return None
    if len(raw) > _LIMIT:
        return None
    try:
        index = msgspec.json.decode(raw, type=dict[str, int])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return dict(sorted(index.items())) or None


def find_shards(path: str, settings: Settings, split: str) -> list[Input]:
    """The shards of the folder at `path`, or one of them, without those that hold nothing.

    ReadError for a shard that was cut, ConvertError for one that is not there or too long, and for a name outside.
    """
    one = None if Path(path).is_dir() else Path(path).name
    folder = path if one is None else str(Path(path).parent)
    index = read_index(folder)
    if index is None:
        raise ConvertError(f"{folder} holds no {INDEX} that says {{name of a shard: number of tokens}}")
    if one is not None and one not in index:
        raise ConvertError(f"{path} is not among the shards of {INDEX} in its folder")
    place = str(Path(folder, INDEX))
    check_type(settings, TYPE, folder)
    boundary = needed_boundary(settings, TYPE, folder)
    names = [name for name in index if one in (None, name)]
    for name in names:
        _check_shard(place, folder, name, index[name])
    filled = [name for name in names if index[name]]
    if not filled:
        raise ConvertError(f"{path}: {INDEX} says that there are no tokens in it")
    return [boundary_input(str(Path(folder, name)), name, KIND, TYPE, 0, boundary) for name in filled]


def _check_shard(place: str, folder: str, name: str, count: int) -> None:
    parts = PurePosixPath(name).parts
    if not parts or "/".join(parts) != name or ".." in parts or "\0" in name or name.startswith("/"):
        raise ConvertError(
            f"{place} names {name!r}, and a shard's name is one of a file in the folder, without . and .."
        )
    if count < 0:
        raise ConvertError(f"{place} says that {name} has {count} tokens")
    file = str(Path(folder, name))
    size, wanted = size_and_stamp(file)[0], count * TYPES[TYPE]
    if size != wanted:
        kind = ReadError if size < wanted else ConvertError
        raise kind(f"{file} has {size} bytes, and {INDEX} says {count} tokens, which are {wanted} bytes")
