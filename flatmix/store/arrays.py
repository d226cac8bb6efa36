"""zarr.json or .zarray -> checked facts about an array: is it what the format says, in chunks that can be read.

Everything that decides how bytes become values is compared with fixed lists here; what passes is handed to the reader,
which looks at no file again. The two versions of Zarr say the same things in different words, so each has one
function, and what follows them no longer asks which it was.

The one codec that is accepted without being handed on is numcodecs' Delta, on the document starts of older stores:
TensorStore does not know it, and undoing it is one running sum.

Cost: one read and one strict JSON decoding for each array.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flatmix.errors import StoreError
from flatmix.store import format as layout
from flatmix.store.metadata import read_json

_DTYPES_V2 = {"uint8": "|u1", "uint32": "<u4", "uint64": "<u8"}
_KEYS_V2 = (
    "zarr_format",
    "shape",
    "chunks",
    "dtype",
    "compressor",
    "fill_value",
    "order",
    "dimension_separator",
)  # that TensorStore knows; it refuses others
_DIFFERENCES = ("i8", "<i8", "u8", "<u8")  # signed or not: sums of 64 bits wrap alike

Checked = tuple[dict[str, Any], list[int], list[int] | None, bool]  # raw, shapes of chunk and shard, delta


@dataclass(frozen=True)
class ArrayMetadata:
    """One array of a split; `raw` is what of its file the reader goes by."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    chunk: int  # entries along the first axis that are decoded together
    shard: int | None  # entries along the first axis in one file; None where each chunk is a file
    zarr_format: int
    delta: bool  # within a chunk, each value but the first is stored as its difference from the one before
    raw: dict[str, Any]


def array_metadata(
    folder: Path, name: str, shape: Sequence[int] | None, place: str, zarr_format: int = 3, delta: bool = False
) -> ArrayMetadata:
    """The array `name` of the split in `folder`, checked to have this shape and the format's dtype, codecs and kind.

    Without `shape` it has one axis of any length; with `delta` its values may be stored as differences.
    """
    raw = read_json(folder / name / (layout.METADATA if zarr_format == 3 else layout.ARRAY_V2))
    if raw is None:
        raise StoreError(f"{place} holds no {name}")
    where = f"{place}: {name}"
    if raw.get("zarr_format") != zarr_format or (zarr_format == 3 and raw.get("node_type") != "array"):
        raise StoreError(f"{where} is not a Zarr v{zarr_format} array")
    found, dtype = raw.get("shape"), layout.DTYPES[name]
    if shape is None and (not _is_shape(found, 0) or len(found) != 1):
        raise StoreError(f"{where} has the shape {found!r}, not one axis")
    if shape is not None and (not _is_shape(found, 0) or found != list(shape)):
        raise StoreError(f"{where} has the shape {found!r}, and the attributes say {list(shape)}")
    checked = _checked_v3 if zarr_format == 3 else _checked_v2
    used, chunk, shard, delta = checked(raw, dtype, len(found), where, delta)
    return ArrayMetadata(name, dtype, tuple(found), chunk[0], shard[0] if shard else None, zarr_format, delta, used)


def _checked_v3(raw: dict[str, Any], dtype: str, axes: int, where: str, delta: bool) -> Checked:
    if raw.get("data_type") != dtype:
        raise StoreError(f"{where} has the data type {raw.get('data_type')!r}, not {dtype!r}")
    codecs = raw.get("codecs")
    delta = delta and isinstance(codecs, list) and bool(codecs) and _is_delta_v3(codecs[0])
    codecs = codecs[1:] if delta else codecs
    _check_codecs(codecs, layout.CODECS, where)
    file = _chunk_shape_v3(raw.get("chunk_grid"), axes, where)
    used = {**raw, "codecs": codecs}
    first = codecs[0]
    if not isinstance(first, dict) or first.get("name") != "sharding_indexed":
        return used, file, None, delta
    chunk = first["configuration"].get("chunk_shape")
    if not _is_shape(chunk, 1) or len(chunk) != axes or any(s % c for s, c in zip(file, chunk, strict=True)):
        raise StoreError(f"{where} has chunks of the shape {chunk!r} in shards of {file}")
    return used, chunk, file, delta


