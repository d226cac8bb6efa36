"""Stores from before format 1, written as their own tools did: one language, arrays that grow by appending."""

import os
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import zarr
from numcodecs import Blosc, Delta
from zarr.codecs import BloscCodec

Documents = Sequence[Sequence[int]]


def older_store(
    path: str | os.PathLike[str],
    splits: Mapping[str, Documents],
    zarr_format: int = 2,
    delta: bool = True,
    chunk: int = 4,
    starts_chunk: int = 3,
    documents_at_once: int = 2,
    compressor: Any = "the usual",
) -> Path:
    """Writes the documents of each split, some at a time; `delta`: document starts as differences."""
    root = zarr.open_group(path, mode="w-", zarr_format=zarr_format)
    if compressor == "the usual":
        blosc = {"cname": "lz4", "clevel": 5}
        compressor = Blosc(shuffle=2, **blosc) if zarr_format == 2 else BloscCodec(shuffle="bitshuffle", **blosc)
    for split, documents in splits.items():
        group = root.create_group(split)
        group.attrs["max_token_id"] = max([0, *(token for ids in documents for token in ids)])
        create = {"shape": (0,), "chunks": (chunk,), "dtype": np.uint32, "compressors": compressor}
        tokens = group.create_array("encoded_tokens", fill_value=None if zarr_format == 2 else 0, **create)
        create |= {"shape": (1,), "chunks": (starts_chunk,), "dtype": np.uint64}
        starts = group.create_array(
            "seq_starts", fill_value=0, filters=_delta(zarr_format) if delta else None, **create
        )
        for first in range(0, len(documents), documents_at_once):
            part = documents[first : first + documents_at_once]
            encoded = [2 * token + (place == 0) for ids in part for place, token in enumerate(ids)]
            ends = tokens.shape[0] + np.cumsum([len(ids) for ids in part])
            tokens.append(np.array(encoded, np.uint32))
            starts.append(ends.astype(np.uint64))
    return Path(path)


def _delta(zarr_format: int) -> list[Any]:
    if zarr_format == 2:
        return [Delta(dtype="i8")]
    from zarr.codecs.numcodecs import Delta as DeltaV3

    with warnings.catch_warnings(action="ignore"):  # it is in no specification of Zarr v3
        return [DeltaV3(dtype="i8")]
