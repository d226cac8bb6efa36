"""a store from before format 1 -> the documents of one of its splits, proved to begin where its start bits say.

Such a store says twice where documents begin, in `seq_starts` and in the lowest bit of each token, and has no checksum
that would tell which of the two is damaged; so they are compared, and nothing that contradicts itself is taken over.
Empty documents are repeated entries of `seq_starts`, and stay. A store of format 1 needs no import: it is copied.

Cost: that of reading the split, and two passes over the tokens.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import numpy as np

from flatmix.convert.imports.documents import Cut, cut_documents, runs
from flatmix.convert.imports.settings import Settings, check_type, refuse_boundary
from flatmix.convert.inputs import Input, TokenRun
from flatmix.errors import ConvertError, ReadError
from flatmix.store import Split, open_store
from flatmix.store import format as layout
from flatmix.store import metadata as meta

KIND = "flat-tokens"
_LANGUAGE = "unnamed"  # an older store does not name it, and here it does not matter
_BLOCK = 2**16  # documents whose starts are read at once
_TOKEN_BYTES = 4


def is_store(path: str) -> bool:
    """Whether a store lies at `path`, of any format, or a split of one."""
    return _what_is_at(path) is not None


def find_older(path: str, settings: Settings, split: str) -> list[Input]:
    """The split `split` of the older store at `path`; or the one at `path`, where that is the folder of a split.

    ConvertError for a store of format 1; StoreError for one that cannot be opened, and for a split that is not there.
    """
    refuse_boundary(settings, path)
    check_type(settings, "uint32", path)
    what = _what_is_at(path)
    if what is None:
        raise ConvertError(f"{path} holds no flat-tokens store")
    if what == "format 1":
        raise ConvertError(f"{path} is of format 1, which needs no conversion: copy the folders of its languages")
    store = Path(path)
    if what == "split":
        store, split = store.parent, store.name
    language = open_store(store, _LANGUAGE)[_LANGUAGE]
    if split not in language.splits:
        raise ConvertError(f"{path} has no split {split!r}; its splits are {', '.join(language.splits)}")
    opened = language[split]
    options = {"split": split, "tokens": opened.tokens, "documents": opened.documents}
    return [
        Input(
            path=str(store),
            name=f"{store.name}/{split}",
            kind=KIND,
            size=opened.tokens * _TOKEN_BYTES,
            stamp=_stamp(opened),
            options=options,
        )
    ]


def cut_older(found: Input, size: int) -> list[Cut]:
    """Stretches of about `size` bytes of tokens, as they are without compression, in documents."""
    split = _open_same(found)
    blocks = (
        np.diff(split.seq_starts(first, min(first + _BLOCK, split.documents) + 1).astype(np.int64))
        for first in range(0, split.documents, _BLOCK)
    )
    return cut_documents(blocks, _TOKEN_BYTES, size)


def read_older(found: Input, start: int, stop: int | None, skip: int) -> Iterator[TokenRun]:
    """Documents [start + skip, stop). ReadError where they cannot be read, or do not begin where `seq_starts` says."""
    split = _open_same(found)
    stop = split.documents if stop is None else stop
    reader = split.reader()
    begun = int(split.seq_starts(start, start + 1)[0])
    for first in range(start + skip, stop, _BLOCK):
        starts = split.seq_starts(first, min(first + _BLOCK, stop) + 1).astype(np.int64)
        for i, j in runs(np.diff(starts)):
            values = np.empty(int(starts[j] - starts[i]), np.uint32)
            reader.read(int(starts[i]), int(starts[j]), values).result()
            _check_starts(split, values, starts[i : j + 1], first + i)
            values >>= np.uint32(1)
            yield TokenRun((int(starts[j]) - begun) * _TOKEN_BYTES, values, np.diff(starts[i : j + 1]))


def _check_starts(split: Split, values: np.ndarray, starts: np.ndarray, first: int) -> None:
    """ReadError unless the start bits are exactly those of the first tokens of documents that are not empty."""
    said = np.unique(starts[:-1][np.diff(starts) > 0] - starts[0])
    found = np.flatnonzero(values & np.uint32(1))
    if np.array_equal(said, found):
        return
    place = int(np.setxor1d(said, found)[0])
    number = first + int(np.searchsorted(starts, starts[0] + place, side="right")) - 1
    what = "has no start bit at its first token" if place in said else "has a start bit within"
    raise ReadError(
        f"document {number} (counted from 0) of split {split.name!r} of {split.store_path} {what} (token "
        f"{starts[0] + place}), and {layout.SEQ_STARTS} says otherwise: one of the two is damaged"
    )


def _open_same(found: Input) -> Split:
    split = open_store(found.path, _LANGUAGE)[_LANGUAGE][found.options["split"]]
    if (split.tokens, split.documents) != (found.options["tokens"], found.options["documents"]):
        raise ConvertError(f"{found.name} at {found.path} changed while it was read; begin anew")
    return split


def _what_is_at(path: str) -> Literal["format 1", "split", "store"] | None:
    group = meta.read_group(Path(path))
    if group is None:
        return None
    splits = [meta.read_group(Path(path, name), group.zarr_format) for name in ("train", "validation")]
    attributes = [group.attributes, *(split.attributes for split in splits if split is not None)]
    if any("flatmix" in those for those in attributes):
        return "format 1"
    if not any("max_token_id" in those for those in attributes):
        return None
    return "split" if "max_token_id" in group.attributes else "store"


def _stamp(split: Split) -> str:
    """The identity, which is weak, and what the files of the split say of themselves."""
    files = [file.stat() for file in Path(split.path).rglob("*") if file.is_file()]
    newest = max((file.st_mtime_ns for file in files), default=0)
    return f"{sum(file.st_size for file in files)}-{newest}-{split.identity}"
