"""path or address -> bytes, size and stamp: one way to what lies on this machine and to what lies elsewhere.

What holds "://" is an address. fsspec opens those, in ranges, with a package for each protocol that is asked for when
it is needed and not before. Whatever such a package raises becomes a ReadError with the address and the cause, since
half of their errors are no OSError and name neither.

Reading costs one buffer here, and READ_AHEAD bytes for an address.
"""

import io
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from flatmix.errors import ConvertError, ReadError

READ_AHEAD = 2**23  # bytes of a request; a request takes about as long as the transfer of some MB

_PACKAGES = {
    "abfs": "adlfs",
    "az": "adlfs",
    "gcs": "gcsfs",
    "gs": "gcsfs",
    "hf": "huggingface_hub",
    "http": "aiohttp",
    "https": "aiohttp",
    "s3": "s3fs",
    "s3a": "s3fs",
}
_MARKS = ("ETag", "etag", "blob_id")  # of the content, wherever a file system has one
_TIMES = ("LastModified", "last_modified", "mtime", "updated", "created")


class Stream(io.RawIOBase):
    """The bytes of a file from `start` on; every failure is a ReadError. A context manager."""

    def __init__(self, path: str, start: int = 0) -> None:
        super().__init__()
        self.path, self.position = path, start  # up to where it was read
        self._file = None
        with _told(path, "cannot be opened"):
            self._file = _open(path)
            if start:
                self._file.seek(start)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _told(self.path, f"cannot be read from byte {self.position} on"):
            got = self._file.readinto(buffer)
        self.position += got
        return got

    def close(self) -> None:
        if not self.closed and self._file is not None:
            self._file.close()
        super().close()


def is_remote(path: str) -> bool:
    """Whether it is an address, and no local path."""
    return "://" in path


def size_and_stamp(path: str) -> tuple[int, str]:
    """The bytes of a file as they are now, 0 where that is unknown, and what differs when they do.

    ReadError for a file that is not there, or cannot be reached.
    """
    if is_remote(path):
        file_system, inside = file_system_of(path)
        with _told(path, "cannot be reached"):
            file_system.invalidate_cache()
            return stamp_of(file_system.info(inside))
    with _told(path, "cannot be reached"):
        found = os.stat(path)  # noqa: PTH116
    if not stat.S_ISREG(found.st_mode):
        raise ReadError(f"{path} is no file any more")
    return found.st_size, f"{found.st_size}-{found.st_mtime_ns}"


def file_system_of(address: str) -> tuple[Any, str]:
    """fsspec's file system for an address, and the path in it; ConvertError where there is none."""
    protocol = address.partition("://")[0]
    if "::" in address:
        raise ConvertError(f"{address}: what lies within another file cannot be converted; unpack it")
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        raise _missing(address, "fsspec") from None
    try:
        with _told(address, "cannot be reached", (ImportError, ValueError)):
            return url_to_fs(address)
    except ImportError as error:
        raise _missing(address, _PACKAGES.get(protocol), error) from error
    except ValueError as error:
        raise ConvertError(f"{address} is no address that can be opened: {error}") from error


def stamp_of(info: dict[str, Any]) -> tuple[int, str]:
    """The size and the stamp out of what fsspec tells of a file."""
    size = info.get("size") or 0
    told = next((info[key] for key in (*_MARKS, *_TIMES) if info.get(key)), "")
    told = told.timestamp() if isinstance(told, datetime) else told  # some list seconds, and tell the time of one file
    return size, f"{size or ''}-{told}".replace('"', "").strip("-")


def list_remote(
    address: str, select: Callable[[Any, str], dict[str, dict[str, Any]]]
) -> tuple[str, dict[str, tuple[int, str]]]:
    """The files that `select` finds in a file system at a path: the address, and {address: (size, stamp)}, all spelt as
    the file system does.

    What the listing says of them is taken; only where it knows no size is a file asked for it.
    """
    file_system, inside = file_system_of(address)
    with _told(address, "cannot be listed"):
        file_system.invalidate_cache()
        found = {}
        for path, info in select(file_system, inside).items():
            info = info if info.get("size") is not None else file_system.info(path)
            found[file_system.unstrip_protocol(path)] = stamp_of(info)
        return file_system.unstrip_protocol(inside), found


def _open(path: str) -> Any:
    if not is_remote(path):
        return Path(path).open("rb", buffering=0)
    file_system, inside = file_system_of(path)
    return file_system.open(inside, "rb", block_size=READ_AHEAD, cache_type="readahead")


def _missing(address: str, package: str | None, error: ImportError | None = None) -> ConvertError:
    way = f"pip install {package}" if package else str(error)
    return ConvertError(f"{address}: the package that opens such addresses is not there; {way}")


@contextmanager
def _told(path: str, what: str, but: tuple[type[Exception], ...] = ()) -> Iterator[None]:
    """ReadError with the place for whatever is raised within, except those of flatmix itself and `but`."""
    try:
        yield
    except (ConvertError, ReadError, *but):
        raise
    except OSError as error:
        raise ReadError(f"{path} {what}: {error.strerror or f'{type(error).__name__}: {error}'}") from error
    except Exception as error:
        if not is_remote(path):
            raise
        raise ReadError(f"{path} {what}: {type(error).__name__}: {error}") from error
