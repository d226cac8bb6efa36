"""(store, language, split) -> groups and arrays on disk, made without touching anything that is there.

What decides is whether a folder is ours: a store or a split that carries the attribute `flatmix`. A foreign folder is
refused, whatever was asked for; an existing split is replaced only on request, and says that it is incomplete before
the first of its files goes. Two processes may make the same store or language at once: they write the same few bytes.

Cost: a few small files and listings.
"""

import contextlib
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec
from zarr.errors import ContainsGroupError

from flatmix.errors import ConvertError, StoreError
from flatmix.store import format as layout
from flatmix.store import local_folder
from flatmix.store import metadata as meta


def create_store(path: str | os.PathLike[str]) -> None:
    """Makes an empty store, parents included; leaves an existing one as it is. ConvertError for anything else there."""
    root = local_folder(path)
    group = _create_group(root, {"flatmix": {"format": layout.FORMAT}})
    if meta.flatmix_attribute(group, f"store {root}") is None:
        raise ConvertError(f"{root} is a Zarr group, but not a flat-tokens store; choose a new or empty folder")


def create_language(folder: Path) -> None:
    """Makes the group of a language, or leaves it as it is."""
    _check_spelling(folder)
    _create_group(folder, {})


def create_split(folder: Path, place: str, replace: bool) -> zarr.Group:
    """The group of a new split, which says that it is incomplete; with `replace`, in the place of one that is there."""
    _check_spelling(folder)
    existing = meta.read_json(folder)
    if existing is None:
        _check_empty(folder)
        try:
            return zarr.create_group(folder, zarr_format=3, attributes=layout.incomplete_attributes())
        except ContainsGroupError as error:
            raise StoreError(f"{place} is being written by another process") from error
    if not meta.is_group(existing) or meta.flatmix_attribute(existing, place) is None:
        raise ConvertError(f"{place} is there already and is not a split of flatmix; it is left as it is")
    if not replace:
        state = "" if existing["attributes"]["flatmix"].get("complete") is True else ", and is incomplete"
        raise StoreError(f"{place} is there already{state}; ask to replace it, or choose another name")
    return _clear_split(folder, place)


def create_array(folder: Path, shape: tuple[int, ...], dtype: np.dtype) -> zarr.Array:
    """An array in chunks of CHUNK values, in shards of SHARD clipped to the array rounded up to whole chunks."""
    chunk = max(1, layout.CHUNK // int(np.prod(shape[1:], dtype=np.int64)))
    chunks = max(1, min(layout.SHARD // layout.CHUNK, -(-shape[0] // chunk)))
    blosc = BloscCodec(typesize=dtype.itemsize, cname="lz4", clevel=5, shuffle="bitshuffle", blocksize=0)
    return zarr.create_array(
        folder,
        shape=shape,
        dtype=dtype,
        chunks=(chunk, *shape[1:]),
        shards=(chunk * chunks, *shape[1:]),
        serializer=BytesCodec(endian="little"),
        compressors=[blosc, Crc32cCodec()],
        fill_value=0,
        zarr_format=3,
        config={"write_empty_chunks": True},  # so that a chunk that is not there is always damage
    )


def write_attributes(group: zarr.Group, attributes: dict[str, Any]) -> None:
    """Puts these in place of the group's attributes: the write that completes a split."""
    group.attrs.put(attributes)


def _create_group(folder: Path, attributes: dict[str, Any]) -> dict[str, Any]:
    if meta.read_json(folder) is None:
        _check_empty(folder)
        with contextlib.suppress(ContainsGroupError):  # another process was first, with the same content
            zarr.create_group(folder, zarr_format=3, attributes=attributes)
    group = meta.read_json(folder)
    if group is None or not meta.is_group(group):
        raise ConvertError(f"{folder} is there already and is not a Zarr v3 group; choose a new or empty folder")
    return group


def _clear_split(folder: Path, place: str) -> zarr.Group:
    ours = {layout.METADATA, *layout.DTYPES}
    foreign = sorted(
        entry.name for entry in folder.iterdir() if entry.name not in ours and not _is_leftover(entry.name)
    )
    if foreign:
        raise ConvertError(
            f"{place} holds {foreign[0]!r}, which is not of flatmix; move it away before replacing the split"
        )
    group = zarr.open_group(folder, mode="r+", zarr_format=3)
    write_attributes(group, layout.incomplete_attributes())
    for name in layout.DTYPES:
        if (folder / name).exists():
            shutil.rmtree(folder / name)
    return group


def _check_spelling(folder: Path) -> None:
    """Refuses a name that differs from one beside it only in case: some file systems take the two for one."""
    for name in sorted(entry.name for entry in folder.parent.iterdir()):
        if name != folder.name and name.casefold() == folder.name.casefold():
            raise StoreError(f"{folder.name!r} differs only in case from {name!r}, which is in {folder.parent} already")


def _check_empty(folder: Path) -> None:
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ConvertError(f"{folder} is a file; choose a new or empty folder")
    found = sorted(entry.name for entry in folder.iterdir() if not _is_leftover(entry.name))
    if found:
        raise ConvertError(
            f"{folder} is an output folder that is not ours: it holds {found[0]!r}; choose a new or empty one"
        )


def _is_leftover(name: str) -> bool:
    """What zarr leaves of a metadata file that it was not allowed to finish."""
    return name.startswith("zarr.") and name.endswith(".partial")
