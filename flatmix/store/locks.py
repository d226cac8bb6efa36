"""folder -> its only writer, for as long as that one holds it or lives.

The lock is the system's (flock), on the folder itself: it leaves no file in a Zarr group, and it goes with the process,
however that ends. It reaches the processes of one machine. Where a file system has no such locks, as some network ones,
or the system has none, nothing is locked.

Cost: a few system calls.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None


@contextlib.contextmanager
def locked(folder: Path, wait: bool, shared: bool = False) -> Iterator[None]:
    """Holds the lock of `folder`, a folder that is there; BlockingIOError where another has it, unless it may `wait`.

    Two of one process exclude each other as those of two processes do. Those that ask for a `shared` one exclude none
    but those that do not.
    """
    handle = os.open(folder, os.O_RDONLY) if fcntl is not None else None
    try:
        if handle is not None:
            _flock(handle, fcntl.LOCK_SH if shared else fcntl.LOCK_EX, wait)
        yield
    finally:
        if handle is not None:
            with contextlib.suppress(OSError):
                fcntl.flock(handle, fcntl.LOCK_UN)  # closing is not enough where a forked child has the handle too
            os.close(handle)


def _flock(handle: int, kind: int, wait: bool) -> None:
    try:
        fcntl.flock(handle, kind | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        raise
    except OSError:  # this file system has no such locks
        pass


def is_being_written(folder: Path) -> bool:
    """Whether a writer has the split in `folder`, or is about to replace it; False where nothing is there."""
    try:
        # With the language's own lock, as writers begin, so that none of them meets this look instead of another.
        with locked(folder.parent, wait=True), locked(folder, wait=False):
            return False
    except BlockingIOError:
        return True
    except (FileNotFoundError, NotADirectoryError):
        return False
