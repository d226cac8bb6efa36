"""(ids, lengths) of some documents -> encoded tokens and where each document ends, checked first.

A token is 2 * id + (1 if it begins its document). Everything is checked before anything is changed, and an id out of
range is reported with the number of its document, since NumPy would otherwise wrap it into another id without a word.

Cost: a few vectorised passes over the ids, about 3 ns a token.
"""

import json
from typing import Any

import numpy as np

from flatmix.store import format as layout


def one_document(ids: Any, number: int, place: str) -> np.ndarray:
    """The ids of one document, a sequence or array -> int[tokens]; ValueError where NumPy would make something else."""
    if isinstance(ids, np.ndarray):
        return ids
    ids = list(ids)
    array = np.array(ids) if ids else np.empty(0, np.uint32)
    if array.ndim == 1 and array.dtype.kind in "iu":
        return array
    for token in ids:
        if isinstance(token, bool) or not isinstance(token, int | np.integer) or not 0 <= token < layout.ID_LIMIT:
            raise ValueError(_bad_id(number, token, place))
    return np.array(ids, np.uint32)


def encode(ids: np.ndarray, lengths: np.ndarray, first: int, place: str) -> tuple[np.ndarray, np.ndarray]:
    """int[tokens], int[documents] -> encoded tokens, uint32[tokens], and where documents end, int64[documents].

    ValueError for anything else, and for ids outside [0, 2^31); documents are numbered from `first` there.
    """
    if ids.ndim != 1 or (ids.size and ids.dtype.kind not in "iu"):
        raise ValueError(f"ids must be one-dimensional integers, not {ids.dtype}{list(ids.shape)}, for {place}")
    if lengths.ndim != 1 or (lengths.size and lengths.dtype.kind not in "iu"):
        raise ValueError(
            f"lengths must be one-dimensional integers, not {lengths.dtype}{list(lengths.shape)}, for {place}"
        )
    if lengths.size and not 0 <= int(lengths.min()) <= int(lengths.max()) <= len(ids):
        raise ValueError(f"lengths must lie in [0, {len(ids)}], the number of ids, for {place}")
    lengths = lengths.astype(np.int64)
    ends = np.cumsum(lengths)
    if int(lengths.sum()) != len(ids):
        raise ValueError(f"lengths add up to {int(lengths.sum())}, and there are {len(ids)} ids, for {place}")
    bad = find_bad_id(ids, lengths)
    if bad is not None:
        at, document = bad
        raise ValueError(_bad_id(first + document, ids[at].item(), place))
    encoded = ids.astype(np.uint32)
    encoded <<= np.uint32(1)
    encoded[(ends - lengths)[lengths > 0]] |= np.uint32(1)
    return encoded, ends


def find_bad_id(ids: np.ndarray, lengths: np.ndarray) -> tuple[int, int] | None:
    """The first of ids, int[tokens], that no store can hold: its place, and its document. None if all are fine.

    Nothing is looked at where the type has no such ids.
    """
    if not len(ids):
        return None
    limits = np.iinfo(ids.dtype)
    if limits.min >= 0 and limits.max < layout.ID_LIMIT:
        return None
    if int(ids.min()) >= 0 and int(ids.max()) < layout.ID_LIMIT:
        return None
    at = int(np.flatnonzero((ids < 0) | (ids >= layout.ID_LIMIT))[0])
    return at, int(np.searchsorted(np.cumsum(lengths), at, side="right"))


def source_numbers(name: str, numbers: Any, documents: int, place: str) -> np.ndarray:
    """Source files or records, int[documents] -> the array's own type; ValueError for anything else."""
    if numbers is None:
        raise ValueError(f"{name} is missing: this writer records the sources of {place}")
    array, limits = np.asarray(numbers), np.iinfo(layout.DTYPES[name])
    if array.shape != (documents,) or (documents and array.dtype.kind not in "iu"):
        raise ValueError(f"{name} must be {documents} integers, not {array.dtype}{list(array.shape)}, for {place}")
    if documents and not 0 <= int(array.min()) <= int(array.max()) <= limits.max:
        raise ValueError(f"{name} must lie in [0, {limits.max}] for {place}")
    return array.astype(limits.dtype)


def plain_json(name: str, value: dict[str, Any] | None) -> dict[str, Any] | None:
    """A copy of a JSON object; ValueError when it is not plain JSON (NumPy integers, say, are not)."""
    try:
        copy = json.loads(json.dumps(value, allow_nan=False, ensure_ascii=False).encode())
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a plain JSON object: {error}") from error
    if copy is not None and not isinstance(copy, dict):
        raise ValueError(f"{name} must be a JSON object or None, not {value!r}")
    size, limit = len(json.dumps(copy, indent=8)), layout.METADATA_LIMIT // 2 - 2**16  # no smaller than in the file
    if size > limit:
        raise ValueError(
            f"{name} takes {size} bytes as JSON, and {limit} are allowed; name fewer or shorter files in it"
        )
    return copy


def _bad_id(number: int, token: Any, place: str) -> str:
    return f"document {number} of {place} has the id {token!r}; ids are integers from 0 to {layout.ID_LIMIT - 1}"
