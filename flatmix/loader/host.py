"""encoded tokens -> the arrays of a batch, the same in NumPy and in jax.

An encoded token is 2 * id, plus 1 where it starts a document. The input of a target is the token before it, and 0 where
nothing may be seen before it: at the start of a document, and at the start of a row whose window has no extra token.
"""

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class HostBatch:
    """Rows of a batch as NumPy arrays: uint32[rows, len] and bool[rows, len]; language int32[rows]."""

    inputs: NDArray[np.uint32]
    targets: NDArray[np.uint32]
    is_seq_start: NDArray[np.bool_]
    loss_mask: NDArray[np.bool_]
    language: NDArray[np.int32]


def decode(encoded: Any, length: int, xp: ModuleType) -> tuple[Any, Any, Any, Any]:
    """(inputs, targets, is_seq_start, loss_mask), [rows, length] each, of uint32[rows, length + extra_tokens].

    `xp` is the module of the array, numpy or jax.numpy.
    """
    extra_tokens = encoded.shape[1] - length
    own = encoded[:, extra_tokens:]
    is_seq_start = (own & 1) == 1
    targets = own >> 1
    known = xp.ones(own.shape, bool)
    if extra_tokens:
        before = encoded[:, extra_tokens - 1 : -1] >> 1
    else:
        before = xp.concatenate([xp.zeros_like(targets[:, :1]), targets[:, :-1]], axis=1)
        known = xp.concatenate([is_seq_start[:, :1], known[:, 1:]], axis=1)
    inputs = xp.where(is_seq_start, xp.zeros_like(before), before)
    return inputs, targets, is_seq_start, known


def host_batch(encoded: NDArray[np.uint32], length: int, language: NDArray[np.int64]) -> HostBatch:
    return HostBatch(*decode(encoded, length, np), language.astype(np.int32))
