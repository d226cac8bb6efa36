"""rows of encoded tokens -> the arrays of a batch, the same in NumPy and in jax.

An encoded token is 2 * id, plus 1 where it starts a document. The input of a target is the token before it, and 0 where
nothing may be seen before it: at the start of a document, and at the start of a row whose window has no extra token.

Where the columns are divided over devices, a row goes as two arrays: beside each target's own encoded token stands
`before`, 2 * id of the token before it (0 where nothing may be seen), plus 1 where the loss does not count. From there
on each element is on its own.
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


def row_fields(rows: Any, form: RowFormat, xp: ModuleType) -> tuple[Any, Any, Any, Any]:
    """uint32[rows, words] -> inputs, targets, is_seq_start, loss_mask: [rows, length] each. `xp` is numpy or jax.numpy,
    that of `rows`."""
    extra = form.extra_tokens
    own = rows[:, extra : form.window]
    starts = own & 1
    is_seq_start = starts == 1
    known = xp.ones_like(is_seq_start)
    if extra:
        before = rows[:, extra - 1 : form.window - 1] >> 1
    else:
        before = xp.concatenate([xp.zeros_like(own[:, :1]), own[:, :-1] >> 1], axis=1)
        known = xp.concatenate([is_seq_start[:, :1], known[:, 1:]], axis=1)
    if form.counted:
        real = xp.arange(extra, form.window, dtype=np.uint32)[None, :] < rows[:, form.window :]
        known = is_seq_start | (known & real)
    return before * (1 - starts), own >> 1, is_seq_start, known


def split_rows(rows: NDArray[np.uint32], form: RowFormat) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """uint32[rows, words] -> own and before, uint32[rows, length] each."""
    inputs, _, _, known = row_fields(rows, form, np)
    before = inputs << 1 | ~known
    return np.ascontiguousarray(rows[:, form.extra_tokens : form.window]), before


def split_fields(own: Any, before: Any) -> tuple[Any, Any, Any, Any]:
    """Own and before, uint32[rows, columns] of NumPy or JAX -> inputs, targets, is_seq_start, loss_mask."""
    return before >> 1, own >> 1, (own & 1) == 1, (before & 1) == 0


def host_batch(
    rows: NDArray[np.uint32], form: RowFormat, language: NDArray[np.int64], empty: Callable[..., Any] = np.empty
) -> HostBatch:
    """uint32[rows, words] and int64[rows] -> what `row_fields` says, in one pass, in arrays that `empty` makes."""
    shape = len(rows), form.length
    inputs, targets = empty(shape, np.uint32), empty(shape, np.uint32)
    is_seq_start, loss_mask = empty(shape, np.bool_), empty(shape, np.bool_)
    kernels.decode(rows, form.extra_tokens, form.counted, inputs, targets, is_seq_start, loss_mask)
    return HostBatch(inputs, targets, is_seq_start, loss_mask, language.astype(np.int32))
