"""zarr.json files -> checked facts: is this a group of the store, is that array what the format says it is.

The files are read as they are, not through a Zarr library: opening a language is then a handful of small reads, none
of which depends on the size of the corpus, and nothing that a damaged or hostile file names is looked up, imported or
run before it has been compared with the format's fixed lists. Consolidated metadata is ignored, because it goes
stale.

Cost: one read and one strict JSON decoding for each file, some tens of microseconds.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from flatmix.errors import StoreError
from flatmix.store import format as layout


@dataclass(frozen=True)
class ArrayMetadata:
    """One array of a split: its shape, what is decoded together, what is one file; `raw` is the file's content."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    chunk: int  # entries along the first axis
    shard: int
    raw: dict[str, Any]


def read_json(folder: Path) -> dict[str, Any] | None:
    """The object in the zarr.json of `folder`; None when there is no such file. StoreError when it is not an object."""
    file = folder / layout.METADATA
    try:
        with file.open("rb") as stream:
            size = os.fstat(stream.fileno()).st_size
            data = stream.read(size) if size <= layout.METADATA_LIMIT else None
    except (FileNotFoundError, NotADirectoryError):
        return None
    if data is None:
        raise StoreError(f"{file} has {size} bytes, and metadata of a store has at most {layout.METADATA_LIMIT}")
    try:
        return msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise StoreError(f"{file} is damaged: it is not a JSON object ({error})") from error


def is_group(metadata: dict[str, Any] | None) -> bool:
    return metadata is not None and _is_node(metadata, "group")


def group_names(folder: Path) -> tuple[str, ...]:
    """The names of the Zarr groups directly in `folder`, sorted by code point; what is foreign is passed over."""
    names = sorted(entry.name for entry in folder.iterdir())
    return tuple(name for name in names if is_group(read_json(folder / name)))


def flatmix_attribute(metadata: dict[str, Any], place: str) -> dict[str, Any] | None:
    """The `flatmix` attribute of a group, its format checked; None when it has none."""
    attributes = metadata.get("attributes", {})
    attribute = attributes.get("flatmix") if isinstance(attributes, dict) else None
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


def array_metadata(folder: Path, name: str, shape: Sequence[int], place: str) -> ArrayMetadata:
    """The array `name` of the split in `folder`, checked to have this shape and the format's dtype, codecs and kind."""
    raw = read_json(folder / name)
    if raw is None:
        raise StoreError(f"{place} holds no {name}")
    where = f"{place}: {name}"
    if not _is_node(raw, "array"):
        raise StoreError(f"{where} is not a Zarr v3 array")
    if raw.get("data_type") != layout.DTYPES[name]:
        raise StoreError(f"{where} has the data type {raw.get('data_type')!r}, not {layout.DTYPES[name]!r}")
    if not _is_shape(raw.get("shape"), 0) or raw["shape"] != list(shape):
        raise StoreError(f"{where} has the shape {raw.get('shape')!r}, and the attributes say {list(shape)}")
    _check_codecs(raw.get("codecs"), layout.CODECS, where)
    shard = _chunk_shape(raw.get("chunk_grid"), len(shape), where)
    first = raw["codecs"][0]
    if not isinstance(first, dict) or first.get("name") != "sharding_indexed":
        return ArrayMetadata(name, layout.DTYPES[name], tuple(shape), shard[0], shard[0], raw)
    chunk = first["configuration"].get("chunk_shape")
    if not _is_shape(chunk, 1) or len(chunk) != len(shape) or any(s % c for s, c in zip(shard, chunk, strict=True)):
        raise StoreError(f"{where} has chunks of the shape {chunk!r} in shards of {shard}")
    return ArrayMetadata(name, layout.DTYPES[name], tuple(shape), chunk[0], shard[0], raw)


def _is_node(metadata: dict[str, Any], kind: str) -> bool:
    return metadata.get("zarr_format") == 3 and metadata.get("node_type") == kind


def _is_shape(value: Any, least: int) -> bool:
    return isinstance(value, list) and all(type(length) is int and least <= length < 2**63 for length in value)


def _chunk_shape(grid: Any, dimensions: int, where: str) -> list[int]:
    regular = isinstance(grid, dict) and grid.get("name") == "regular" and isinstance(grid.get("configuration"), dict)
    shape = grid["configuration"].get("chunk_shape") if regular else None
    if not _is_shape(shape, 1) or len(shape) != dimensions:
        raise StoreError(f"{where} has the chunk grid {grid!r}, which is not a regular one of {dimensions} dimensions")
    return shape


def _check_codecs(codecs: Any, allowed: Sequence[str], where: str) -> None:
    if not isinstance(codecs, list) or not codecs:
        raise StoreError(f"{where} has the codecs {codecs!r}, which is not a list of them")
    for codec in codecs:
        name = codec.get("name") if isinstance(codec, dict) else codec
        if name not in allowed:
            raise StoreError(f"{where} uses the codec {name!r}; only {', '.join(allowed)} are decoded here")
        if name == "sharding_indexed":
            inner = codec.get("configuration") if isinstance(codec, dict) else None
            if not isinstance(inner, dict):
                raise StoreError(f"{where} uses the codec 'sharding_indexed' without a configuration")
            for part in ("codecs", "index_codecs"):
                _check_codecs(inner.get(part), [other for other in allowed if other != name], f"{where} ({part})")
