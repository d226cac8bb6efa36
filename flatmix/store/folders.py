"""(store, language) -> groups and arrays on disk, made without touching anything that is there.

What decides is whether a folder is ours: a store that carries the attribute `flatmix`. A foreign folder is refused,
whatever was asked for. Two processes may make the same store or language at once: they write the same few bytes. A
store is of one version of Zarr, since those who read it look for the files of one. `claim` does the same for splits,
which only one process writes.

Cost: a few small files and listings.
"""

import contextlib
import json
import os
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec
from zarr.errors import ContainsArrayError, ContainsGroupError

from flatmix.errors import ConvertError, StoreError
from flatmix.store import format as layout
from flatmix.store import local_folder
from flatmix.store import metadata as meta


def create_store(path: str | os.PathLike[str], zarr_format: int = 3) -> None:
    """Makes an empty store, parents included; leaves an existing one as it is. ConvertError for anything else there."""
    root = local_folder(path)
    group = _create_group(root, zarr_format, {"flatmix": {"format": layout.FORMAT}})
    if meta.flatmix_attribute(group.attributes, f"store {root}") is None:
        raise ConvertError(f"{root} is a Zarr group, but not a flat-tokens store; choose a new or empty folder")
    check_version(root, group, zarr_format)


def create_language(folder: Path, zarr_format: int = 3) -> None:
    """Makes the group of a language, or leaves it as it is."""
    check_spelling(folder)
    check_version(folder, _create_group(folder, zarr_format, {}), zarr_format)


def create_array(
    folder: Path,
    shape: tuple[int, ...],
    dtype: np.dtype,
    zarr_format: int = 3,
    compression: layout.Compression = "fast",
) -> zarr.Array:
    """An array in chunks of CHUNK values, in shards of SHARD clipped to the array rounded up to whole chunks.

    In Zarr v2, in chunks of CHUNK_V2 values, clipped to the array. ValueError for a `compression` that is neither
    "fast" nor "small".
    """
    settings = _settings(shape, dtype, zarr_format, compression)
    try:
        return zarr.create_array(
            folder,
            shape=shape,
            dtype=dtype,
            fill_value=0,
            zarr_format=zarr_format,
            config={"write_empty_chunks": True},  # so that a chunk that is not there is always damage
            **settings,
        )
    except (ContainsArrayError, ContainsGroupError) as error:  # only where locks do not reach
        raise StoreError(f"{folder} is there already: another process writes this split at the same time") from error


def _settings(shape: tuple[int, ...], dtype: np.dtype, zarr_format: int, compression: str) -> dict[str, Any]:
    """Chunks and codecs."""
    layout.check_compression(compression)
    codec, level, shuffle = layout.COMPRESSION[compression]
    rest = shape[1:]
    values = layout.CHUNK if zarr_format == 3 else layout.CHUNK_V2
    chunk = max(1, values // int(np.prod(rest, dtype=np.int64)))
    if zarr_format == 3:
        chunks = max(1, min(layout.SHARD // layout.CHUNK, -(-shape[0] // chunk)))
        blosc = BloscCodec(typesize=dtype.itemsize, cname=codec, clevel=level, shuffle=shuffle, blocksize=0)
        return {
            "chunks": (chunk, *rest),
            "shards": (chunk * chunks, *rest),
            "serializer": BytesCodec(endian="little"),
            "compressors": [blosc, Crc32cCodec()],
        }
    number = {"shuffle": 1, "bitshuffle": 2}[shuffle]
    blosc = {"id": "blosc", "cname": codec, "clevel": level, "shuffle": number, "blocksize": 0}
    return {"chunks": (max(1, min(chunk, shape[0])), *rest), "compressors": blosc}


def write_attributes(group: zarr.Group, attributes: dict[str, Any]) -> None:
    """Puts these in place of the group's attributes: the write that completes a split."""
    group.attrs.put(attributes)


def _create_group(folder: Path, zarr_format: int, attributes: dict[str, Any]) -> meta.Group:
    if meta.read_group(folder) is None:
        check_empty(folder)
        with contextlib.suppress(ContainsGroupError):  # another process was first, with the same content
            write_group(folder, zarr_format, attributes)
    group = meta.read_group(folder)
    if group is None:
        raise ConvertError(f"{folder} is there already and is not a Zarr group; choose a new or empty folder")
    return group


def write_group(folder: Path, zarr_format: int, attributes: dict[str, Any]) -> zarr.Group:
    if zarr_format == 2:  # the attributes have a file of their own: it comes first, so that no group is without them
        folder.mkdir(parents=True, exist_ok=True)
        part = folder / f"{layout.ATTRIBUTES_V2}.{uuid.uuid4().hex}.partial"
        part.write_text(json.dumps(attributes), "utf-8")
        part.replace(folder / layout.ATTRIBUTES_V2)
    return zarr.create_group(folder, zarr_format=zarr_format, attributes=attributes)


def check_version(folder: Path, there: meta.Group, zarr_format: int) -> None:
    """ConvertError when what is there is of the other version of Zarr."""
    if there.zarr_format != zarr_format:
        raise ConvertError(
            f"{folder} is of Zarr v{there.zarr_format}, and Zarr v{zarr_format} was asked for: a store is of one "
            f"version; ask for zarr_format={there.zarr_format}, or choose another store"
        )


def check_spelling(folder: Path) -> None:
    """Refuses a name that differs from one beside it only in case: some file systems take the two for one."""
    for name in sorted(entry.name for entry in folder.parent.iterdir()):
        if name != folder.name and name.casefold() == folder.name.casefold():
            raise StoreError(f"{folder.name!r} differs only in case from {name!r}, which is in {folder.parent} already")


def check_empty(folder: Path) -> None:
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ConvertError(f"{folder} is a file; choose a new or empty folder")
    found = sorted(entry.name for entry in folder.iterdir() if not is_leftover(entry.name))
    if found:
        raise ConvertError(
            f"{folder} is an output folder that is not ours: it holds {found[0]!r}; choose a new or empty one"
        )


def is_leftover(name: str) -> bool:
    """What is left of a group that was not finished: parts of metadata files, or attributes before there is a group."""
    return name == layout.ATTRIBUTES_V2 or (name.startswith(("zarr.", ".z")) and name.endswith(".partial"))
