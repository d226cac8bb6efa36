"""Batches made ahead in a background thread, in the sequence of their steps."""

import atexit
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

Prepared = TypeVar("Prepared")
Batch = TypeVar("Batch")

_SECONDS_AT_EXIT = 1.0
_threads: weakref.WeakKeyDictionary[threading.Thread, "_Line"] = weakref.WeakKeyDictionary()


@dataclass
class _Line:
    """What the thread and the iterator share: results in their sequence, and room for so many more."""

    room: threading.Semaphore
    results: SimpleQueue[tuple[Any, BaseException | None]] = field(default_factory=SimpleQueue)
    closed: threading.Event = field(default_factory=threading.Event)

    def close(self) -> None:
        self.closed.set()
        self.room.release()  # the thread may be waiting for it


class Prefetcher(Generic[Prepared, Batch]):
    """An iterator over `finish(prepare(step))` for start <= step < stop, with up to `depth` steps prepared ahead.

    `prepare` runs in a thread of its own, `finish` where the iterator is used. An error of either reaches the user of
    the iterator at its own step, and again at every later call. With a depth of 0 there is no thread. An iterator that
    nobody holds any more ends its thread; a thread that hangs in a read does not keep the process alive.
    """

    def __init__(
        self,
        prepare: Callable[[int], Prepared],
        finish: Callable[[Prepared], Batch],
        start: int,
        stop: int | None,
        depth: int,
        waited: Callable[[float], None],
    ):
        self._finish, self._waited = finish, waited
        self._error: BaseException | None = None
        self._line: _Line | None = None
        steps = _steps(start, stop)
        if depth:
            self._line = _Line(threading.Semaphore(depth))
            weakref.finalize(self, self._line.close)
            thread = threading.Thread(
                target=_work, args=(prepare, steps, self._line), name="flatmix-prefetch", daemon=True
            )
            _threads[thread] = self._line
            thread.start()
        else:
            self._prepared = map(prepare, steps)

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        if self._error is not None:
            raise self._error
        try:
            return self._finish(self._next_prepared())
        except BaseException as error:  # StopIteration too
            self.close(error)
            raise

    def close(self, error: BaseException) -> None:
        """Ends the thread, after the step it is at; waits for nothing. Later calls of the iterator raise `error`."""
        self._error = self._error or error
        if self._line is not None:
            self._line.close()
            self._line.results.put((None, self._error))  # for a caller that waits in another thread

    def _next_prepared(self) -> Prepared:
        started = time.perf_counter()
        if self._line is None:
            prepared = next(self._prepared)
        else:
            prepared, error = self._line.results.get()
            if error is not None:
                raise error
            self._line.room.release()
        self._waited(time.perf_counter() - started)
        return prepared


def _steps(start: int, stop: int | None) -> Iterator[int]:
    step = start
    while stop is None or step < stop:
        yield step
        step += 1


def _work(prepare: Callable[[int], Any], steps: Iterator[int], line: _Line) -> None:
    """Prepares one step after another while there is room; ends with an error, StopIteration after the last step."""
    try:
        for step in steps:
            line.room.acquire()
            if line.closed.is_set():
                return
            line.results.put((prepare(step), None))
        line.results.put((None, StopIteration()))
    except BaseException as error:
        line.results.put((None, error))


@atexit.register
def _end_threads() -> None:
    """Lets threads that still work end by themselves: jax and the readers must not go away under them."""
    threads = dict(_threads)
    for line in threads.values():
        line.close()
    deadline = time.monotonic() + _SECONDS_AT_EXIT
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
