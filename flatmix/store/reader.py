"""A span of an array -> memory that the caller owns, as a future.

The one promise is that `result()` returns when every entry of the span stands in `out`, and raises ReadError when
that cannot be: a missing, shortened or altered chunk is never filled with something else. Behind the `Reader`
protocol stands TensorStore, which decodes straight into `out`, outside the GIL, many spans at once; tests put fakes
behind the same protocol.

Cost: 0.1 to 0.2 ms for a row read alone among others, most of it the decoding of one chunk; 3 to 4 ns of CPU a token in
long spans. For short ones each reader keeps up to CACHE_BYTES of shard indexes and of the chunks used last, so that a
row read alone costs one request instead of two where the split has some ten shards or fewer; to keep the chunks of long
spans would cost a quarter more than to read them. Threads are counted for the process, not for each reader. In Zarr v2,
whose chunks are 256 times as long, any read costs 10 ms a chunk.
"""

import functools
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import tensorstore as ts

from flatmix.errors import ReadError, StoreError
from flatmix.store.arrays import ArrayMetadata
from flatmix.store.format import ATTRIBUTES_V2, ENCODED_TOKENS, METADATA, PieceDigests
from flatmix.store.metadata import read_group

CACHE_BYTES = 2**20
_LONG_CHUNKS = 4  # a span of so many chunks or more goes around the cache
_CHECK_VALUES = 2**20  # values read at once when all of an array is read: 4 to 8 MB

_used = _forked = False


def _after_fork() -> None:
    global _forked
    _forked = _used  # TensorStore's threads did not come along, and it aborts the process that misses them


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class Future(Protocol):
    """A read that is under way."""

    def result(self, timeout: float | None = None) -> None:
        """Waits until `out` is filled, at most `timeout` seconds (TimeoutError); ReadError when it cannot be filled."""
        ...

    def done(self) -> bool:
        """Whether `result` would wait for nothing."""
        ...


class Reader(Protocol):
    """Spans of encoded_tokens -> memory that the caller owns."""

    def read(self, start: int, stop: int, out: np.ndarray) -> Future:
        """Begins to fill `out`, uint32[stop - start], C-contiguous and writeable, with the tokens [start, stop).

        `out` must stay untouched until `result()` has returned; after a timeout or an error it may still be written
        to, and must not be used for anything else. IndexError for a span outside the array, ValueError for memory
        that does not fit.
        """
        ...


