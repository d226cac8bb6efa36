"""files of tokens that are there already -> whole documents, without a tokenizer.

Each format has a module: `nanogpt`, `llmc`, `shards`, `megatron`, `older` (flat-tokens stores from before format 1). It
finds inputs, all cheap checks done, and reads documents. What the first three share is `boundaries`: their files are
nothing but ids, and one of them says where documents begin. Ids are not compared with a vocabulary here.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from flatmix.convert.imports import llmc, megatron, nanogpt, older, shards
from flatmix.convert.imports.boundaries import cut_ids, read_ids
from flatmix.convert.imports.documents import Cut
from flatmix.convert.imports.settings import check_settings
from flatmix.convert.inputs import Input, TokenRun
from flatmix.errors import ConvertError

__all__ = ["KINDS", "cut", "detect", "find_inputs", "read_tokens"]

_FINDERS = {
    nanogpt.KIND: nanogpt.find_nanogpt,
    llmc.KIND: llmc.find_llmc,
    shards.KIND: shards.find_shards,
    megatron.KIND: megatron.find_megatron,
    older.KIND: older.find_older,
}
_CUTS = {megatron.KIND: megatron.cut_megatron, older.KIND: older.cut_older}
_READERS = {megatron.KIND: megatron.read_megatron, older.KIND: older.read_older}
KINDS = tuple(_FINDERS)


def detect(path: str) -> str | None:
    """The kind of tokens in a local file or folder, by its content and, for those without a mark, its name.

    None where it is none of KINDS. A file named .bin that is nothing else is "nanogpt". A prefix of Megatron's files
    counts as well. OSError for what cannot be read.
    """
    place = Path(path)
    if place.is_dir():
        if shards.read_index(path) is not None:
            return shards.KIND
        return older.KIND if older.is_store(path) else None
    if megatron.has_index(path):
        return megatron.KIND
    if not place.is_file():
        return None
    if place.name in (shards.read_index(str(place.parent)) or {}):
        return shards.KIND
    if place.suffix != ".bin":
        return None
    return nanogpt.KIND if llmc.read_header(path) is None else llmc.KIND


def find_inputs(path: str, kind: str, tokens: dict[str, Any] | None, split: str) -> list[Input]:
    """The inputs at a local path, of one of KINDS, in their sequence; their paths are absolute, their names relative.

    tokens: {"format", "type", "document_end", "document_start"}, what the files do not say of themselves, or None.
    split: which one of an older store, if its folder is not that of a split.

    Raises ConvertError for what is missing, contradicts or is not read here, ReadError for a file that was cut, and
    StoreError for an older store that cannot be opened.
    """
    if kind not in _FINDERS:
        raise ConvertError(f"{path}: there is no kind of tokens {kind!r}; there are {', '.join(KINDS)}")
    absolute = os.path.abspath(path)  # noqa: PTH100  links keep their names
    return _FINDERS[kind](absolute, check_settings(tokens, kind, path), split)


def cut(found: Input, size: int) -> list[Cut]:
    """Stretches (start, stop, bytes) of about `size` bytes, which together are the input; at least one.

    They count tokens, or documents where the format knows them. A document belongs to the stretch in which it begins,
    and is not cut, so the documents of all stretches are the same whatever `size` is.
    """
    return _CUTS.get(found.kind, cut_ids)(found, size)


def read_tokens(found: Input, start: int, stop: int | None, skip: int) -> Iterator[TokenRun]:
    """The documents of the stretch [start, stop) but the first `skip`, in runs of 2^20 tokens at most or one document.

    Raises ReadError for what cannot be read to its end, or contradicts itself; ConvertError, with the number of the
    document, for ids that no store can hold.
    """
    return _READERS.get(found.kind, read_ids)(found, start, stop, skip)
