"""the staging folder -> how far a conversion is: what workers leave behind is all that has to be known of them.

A thread looks at the new parts every now and then, whoever makes them and wherever. It also sees the languages that
records name, and can end the run at the first that may not be written, before days of work are lost.

Cost: a listing, and one small read for each new part.
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from flatmix.convert.job import Job
from flatmix.convert.parts import Part, part_names, read_part

_INTERVAL = 1.0  # seconds between looks


class LanguageProgress(NamedTuple):
    """How far one language is; `total` is 0 where nobody knows."""

    done: int  # bytes of the input, about
    total: int
    documents: int
    tokens: int


class Progress(NamedTuple):
    """How far a conversion is. `done` and `total` count bytes of the input while tokenizing, tokens while writing."""

    stage: str  # "tokenizing" or "writing"
    done: int
    total: int  # 0 where nobody knows
    documents: int
    tokens: int
    languages: dict[str, LanguageProgress]


@dataclass
class Survey:
    """Follows the parts of a job. `tell` gets the progress, `check` the languages that were not seen before."""

    job: Job
    tell: Callable[[Progress], None]
    check: Callable[[list[str]], None]
    _seen: set[str] = field(default_factory=set)
    _languages: dict[str, LanguageProgress] = field(default_factory=dict)
    _units: dict[int, int] = field(default_factory=dict)  # bytes that were read of each unit
    _done: int = 0  # of all
    _failure: BaseException | None = None
    _written: int | None = None  # tokens; None while tokenizing
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self._total = sum(stretch.size for unit in self.job.units for stretch in unit)
        if any(stretch.size == 0 for unit in self.job.units for stretch in unit):
            self._total = 0
        for source in self.job.sources:
            if source.language is not None:
                known = self._languages.get(source.language, LanguageProgress(0, 0, 0, 0))
                size = sum(found.size for found in source.inputs)
                self._languages[source.language] = known._replace(total=known.total + size)

    def look(self) -> None:
        """Reads what is new, and tells. Raises what `check` or `tell` raises."""
        with self._lock:
            folder, known = Path(self.job.parts), set(self._languages)
            for name in part_names(folder):
                if name not in self._seen:
                    self._seen.add(name)
                    self._add(read_part(folder / name))
            found = sorted(set(self._languages) - known)
            if found:
                self.check(found)
            self._tell()

    def wrote(self, tokens: int) -> None:
        """Counts tokens that are in complete splits now; the first call begins the stage of writing."""
        with self._lock:
            self._written = (self._written or 0) + tokens
            self._tell()

    def raise_failure(self) -> None:
        """Raises what a look in the background has raised."""
        if self._failure is not None:
            raise self._failure

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Looks now and then, in the background, as long as it is entered."""
        done = threading.Event()

        def watch() -> None:
            while not done.wait(_INTERVAL):
                try:
                    self.look()
                except BaseException as error:  # the main thread raises it
                    self._failure = error
                    return

        thread = threading.Thread(target=watch, name="flatmix-survey", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _tell(self) -> None:
        languages = dict(self._languages)
        documents = sum(one.documents for one in languages.values())
        tokens = sum(one.tokens for one in languages.values())
        if self._written is None:
            self.tell(Progress("tokenizing", self._done, self._total, documents, tokens, languages))
        else:
            self.tell(Progress("writing", self._written, tokens, documents, tokens, languages))

    def _add(self, part: Part) -> None:
        new = self._count(part)
        self._done += new
        weight = sum(content.tokens + content.documents for content in part.contents)
        for content in part.contents:
            known = self._languages.get(content.language, LanguageProgress(0, 0, 0, 0))
            share = new * (content.tokens + content.documents) // weight
            done = min(known.done + share, known.total) if known.total else known.done + share
            self._languages[content.language] = LanguageProgress(
                done, known.total, known.documents + content.documents, known.tokens + content.tokens
            )

    def _count(self, part: Part) -> int:
        """Adds the bytes that a part has read; of a unit no more than it has, and all when it is done."""
        stretches, before = self.job.units[part.unit], self._units.get(part.unit, 0)
        size = sum(stretch.size for stretch in stretches)
        if any(stretch.size == 0 for stretch in stretches):
            self._units[part.unit] = before + part.size
        else:
            self._units[part.unit] = size if part.last else min(before + part.size, size)
        return self._units[part.unit] - before