class TensorStoreReader:
    """A Reader of one array of a split; `place` says in messages where the array is.

    With the `attributes` that the split was opened with, a split that was replaced since then is a ReadError.
    """

    def __init__(
        self,
        folder: str,
        metadata: ArrayMetadata,
        place: str,
        threads: int | None = None,
        attributes: dict[str, Any] | None = None,
    ) -> None:
        self.metadata = metadata
        self.dtype = np.dtype(metadata.dtype)
        self.place = place
        self._folder = folder
        self._check_process()
        self._limits = _limits(threads)
        self._guard = None if attributes is None else _Guard(folder, metadata.zarr_format, attributes)
        self._long = _LONG_CHUNKS * metadata.chunk
        self._array = self._open(CACHE_BYTES)

    def read(self, start: int, stop: int, out: np.ndarray) -> Future:
        """As Reader.read; `out` has the array's dtype and the shape [stop - start, *other axes of the array]."""
        start, stop = int(start), int(stop)
        self.check_span(start, stop)
        rest = self.metadata.shape[1:]
        if out.dtype != self.dtype or out.shape != (stop - start, *rest):
            wanted = f"{self.dtype}[{', '.join(map(str, (stop - start, *rest)))}]"
            raise ValueError(f"[{start}, {stop}) needs memory of {wanted}, not {out.dtype}{list(out.shape)}")
        if not (out.flags.c_contiguous and out.flags.writeable):
            raise ValueError("the memory to read into must be C-contiguous and writeable")
        self._check_process()
        array = self._array if stop - start < self._long else self._uncached
        return _Reading(self, start, stop, ts.array(out).write(array[start:stop].translate_to[0]))

    @functools.cached_property
    def _uncached(self) -> ts.TensorStore:
        return self._open(0)

    def _check_same(self) -> None:
        """After a read: a replaced split's chunks are opened by the same paths."""
        if self._guard is not None and self._guard.changed():
            raise ReadError(
                f"{self.place} is gone or was replaced while it was open: its tokens are others now; make a new loader"
            )

    def check_span(self, start: int, stop: int) -> None:
        """Raises IndexError unless [start, stop) lies in the array."""
        length = self.metadata.shape[0]
        if not 0 <= start <= stop <= length:
            what = f"{self.metadata.name} of {self.place}"
            raise IndexError(f"[{start}, {stop}) is not a span of [0, {length}) in {what}")

    def _check_process(self) -> None:
        if _forked:
            raise ReadError(
                f"cannot read {self.place}: this process was forked from one that had read a store; "
                "start workers by spawn or forkserver"
            )

    def _open(self, cache_bytes: int) -> ts.TensorStore:
        global _used
        _used = True
        spec = {
            "driver": "zarr3" if self.metadata.zarr_format == 3 else "zarr",
            "kvstore": {"driver": "file", "path": f"{self._folder}/{self.metadata.name}/"},
            "metadata": self.metadata.raw,  # what was checked is what is used: the file is not read a second time
            "assume_metadata": True,  # an `open=True` below would undo this
            "fill_missing_data_reads": False,  # otherwise a missing chunk reads as zeros
            "recheck_cached_data": "open",  # a completed split does not change: do not ask before each use of the cache
        }
        # A cache for each reader, so that no language pushes out the shard indexes of another; threads are shared.
        context = ts.Context({"cache_pool": {"total_bytes_limit": cache_bytes}}, self._limits)
        try:
            return ts.open(spec, read=True, context=context).result()
        except Exception as error:
            raise StoreError(f"{self.metadata.name} of {self.place} cannot be opened: {error}") from error

    def damaged_chunks(self, start: int, stop: int) -> Iterator[tuple[int, int, Exception]]:
        """Reads [start, stop) anew, chunk by chunk -> [first, last) of each that fails, and why."""
        fresh, self._array = self._open(0), self._open(CACHE_BYTES)  # what is cached, absence too, may have changed
        chunk = self.metadata.chunk
        for first in range(start // chunk * chunk, stop, chunk):
            last = min(first + chunk, self.metadata.shape[0])
            scratch = np.empty((last - first, *self.metadata.shape[1:]), self.dtype)
            try:
                ts.array(scratch).write(fresh[first:last].translate_to[0]).result()
            except Exception as error:
                yield first, last, error

    def _explain(self, start: int, stop: int, cause: Exception) -> ReadError:
        """The ReadError for a span that failed, which names the first chunk that fails."""
        unit = "tokens" if self.metadata.name == ENCODED_TOKENS else "entries"
        what = f"{self.metadata.name} of {self.place}"
        chunk, shard = self.metadata.chunk, self.metadata.shard
        for first, last, error in self.damaged_chunks(start, stop):
            place = f" (in shard {first // shard})" if shard else ""
            number = f"chunk {first // chunk}{place}, which holds the {unit} [{first}, {last})"
            return ReadError(f"{what}: {number}, is missing or damaged: {error}")
        return ReadError(
            f"{what}: the {unit} [{start}, {stop}) could not be read, though each chunk can be now: {cause}"
        )


class _Guard:
    """Whether a split still has the attributes it was opened with, its digest among them; costs a stat each time."""

    def __init__(self, folder: str, zarr_format: int, attributes: dict[str, Any]) -> None:
        self._folder, self._zarr_format, self._attributes = Path(folder), zarr_format, attributes
        self._file = str(self._folder / (METADATA if zarr_format == 3 else ATTRIBUTES_V2))
        self._stamp: tuple[int, ...] | None = None  # of the file, when it was last read

    def changed(self) -> bool:
        try:
            found = os.stat(self._file)  # noqa: PTH116  pathlib takes four times as long, and this comes with every read
        except OSError:
            return True
        stamp = found.st_ino, found.st_mtime_ns, found.st_size
        if stamp != self._stamp:
            group = read_group(self._folder, self._zarr_format)
            if group is None or group.attributes != self._attributes:
                return True
            self._stamp = stamp  # the same, also where it is a copy that was put back
        return False


class _Reading:
    """The Future of a TensorStoreReader."""

    def __init__(self, reader: TensorStoreReader, start: int, stop: int, futures: ts.WriteFutures) -> None:
        self._reader, self._start, self._stop = reader, start, stop
        self._futures = futures

    def done(self) -> bool:
        return self._futures.done()

    def result(self, timeout: float | None = None) -> None:
        try:
            self._futures.result(timeout)
        except Exception as error:
            if isinstance(error, TimeoutError) and not self._futures.done():
                raise
            self._reader._check_same()
            raise self._reader._explain(self._start, self._stop, error) from error
        self._reader._check_same()


@functools.cache
def _limits(threads: int | None) -> ts.Context:
    """The thread limits that all readers asking for the same number share; None leaves them to TensorStore."""
    if threads is None:
        return ts.Context()
    if type(threads) is not int or threads < 1:
        raise ValueError(f"threads must be None or an integer of at least 1, not {threads!r}")
    return ts.Context({"data_copy_concurrency": {"limit": threads}, "file_io_concurrency": {"limit": threads}})


def digest_array(reader: TensorStoreReader, first: int = 0, stop: int | None = None) -> bytes:
    """Reads values [first, stop) of a one-dimensional array -> the digests of runs of PIECE of them.

    Of the whole array, these are what `piece_digests` should hold.
    """
    stop = reader.metadata.shape[0] if stop is None else stop
    digests = PieceDigests()
    out = np.empty(min(stop - first, _CHECK_VALUES), reader.dtype)
    for start in range(first, stop, _CHECK_VALUES):
        part = out[: min(stop - start, _CHECK_VALUES)]
        reader.read(start, start + len(part), part).result()
        digests.update(part)
    return digests.finish()