def _checked_v2(raw: dict[str, Any], dtype: str, axes: int, where: str, delta: bool) -> Checked:
    if raw.get("dtype") != _DTYPES_V2[dtype]:
        raise StoreError(f"{where} has the data type {raw.get('dtype')!r}, not {_DTYPES_V2[dtype]!r}")
    chunk = raw.get("chunks")
    if not _is_shape(chunk, 1) or len(chunk) != axes:
        raise StoreError(f"{where} has chunks of the shape {chunk!r}, not one of {axes} dimensions")
    if raw.get("order") != "C":
        raise StoreError(f"{where} has the order {raw.get('order')!r}, and only 'C' is read here")
    compressor = raw.get("compressor")
    if compressor is not None and _name(compressor, "id") not in layout.COMPRESSORS_V2:
        allowed = ", ".join(layout.COMPRESSORS_V2)
        raise StoreError(
            f"{where} uses the compressor {_name(compressor, 'id')!r}; only {allowed} and none are decoded here"
        )
    filters = raw.get("filters") or []
    filters = filters if isinstance(filters, list) else [filters]
    delta = delta and len(filters) == 1 and _is_delta_v2(filters[0])
    if filters and not delta:
        raise StoreError(f"{where} uses the filter {_name(filters[0], 'id')!r}, which is not decoded here")
    return {key: raw[key] for key in _KEYS_V2 if key in raw} | {"filters": None}, chunk, None, delta


def _is_delta_v3(codec: Any) -> bool:
    return (
        isinstance(codec, dict)
        and codec.get("name") == "numcodecs.delta"
        and _is_of_64_bits(codec.get("configuration"))
    )


def _is_delta_v2(codec: Any) -> bool:
    return isinstance(codec, dict) and codec.get("id") == "delta" and _is_of_64_bits(codec)


def _is_of_64_bits(settings: Any) -> bool:
    """Whether these are settings of a Delta over such integers; any other is left to the lists to refuse."""
    if not isinstance(settings, dict):
        return False
    dtype = settings.get("dtype")
    return dtype in _DIFFERENCES and settings.get("astype", dtype) in (None, *_DIFFERENCES)


def _name(codec: Any, key: str) -> Any:
    return codec.get(key) if isinstance(codec, dict) else codec


def _is_shape(value: Any, least: int) -> bool:
    return isinstance(value, list) and all(type(length) is int and least <= length < 2**63 for length in value)


def _chunk_shape_v3(grid: Any, dimensions: int, where: str) -> list[int]:
    regular = isinstance(grid, dict) and grid.get("name") == "regular" and isinstance(grid.get("configuration"), dict)
    shape = grid["configuration"].get("chunk_shape") if regular else None
    if not _is_shape(shape, 1) or len(shape) != dimensions:
        raise StoreError(f"{where} has the chunk grid {grid!r}, which is not a regular one of {dimensions} dimensions")
    return shape


def _check_codecs(codecs: Any, allowed: Sequence[str], where: str) -> None:
    if not isinstance(codecs, list) or not codecs:
        raise StoreError(f"{where} has the codecs {codecs!r}, which is not a list of them")
    for codec in codecs:
        name = _name(codec, "name")
        if name not in allowed:
            raise StoreError(f"{where} uses the codec {name!r}; only {', '.join(allowed)} are decoded here")
        if name == "sharding_indexed":
            inner = codec.get("configuration") if isinstance(codec, dict) else None
            if not isinstance(inner, dict):
                raise StoreError(f"{where} uses the codec 'sharding_indexed' without a configuration")
            for part in ("codecs", "index_codecs"):
                _check_codecs(inner.get(part), [other for other in allowed if other != name], f"{where} ({part})")
