"""Memory for batches, used again when nobody can see it any more.

New memory costs several times what is done with it: the kernel clears each page at its first touch, and the allocator
gives pages back whenever a batch is dropped. So the last few arrays are kept, and one is given out again when nothing
but this module refers to it. That is the moment at which Python would free it: whoever shares its memory, a view or a
jax.Array over it, holds a reference, and is never written over.
"""

import math
import sys
import threading
from collections import deque
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

_KEPT = 32  # arrays: those of a few batches
_ALIGNED = 64  # bytes: a jax.Array on the CPU then takes the memory as it is
_COUNTED = getattr(sys, "_is_gil_enabled", lambda: True)()  # without the GIL, counts of references are not exact


class Recycler:
    """Arrays whose memory is used again. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: deque[tuple[NDArray[np.uint8], NDArray[np.uint8]]] = deque(maxlen=_KEPT)  # and the aligned part
        self._kept.append(_allocate(0))
        self._idle = self._references(0)  # of memory that is nowhere but in there

    def empty(self, shape: tuple[int, ...], dtype: DTypeLike) -> NDArray[Any]:
        """As numpy.empty: the caller's own, with whatever content."""
        size = math.prod(shape) * np.dtype(dtype).itemsize
        with self._lock:
            for number in range(len(self._kept)):
                part = self._kept[number][1]
                if part.nbytes == size and _COUNTED and self._references(number) == self._idle:
                    break
            else:
                self._kept.append(_allocate(size))
                part = self._kept[-1][1]
            return part.view(dtype).reshape(shape)

    def clear(self) -> None:
        """Keeps nothing any more. What was given out stays as it is."""
        with self._lock:
            self._kept.clear()

    def _references(self, number: int) -> int:
        return sys.getrefcount(self._kept[number][0])


def _allocate(size: int) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    memory = np.empty(size + _ALIGNED, np.uint8)
    first = -memory.__array_interface__["data"][0] % _ALIGNED
    return memory, memory[first : first + size]
