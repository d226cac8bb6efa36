"""Batches made ahead in a background thread, in the sequence of their steps."""

import atexit
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

from jax.profiler import TraceAnnotation

from flatmix.errors import ReadError

Prepared = TypeVar("Prepared")
Batch = TypeVar("Batch")

_SECONDS_AT_EXIT = 1.0
_FAIR_SHARE = 0.05  # of a loop's time that it may wait for data
_SECONDS_WATCHED = 20.0  # before that is judged
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


@dataclass
class _Watch:
    """Says once, in the log, that a loop waits for its data more than it should. The first batch does not count."""

    since: float = 0.0  # 0.0 before the first batch, infinity once it has been said
    waited: float = 0.0

    def add(self, seconds: float) -> None:
        now = time.monotonic()
        if not self.since:
            self.since = now
            return
        self.waited += seconds
        elapsed = now - self.since
        if elapsed > _SECONDS_WATCHED and self.waited > _FAIR_SHARE * elapsed:
            self.since = float("inf")
            logging.getLogger("flatmix").warning(
                "the loop has waited for data %.0f %% of its time (%.1f of %.1f s): raise `prefetch`, `threads` or "
                "`memory_budget`, take larger read blocks, or put the store on faster storage",
                100 * self.waited / elapsed,
                self.waited,
                elapsed,
            )


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
        self._finish, self._waited, self._watch = finish, waited, _Watch()
        self._error: BaseException | None = None
        self._process = os.getpid()
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
        if os.getpid() != self._process:  # the thread did not come along
            raise ReadError(
                "this iterator was made before the process was forked: make a new one, in a spawned process"
            )
        try:
            return self._finish(self._next_prepared())
        except Exception as error:  # StopIteration too
            self.close(error)
            raise
        except BaseException:
            self.close(ValueError("this iterator was interrupted: start a new one from the step you need"))
            raise

    def close(self, error: BaseException) -> None:
        """Ends the thread, after the step it is at; waits for nothing. Later calls of the iterator raise `error`."""
        self._error = self._error or error
        if self._line is not None:
            self._line.close()
            self._line.results.put((None, self._error))  # for a caller that waits in another thread

    def _next_prepared(self) -> Prepared:
        started = time.perf_counter()
        with TraceAnnotation("flatmix: wait for a batch"):
            if self._line is None:
                prepared = next(self._prepared)
            else:
                prepared, error = self._line.results.get()
                if error is not None:
                    raise error
                self._line.room.release()
        seconds = time.perf_counter() - started
        self._waited(seconds)
        self._watch.add(seconds)
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
