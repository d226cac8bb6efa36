"""zarr.json, or .zgroup and .zattrs -> checked facts: is this a group, what does it say of the store or the split.

The files are read as they are, not through a Zarr library: opening a language is then a handful of small reads, none
of which depends on the size of the corpus, and nothing that a damaged or hostile file names is looked up, imported or
run before it has been compared with the format's fixed lists. Consolidated metadata is ignored, because it goes
stale. `arrays` does the same for arrays.

Cost: one read (two in Zarr v2) and one strict JSON decoding for each group, some tens of microseconds.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from flatmix.errors import StoreError
from flatmix.store import format as layout


@dataclass(frozen=True)
class Group:
    """A Zarr group: its version, 2 or 3, and its attributes."""

    zarr_format: int
    attributes: dict[str, Any]


def read_json(file: Path) -> dict[str, Any] | None:
    """The object in `file`; None when there is no such file. StoreError when it is no file, or not of an object."""
    try:
        with file.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            data = stream.read(size) if size <= layout.METADATA_LIMIT else None
    except (FileNotFoundError, NotADirectoryError):
        return None
    except IsADirectoryError:
        raise StoreError(f"{file} is damaged: it is a folder, and metadata of a store is a file") from None
    if data is None:
        raise StoreError(f"{file} has {size} bytes, and metadata of a store has at most {layout.METADATA_LIMIT}")
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise StoreError(f"{file} is damaged: it is not a JSON object ({error})") from error


def read_group(folder: Path, zarr_format: int | None = None) -> Group | None:
    """The Zarr group in `folder`, of that version, or of either (3 where there are both); None when there is none."""
    if zarr_format != 2:
        raw = read_json(folder / layout.METADATA)
        if raw is not None and raw.get("zarr_format") == 3 and raw.get("node_type") == "group":
            attributes = raw.get("attributes")
            return Group(3, attributes if isinstance(attributes, dict) else {})
    if zarr_format != 3:
        raw = read_json(folder / layout.GROUP_V2)
        if raw is not None and raw.get("zarr_format") == 2:
            return Group(2, read_json(folder / layout.ATTRIBUTES_V2) or {})
    return None


def group_names(folder: Path, zarr_format: int) -> tuple[str, ...]:
    """The names of the Zarr groups directly in `folder`, sorted by code point; what is foreign is passed over.

    So is what begins with a dot: splits that are being written, to take the place of others.
    """
    names = sorted(entry.name for entry in folder.iterdir() if not entry.name.startswith("."))
    return tuple(name for name in names if read_group(folder / name, zarr_format) is not None)


def flatmix_attribute(attributes: dict[str, Any], place: str) -> dict[str, Any] | None:
    """The `flatmix` attribute among those of a group, its format checked; None when it has none."""
    attribute = attributes.get("flatmix")
    if attribute is None:
        return None
    if not isinstance(attribute, dict):
        raise StoreError(f"{place}: its attribute 'flatmix' is {attribute!r}, not an object")
    version = attribute.get("format")
    if type(version) is not int or version != layout.FORMAT:
        raise StoreError(
            f"{place} has the format {version!r}, and this version of flatmix reads format {layout.FORMAT}"
        )
    return attribute


def split_attributes(attribute: dict[str, Any], place: str) -> layout.SplitAttributes | None:
    """The `flatmix` attribute of a split -> its fields; None when it says that the split was not completed."""
    if attribute.get("complete") is False:
        return None
    try:
        return msgspec.convert(attribute, layout.SplitAttributes, strict=True)
    except msgspec.ValidationError as error:
        raise StoreError(
            f"{place}: its attribute 'flatmix' is not what format {layout.FORMAT} says: {error}"
        ) from error


def largest_id(attributes: dict[str, Any], place: str) -> int:
    """`max_token_id` among the attributes of a split, checked to be an id."""
    largest = attributes.get("max_token_id")
    if type(largest) is not int or not 0 <= largest < layout.ID_LIMIT:
        raise StoreError(f"{place}: max_token_id is {largest!r}, not an integer from 0 to {layout.ID_LIMIT - 1}")
    return largest
