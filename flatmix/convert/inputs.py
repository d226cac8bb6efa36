"""What is read, and what comes of it, in words that all kinds of input share: plain values that a file can hold.

An `Input` is one file, one table or one split of a store. It is read in stretches, in the unit of its kind, each by
whoever has the time; what comes out are `Record`s of text, or `TokenRun`s. Nothing here reads anything.
"""

from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import numpy as np

from flatmix.store.format import check_name


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to be read, as every worker can open it."""

    path: str  # a local path, an address, or the name of a data set
    name: str  # what the store keeps of it, in `source.files`: relative, the same wherever it lies
    kind: str  # the reader that it needs
    size: int  # bytes, for the division of work and for progress; 0 where that is unknown
    stamp: str = ""  # differs when the content does, as far as the place can tell; "" where it cannot
    options: dict[str, Any] = {}  # of its kind; plain JSON


class Fields(msgspec.Struct, frozen=True):
    """The names of the fields, or columns, that hold the text and, if records name it, the language."""

    text: str = "text"
    language: str | None = None


class Cut(NamedTuple):
    """A stretch of an input, in the unit of its kind: bytes, rows, tokens or documents."""

    start: int
    stop: int | None  # None: to the end, wherever that is
    size: int  # bytes, about


class Record(NamedTuple):
    """One line of a file or row of a table; a document, unless it is blank or has a problem.

    Every line counts, the blank and the broken as well, so the place of a record in its input is the number of records
    before it.
    """

    end: int  # bytes of the stretch up to its end, about
    language: str | None  # None where records do not name it
    text: str | None  # None where it is no document
    problem: str | None = None  # why it is none, without its place; None for a blank line


class TokenRun(NamedTuple):
    """Whole documents that are tokens already."""

    end: int  # bytes of the stretch up to the end of the last of them, about
    ids: np.ndarray  # uint32[tokens] of all of them
    lengths: np.ndarray  # int64[documents]


@lru_cache(maxsize=2**12)  # records name few, and a field of anything else must not fill memory
def language_problem(language: str) -> str | None:
    """Why the language that a record names can be none; None for a good one."""
    try:
        check_name("language", language)
    except ValueError as error:
        return str(error)
    return None
