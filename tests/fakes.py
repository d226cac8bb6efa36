"""A Reader that stands between a loader and its store: it lists what is read, and lets a test delay or fail it."""

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from flatmix.store.split import Split

WORTHLESS = 0xDEADBEEF


@dataclass(eq=False)
class Read:
    """One read: the tokens [start, stop) of a language. `out` is kept, so that its memory is not given out again."""

    number: int
    language: str
    start: int
    stop: int
    out: np.ndarray
    waited_for: bool = False
    in_time: bool = True  # it had arrived when it was waited for

    @property
    def tokens(self) -> int:
        return self.stop - self.start

    @property
    def memory(self) -> tuple[int, int]:
        """The addresses [first, last)."""
        first = self.out.__array_interface__["data"][0]
        return first, first + self.out.nbytes


def _nothing(read: Read) -> None:
    pass


@dataclass
class Disk:
    """What all readers made under it share.

    `on_read` is called when a read is started and `on_result` when it is waited for; either may sleep or raise.
    With `arrived`, which says whether a read is done each time that somebody asks, memory holds WORTHLESS before a read
    is waited for, and reads that have failed go on writing that into theirs.
    """

    on_read: Callable[[Read], None] = _nothing
    on_result: Callable[[Read], None] = _nothing
    arrived: Callable[[Read], bool] | None = None
    reads: list[Read] = field(default_factory=list)
    failed: list[Read] = field(default_factory=list)
    failing: set[int] = field(default_factory=set)  # for the hooks of a test: numbers of reads
    lock: threading.Lock = field(default_factory=threading.Lock)

    def started(self, language: str, start: int, stop: int, out: np.ndarray) -> Read:
        with self.lock:
            read = Read(len(self.reads), language, start, stop, out)
            self.reads.append(read)
            if self.arrived is not None:
                for other in (*self.failed, read):
                    other.out[:] = WORTHLESS
        self.on_read(read)
        return read

    def spans(self, at_least: int = 0, below: int = 2**63) -> list[tuple[str, int, int]]:
        """(language, start, stop) of the reads of at least and below so many tokens."""
        return [(read.language, read.start, read.stop) for read in self.reads if at_least <= read.tokens < below]


def after_asking(times: Sequence[int]) -> Callable[[Read], bool]:
    """An `arrived`: reads are done when they have been asked for so many times, each by its number, going round."""
    asked: Counter[int] = Counter()

    def arrived(read: Read) -> bool:
        asked[read.number] += 1
        return asked[read.number] > times[read.number % len(times)]

    return arrived


@dataclass
class FakeFuture:
    disk: Disk
    read: Read
    start: Callable[[], Any]
    future: Any = None

    def done(self) -> bool:
        return self.future.done() if self.disk.arrived is None else self.disk.arrived(self.read)

    def result(self, timeout: float | None = None) -> None:
        if self.disk.arrived is not None:
            self.read.in_time = self.disk.arrived(self.read)
        try:
            self.disk.on_result(self.read)
            if self.future is None:
                self.future = self.start()
            self.future.result(timeout)
        except Exception:
            self.disk.failed.append(self.read)
            raise
        self.read.waited_for = True


@dataclass
class FakeReader:
    disk: Disk
    language: str
    reader: Any

    def read(self, start: int, stop: int, out: np.ndarray) -> FakeFuture:
        read = self.disk.started(self.language, start, stop, out)
        future = FakeFuture(self.disk, read, lambda: self.reader.read(start, stop, out))
        if self.disk.arrived is None:
            future.future = future.start()
        return future


def watch(monkeypatch: pytest.MonkeyPatch, **hooks: Callable[[Read], Any]) -> Disk:
    """Loaders made from now on read through the Disk that is returned."""
    disk, real = Disk(**hooks), Split.reader

    def reader(self: Split, threads: int | None = None) -> FakeReader:
        return FakeReader(disk, self.language, real(self, threads))

    monkeypatch.setattr(Split, "reader", reader)
    return disk
