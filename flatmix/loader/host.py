"""rows of encoded tokens -> the arrays of a batch, the same in NumPy and in jax.

An encoded token is 2 * id, plus 1 where it starts a document. The input of a target is the token before it, and 0 where
nothing may be seen before it: at the start of a document, and at the start of a row whose window has no extra token.

On the way stands, for every target, `before`: 2 * id of the token before it, plus 1 where that is not known, or where
the target is padding. From there on each element is on its own, so the columns may be divided over devices.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatmix.loader import kernels


@dataclass(frozen=True)
class RowFormat:
    """A row as it is read: a window of `length + extra_tokens` encoded tokens; where it is `counted`, one word more,
    how many of them are real, and 0 after those."""

    length: int
    extra_tokens: int = 0
    counted: bool = False

    @property
    def window(self) -> int:
        """Tokens of a window."""
        return self.length + self.extra_tokens

    @property
    def words(self) -> int:
        """uint32 values of a row."""
        return self.window + self.counted


@dataclass(frozen=True)
class HostBatch:
    """Rows of a batch as NumPy arrays: uint32[rows, len] and bool[rows, len]; language int32[rows]."""

    inputs: NDArray[np.uint32]
    targets: NDArray[np.uint32]
    is_seq_start: NDArray[np.bool_]
    loss_mask: NDArray[np.bool_]
    language: NDArray[np.int32]


def split_rows(rows: Any, form: RowFormat, xp: ModuleType) -> tuple[Any, Any]:
    """uint32[rows, words] -> (own, before), uint32[rows, length] each. `xp` is numpy or jax.numpy, that of `rows`."""
    extra = form.extra_tokens
    own = rows[:, extra : form.window]
    if extra:
        before = rows[:, extra - 1 : form.window - 1] >> 1 << 1
    else:
        before = xp.concatenate([xp.ones_like(own[:, :1]), own[:, :-1] >> 1 << 1], axis=1)
    if form.counted:
        padding = xp.arange(extra, form.window, dtype=np.uint32)[None, :] >= rows[:, form.window :]
        before = before | padding.astype(np.uint32)
    return own, before


def batch_fields(own: Any, before: Any, xp: ModuleType) -> tuple[Any, Any, Any, Any]:
    """(own, before) -> (inputs, targets, is_seq_start, loss_mask), element by element."""
    is_seq_start = (own & 1) == 1
    inputs = xp.where(is_seq_start, xp.zeros_like(before), before >> 1)
    return inputs, own >> 1, is_seq_start, is_seq_start | ((before & 1) == 0)


def host_batch(
    rows: NDArray[np.uint32], form: RowFormat, language: NDArray[np.int64], empty: Callable[..., Any] = np.empty
) -> HostBatch:
    """uint32[rows, words] and int64[rows] -> the arrays of those rows, made by `empty`. The two functions above, in one
    pass."""
    shape = len(rows), form.length
    inputs, targets = empty(shape, np.uint32), empty(shape, np.uint32)
    is_seq_start, loss_mask = empty(shape, np.bool_), empty(shape, np.bool_)
    kernels.decode(rows, form.extra_tokens, form.counted, inputs, targets, is_seq_start, loss_mask)
    return HostBatch(inputs, targets, is_seq_start, loss_mask, language.astype(np.int32))
