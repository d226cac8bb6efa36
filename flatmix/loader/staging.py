"""Memory for blocks on their way to the pool."""

import numpy as np
from numpy.typing import NDArray


class Staging:
    """Memory for blocks of rows of `words` uint32 values, used again and again; `size` bytes in all."""

    def __init__(self, words: int, size: int):
        self._words, self._size = words, size
        self.forget()

    def forget(self) -> None:
        self._free: list[NDArray[np.uint32]] = []
        self._left = self._size

    def take(self, windows: int) -> NDArray[np.uint32] | None:
        """Memory for so many windows, if there is any."""
        for number in reversed(range(len(self._free))):  # the last one used is still in the processor's cache
            if len(self._free[number]) == windows:
                return self._free.pop(number)
        wanted = 4 * windows * self._words
        while self._left < wanted and self._free:  # of blocks of another size
            self._left += self._free.pop(0).nbytes
        if self._left < wanted:
            return None
        self._left -= wanted
        return np.empty((windows, self._words), np.uint32)

    def give(self, memory: NDArray[np.uint32]) -> None:
        """Takes memory back that no read can write into any more."""
        self._free.append(memory)

    def lose(self, memory: NDArray[np.uint32]) -> None:
        """Leaves memory to a read that may still write into it."""
        self._left += memory.nbytes
