"""The words in which what is read and what comes of it are spoken of: plain values that a file can hold.

An `Input` is one file, one shard or one saved table. It is read in stretches, of bytes or rows as its kind counts them,
each by whichever worker has the time; a `Stretch` is where one begins and ends. What comes out is a `Record` for each
line or row, or a `TokenRun` where the input holds tokens already. Nothing here reads anything.
"""

from typing import Any, NamedTuple

import msgspec
import numpy as np


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to be read, as every worker can open it."""

    path: str  # a local path, a URL, or hf:NAME:CONFIG:SPLIT
    name: str  # what the store keeps of it, in `source.files`: relative, the same wherever it lies
    kind: str  # the reader that it needs
    size: int  # bytes, for the division of work and for progress
    stamp: str = ""  # differs when the content does, as far as the place can tell; "" where it cannot
    options: dict[str, Any] = {}  # of its kind; plain JSON


class Stretch(msgspec.Struct, frozen=True, array_like=True):
    """Part of one input: from `start` up to `stop`, in the unit of its kind; None is the end."""

    input: int  # its place among the inputs of its source
    start: int
    stop: int | None
    size: int  # bytes of it, about


class Fields(NamedTuple):
    """The names of the fields that hold the text and, if records name it, the language."""

    text: str = "text"
    language: str | None = None


class Record(NamedTuple):
    """One line or row. Records are numbered by their sequence in the input, so each one counts, blank and bad ones too.

    A blank line has neither text nor problem.
    """

    end: int  # bytes of the stretch up to the end of this record, about
    language: str | None  # None where the record does not say
    text: str | None
    problem: str | None = None  # why it is no document, without its place


class TokenRun(NamedTuple):
    """Whole documents that are tokens already."""

    end: int  # bytes of the stretch up to the end of the last of them, about
    ids: np.ndarray  # uint32[tokens] of all of them
    lengths: np.ndarray  # int64[documents]
