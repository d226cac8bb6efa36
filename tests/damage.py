"""Splits of a few hundred tokens in many chunks, shards and pieces; and ways to damage what lies on disk."""

import hashlib
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from helpers import edit_json

from flatmix.store import format as layout

CHUNK, SHARD, PIECE = 4, 16, 32
DOCUMENTS = [list(range(number, number + number % 9)) for number in range(60)]  # some of them empty
STARTS = [0, *accumulate(map(len, DOCUMENTS))]
TOKENS = STARTS[-1]
ARRAYS = ("encoded_tokens", "seq_starts", "piece_digests", "source_file", "source_record")
FILES = 3


def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written and verified from here on has such chunks, shards and pieces; in Zarr v2, chunks of 16."""
    for name, size in (("CHUNK", CHUNK), ("SHARD", SHARD), ("PIECE", PIECE), ("CHUNK_V2", SHARD)):
        monkeypatch.setattr(layout, name, size)


def write(path: Path, language: str = "en", split: str = "train", zarr_format: int = 3) -> Path:
    """The folder of a split of DOCUMENTS, which come from FILES files in turn."""
    from flatmix.store.writer import SplitWriter

    source = {"data": "d", "files": [f"{number}.txt" for number in range(FILES)], "options": {}}
    with SplitWriter(path, language, split, record_sources=True, source=source, zarr_format=zarr_format) as writer:
        numbers, lengths = np.arange(len(DOCUMENTS)), np.array([len(ids) for ids in DOCUMENTS])
        writer.add_many(np.concatenate(DOCUMENTS).astype(np.uint32), lengths, None, numbers % FILES, numbers // FILES)
        return Path(writer.finish().path)


def files_of_array(folder: Path, array: str) -> list[Path]:
    """Its shards, in sequence."""
    found = [
        file for file in (folder / array).rglob("*") if file.is_file() and not file.name.startswith((".z", "zarr"))
    ]
    return sorted(found, key=lambda file: [int(part) for part in file.relative_to(folder / array).parts if part != "c"])


def flip(file: Path, at: int) -> None:
    """Turns over one bit; `at` may count from the end."""
    data = bytearray(file.read_bytes())
    data[at] ^= 4
    file.write_bytes(bytes(data))


def edit_attributes(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    edit_json(folder, lambda group: change(group["attributes"]))


def rewrite(folder: Path, array: str, change: Callable[[np.ndarray], Any], prove: bool = True) -> None:
    """Changes the values of an array as a writer would; with `prove`, the digests are those of what is there now."""
    opened = zarr.open_array(folder / array, mode="r+")
    values = np.asarray(opened[:])
    change(values)
    opened[:] = values
    if prove:
        write_proof(folder)


def write_proof(folder: Path) -> None:
    rows = []
    for array in ("encoded_tokens", "seq_starts"):
        values = np.asarray(zarr.open_array(folder / array, mode="r")[:])
        for start in range(0, len(values), layout.PIECE):
            rows.append(
                np.frombuffer(hashlib.sha256(values[start : start + layout.PIECE].tobytes()).digest(), np.uint8)
            )
    zarr.open_array(folder / "piece_digests", mode="r+")[:] = np.array(rows)
    digest = hashlib.sha256(np.array(rows).tobytes()).hexdigest()
    edit_attributes(folder, lambda attributes: attributes["flatmix"].update(digest=digest))
