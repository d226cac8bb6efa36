"""(store, languages, splits) -> a report: is everything there, readable, and what was written.

Every chunk of every array is read, which checks its checksum; the values are hashed and compared with the digests of
their pieces, and those with the digest that is the split's identity; so a flipped bit is found where no checksum is,
and so are two shards that were exchanged. What the digests cannot prove is checked on the way: that documents start
where both arrays say, that the largest id is the one that is told, that documents come from files that there are.

Pieces are read by a few threads, in the sequence of the splits; what is found stands in that sequence, too.

Cost: 7 ns of CPU a token, a third of it SHA-256; two blocks of 4 or 8 MB for each thread (of 16 or 32 MB in Zarr v2),
whatever the size of the store.
"""

import os
from collections import deque
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress

from flatmix.errors import StoreError
from flatmix.order.counts import cores
from flatmix.store import Split, Store, open_store
from flatmix.verify.facts import Facts, bytes_of, pieces_of, tasks_of
from flatmix.verify.judge import judge
from flatmix.verify.pieces import Memory
from flatmix.verify.report import Finding, Report, SplitReport
from flatmix.verify.survey import Place, load, notes_of, survey

__all__ = ["Finding", "Report", "SplitReport", "verify"]

_MOST_THREADS = 8  # unless more are asked for: beyond, memory is the limit, or the disk


def verify(
    store: str | os.PathLike[str] | Store,
    languages: Collection[str] | None = None,
    splits: Collection[str] | None = None,
    *,
    threads: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Reads everything in the store, or in the splits of those names, and says what is wrong with it.

    `languages` also names the one language of an older store. Each language named must have each split named.
    `progress` is called with the bytes of values that were read, and with those that will be. What is damaged is in
    the report; StoreError is for a store that cannot be opened, and for names that are not there.
    """
    _check_arguments(languages, splits, threads)
    opened = store if isinstance(store, Store) else _open(store, languages)
    found = survey(opened, languages, splits)
    told = (lambda read: None) if progress is None else _counter(progress, opened, found.places)
    workers = threads or min(_MOST_THREADS, cores() + 2)  # two of them wait for what they read
    reports: dict[tuple[str, str], SplitReport] = {}
    pool = ThreadPoolExecutor(workers, "flatmix-verify")
    try:
        for place, split, facts in _in_sequence(pool, opened, found.places, 2 * workers, told):
            notes = notes_of(place)
            if isinstance(split, Finding):
                report = SplitReport(place.language, place.split, None, None, 0.0, (split,), tuple(notes))
            else:
                report = judge(split, facts, notes)
            reports[place.language, place.split] = report
    finally:
        pool.shutdown(cancel_futures=True)
    return Report(opened.path, reports, tuple(found.findings), tuple(found.notes))


def _in_sequence(
    pool: ThreadPoolExecutor, store: Store, places: list[Place], ahead: int, told: Callable[[int], None]
) -> Iterator[tuple[Place, Split | Finding, list[Facts]]]:
    """Each split and the facts of all its pieces, in the sequence of the places; so many tasks are under way."""
    waiting: deque[Future[Facts] | tuple[Place, Split | Finding]] = deque()
    memory, facts = Memory(), []

    def take(limit: int) -> Iterator[tuple[Place, Split | Finding, list[Facts]]]:
        nonlocal facts
        while len(waiting) > limit:
            first = waiting.popleft()
            if isinstance(first, Future):
                facts.append(first.result())
                told(bytes_of(facts[-1].piece))
            else:
                yield *first, facts
                facts = []

    for place in places:
        split = load(store, place)
        for task in () if isinstance(split, Finding) else tasks_of(split, memory):
            waiting.append(pool.submit(task))
            yield from take(ahead)
        waiting.append((place, split))  # after all of its pieces
    yield from take(0)


def _counter(progress: Callable[[int, int], None], store: Store, places: list[Place]) -> Callable[[int], None]:
    """What adds up the bytes that were read, and tells `progress`; opens every split to know how many there are."""
    splits = (split for split in (load(store, place) for place in places) if isinstance(split, Split))
    total = sum(bytes_of(piece) for split in splits for array in split.arrays for piece in pieces_of(split, array))
    done = 0

    def add(read: int) -> None:
        nonlocal done
        done += read
        progress(done, max(done, total))

    return add


def _open(path: str | os.PathLike[str], languages: Collection[str] | None) -> Store:
    """The store; an older one where `languages` names one language, as that one's."""
    try:
        return open_store(path)
    except StoreError:
        if languages is not None and len(languages) == 1:
            with suppress(StoreError):
                return open_store(path, *languages)
        raise


def _check_arguments(languages: Collection[str] | None, splits: Collection[str] | None, threads: int | None) -> None:
    for name, given in (("languages", languages), ("splits", splits)):
        if isinstance(given, str):
            raise ValueError(f"{name} must be several names, not the str {given!r}; write [{given!r}]")
        if given is not None and not given:
            raise ValueError(f"{name} is empty: name some, or leave it out to verify all")
    if threads is not None and (type(threads) is not int or threads < 1):
        raise ValueError(f"threads must be None or an integer of at least 1, not {threads!r}")
