"""A store whose every read takes a while, as one far away would.

Within `slow_reads`, what loaders read takes at least `delay` seconds from its turn on, and at most `at_most` reads have
their turn at once; the others stand in line, in the sequence in which they were asked for. What is read is not changed.
"""

import contextlib
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future as Task
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np

from flatmix.store.reader import Reader
from flatmix.store.split import Split


@dataclass
class Counted:
    """What was read: how many spans, and how many of them were under way at once at most."""

    reads: int = 0
    under_way: int = 0
    most: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def enter(self) -> None:
        with self.lock:
            self.reads += 1
            self.under_way += 1
            self.most = max(self.most, self.under_way)

    def leave(self) -> None:
        with self.lock:
            self.under_way -= 1


@dataclass(frozen=True)
class _SlowFuture:
    task: Task[None]

    def result(self, timeout: float | None = None) -> None:
        self.task.result(timeout)

    def done(self) -> bool:
        return self.task.done()


@dataclass(frozen=True)
class _SlowReader:
    reader: Reader
    pool: ThreadPoolExecutor
    delay: float
    counted: Counted

    def read(self, start: int, stop: int, out: np.ndarray) -> _SlowFuture:
        return _SlowFuture(self.pool.submit(self._read, start, stop, out))

    def _read(self, start: int, stop: int, out: np.ndarray) -> None:
        self.counted.enter()
        try:
            end = time.monotonic() + self.delay
            self.reader.read(start, stop, out).result()
            time.sleep(max(0.0, end - time.monotonic()))
        finally:
            self.counted.leave()


@contextlib.contextmanager
def slow_reads(delay: float, at_most: int) -> Iterator[Counted]:
    """Loaders made inside read slowly. Close them before it ends: reads that still stand in line are not made."""
    real, counted = Split.reader, Counted()
    pool = ThreadPoolExecutor(at_most, "flatmix-slow")

    def reader(split: Split, threads: int | None = None) -> Reader:
        return _SlowReader(real(split, threads), pool, delay, counted)

    Split.reader = reader
    try:
        yield counted
    finally:
        Split.reader = real
        pool.shutdown(cancel_futures=True)
