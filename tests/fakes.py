"""A Reader that stands between a loader and its store: it lists what is read, and lets a test delay or fail it."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from flatmix.store.split import Split


@dataclass(eq=False)
class Read:
    """One read: the tokens [start, stop) of a language. `out` is kept, so that its memory is not given out again."""

    number: int
    language: str
    start: int
    stop: int
    out: np.ndarray
    waited_for: bool = False

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
    """

    on_read: Callable[[Read], None] = _nothing
    on_result: Callable[[Read], None] = _nothing
    reads: list[Read] = field(default_factory=list)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def started(self, language: str, start: int, stop: int, out: np.ndarray) -> Read:
        with self.lock:
            read = Read(len(self.reads), language, start, stop, out)
            self.reads.append(read)
        self.on_read(read)
        return read

    def spans(self, at_least: int = 0, below: int = 2**63) -> list[tuple[str, int, int]]:
        """(language, start, stop) of the reads of at least and below so many tokens."""
        return [(read.language, read.start, read.stop) for read in self.reads if at_least <= read.tokens < below]


@dataclass
class FakeFuture:
    disk: Disk
    read: Read
    future: Any

    def done(self) -> bool:
        return self.future.done()

    def result(self, timeout: float | None = None) -> None:
        self.disk.on_result(self.read)
        self.future.result(timeout)
        self.read.waited_for = True


@dataclass
class FakeReader:
    disk: Disk
    language: str
    reader: Any

    def read(self, start: int, stop: int, out: np.ndarray) -> FakeFuture:
        read = self.disk.started(self.language, start, stop, out)
        return FakeFuture(self.disk, read, self.reader.read(start, stop, out))


def watch(monkeypatch: pytest.MonkeyPatch, **hooks: Callable[[Read], None]) -> Disk:
    """Loaders made from now on read through the Disk that is returned."""
    disk, real = Disk(**hooks), Split.reader

    def reader(self: Split, threads: int | None = None) -> FakeReader:
        return FakeReader(disk, self.language, real(self, threads))

    monkeypatch.setattr(Split, "reader", reader)
    return disk
