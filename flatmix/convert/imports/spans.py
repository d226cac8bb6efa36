"""(file, byte, count) -> numbers: exactly as many as were asked for, or an error that says how far the file goes.

Plain reads and no mapping of the file: a file that became shorter is then an error and not a signal that ends the
process, and memory is what is asked for. Offsets are Python's integers, so files may be of any size.
"""

import os
import stat
from pathlib import Path
from typing import Self

import numpy as np

from flatmix.errors import ConvertError, ReadError


class SpanFile:
    """An open file, read in spans; a context manager."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            self._file = Path(path).open("rb", buffering=0)  # noqa: SIM115  closed by the context
        except OSError as error:
            raise ReadError(f"{path} cannot be opened: {error.strerror}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, offset: int, count: int, dtype: str) -> np.ndarray:
        """`count` numbers from byte `offset` on, dtype[count]; ReadError where the file ends before, or fails."""
        values = np.empty(count, dtype)
        left = memoryview(values.view(np.uint8))
        try:
            self._file.seek(offset)
            while len(left):
                got = self._file.readinto(left)
                if not got:
                    size, wanted = os.fstat(self._file.fileno()).st_size, offset + values.nbytes
                    raise ReadError(f"{self.path} has {size} bytes, and {wanted} at least belong to it: it was cut")
                left = left[got:]
        except OSError as error:
            if isinstance(error, ReadError):
                raise
            raise ReadError(f"{self.path} cannot be read from byte {offset} on: {error.strerror}") from error
        return values


def size_and_stamp(path: str) -> tuple[int, str]:
    """The bytes of a file, and what differs when it does. ConvertError where there is no such file."""
    try:
        found = os.stat(path)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        raise ConvertError(f"{path}: there is no such file") from None
    if not stat.S_ISREG(found.st_mode):
        raise ConvertError(f"{path} is no file, and a file of tokens is one")
    return found.st_size, f"{found.st_size}-{found.st_mtime_ns}"
