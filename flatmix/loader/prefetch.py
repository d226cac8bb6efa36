"""Batches made ahead in a background thread, in the sequence of their steps."""

import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

Prepared = TypeVar("Prepared")
Batch = TypeVar("Batch")


class Prefetcher(Generic[Prepared, Batch]):
    """An iterator over `finish(prepare(step))` for start <= step < stop, with `depth` steps prepared ahead.

    `prepare` runs in a thread of its own, `finish` where the iterator is used. An error of either reaches the user of
    the iterator at its own step, and again at every later call.
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
        self._prepare, self._finish, self._waited = prepare, finish, waited
        self._next, self._stop, self._depth = start, stop, depth
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="flatmix-prefetch") if depth else None
        self._ahead: deque[Future[Prepared]] = deque()
        self._error: BaseException | None = None
        self._top_up()

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
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
        self._ahead.clear()

    def _next_prepared(self) -> Prepared:
        started = time.perf_counter()
        if self._pool is None:
            if self._stop is not None and self._next >= self._stop:
                raise StopIteration
            prepared = self._prepare(self._next)
            self._next += 1
        else:
            if not self._ahead:
                raise StopIteration
            prepared = self._ahead.popleft().result()
            self._top_up()
        self._waited(time.perf_counter() - started)
        return prepared

    def _top_up(self) -> None:
        while (
            self._pool is not None
            and len(self._ahead) < self._depth
            and (self._stop is None or self._next < self._stop)
        ):
            self._ahead.append(self._pool.submit(self._prepare, self._next))
            self._next += 1
