"""What is read, and what comes of it, in words that all kinds of input share: plain values that a file can hold.

An `Input` is one file or one split of a store. It is read in stretches, in the unit of its kind, each by whoever has
the time; what comes out are `TokenRun`s. Nothing here reads anything.
"""

from typing import Any, NamedTuple

import msgspec
import numpy as np


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to be read, as every worker can open it."""

    path: str  # a local path
    name: str  # what the store keeps of it, in `source.files`: relative, the same wherever it lies
    kind: str  # the reader that it needs
    size: int  # bytes, for the division of work and for progress
    stamp: str = ""  # differs when the content does, as far as the place can tell; "" where it cannot
    options: dict[str, Any] = {}  # of its kind; plain JSON


class TokenRun(NamedTuple):
    """Whole documents that are tokens already."""

    end: int  # bytes of the stretch up to the end of the last of them, about
    ids: np.ndarray  # uint32[tokens] of all of them
    lengths: np.ndarray  # int64[documents]
