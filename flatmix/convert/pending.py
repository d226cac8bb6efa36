"""documents of a unit, as they come -> the next part: what a worker holds in memory, at most one part's worth."""

import time
from pathlib import Path

import numpy as np

from flatmix.convert.job import Job
from flatmix.convert.parts import ENCODED, LENGTHS, RECORD, STRETCH, Content, Part, Problem, part_path, write_part
from flatmix.store.documents import encode

EXAMPLES = 10  # bad records whose places are kept, of each part
Target = tuple[int, str, str]  # source, language, split
_DTYPES = {ENCODED: np.uint32, LENGTHS: np.uint32, STRETCH: np.uint32, RECORD: np.uint64}


class Pending:
    """The part that is being filled. `stretch` counts within the unit, `record` within the stretch."""

    def __init__(self, job: Job, unit: int, number: int) -> None:
        self._job, self._unit, self._number = job, unit, number
        self._empty()

    def _empty(self) -> None:
        self._begun = time.perf_counter()
        self._columns: dict[Target, dict[str, list[np.ndarray]]] = {}
        self._facts: dict[Target, tuple[int, int | None, int]] = {}  # empty documents, bytes of text, largest id
        self._records: dict[int, int] = {}
        self._bad: dict[int, int] = {}
        self._problems: list[Problem] = []
        self._tokens = self._characters = self._documents = self._size = 0

    @property
    def is_full(self) -> bool:
        sizes = self._job.sizes
        return (
            self._tokens >= sizes.part_tokens
            or self._characters >= sizes.part_characters
            or self._documents >= sizes.part_documents
        )

    def saw(self, stretch: int, records: int, size: int) -> None:
        """Counts records that were read, whatever became of them, and about how many bytes they took."""
        self._records[stretch] = self._records.get(stretch, 0) + records
        self._size += size

    def add_problem(self, source: int, stretch: int, record: int, reason: str) -> None:
        self._bad[source] = self._bad.get(source, 0) + 1
        if len(self._problems) < EXAMPLES:
            self._problems.append(Problem(stretch, record, reason))

    def add(
        self,
        target: Target,
        ids: np.ndarray,
        lengths: np.ndarray,
        stretch: int,
        records: np.ndarray,
        utf8_bytes: int | None,
        empty: int,
    ) -> None:
        """Adds documents: ids of all, uint32[tokens]; the length and record of each; the bytes of all texts, if known.

        `empty` of them have no token of their own.
        """
        encoded, _ = encode(ids, lengths, 0, "the input")
        new = {ENCODED: encoded, LENGTHS: lengths, STRETCH: np.full(len(lengths), stretch), RECORD: records}
        columns = self._columns.setdefault(target, {name: [] for name in new})
        for name, values in new.items():
            columns[name].append(values.astype(_DTYPES[name], copy=False))
        before = self._facts.get(target, (0, 0, 0))
        known = before[1] is not None and utf8_bytes is not None
        self._facts[target] = (
            before[0] + empty,
            before[1] + utf8_bytes if known else None,
            max(before[2], int(ids.max(initial=0))),
        )
        self._tokens += len(ids)
        self._characters += utf8_bytes or 0
        self._documents += len(lengths)

    def flush(self, last: bool) -> None:
        """Writes the part, and begins the next. FileExistsError where another worker has written it meanwhile."""
        contents, values = [], []
        for target in sorted(self._columns):
            columns = {name: np.concatenate(some) for name, some in self._columns[target].items()}
            empty, utf8_bytes, largest = self._facts[target]
            tokens, documents = len(columns[ENCODED]), len(columns[LENGTHS])
            contents.append(Content(*target, documents, empty, tokens, utf8_bytes, largest, {}))
            values.append(columns)
        part = Part(
            unit=self._unit,
            number=self._number,
            records=self._records,
            bad=self._bad,
            problems=self._problems,
            size=self._size,
            seconds=time.perf_counter() - self._begun,
            last=last,
            contents=contents,
        )
        write_part(part_path(Path(self._job.parts), self._unit, self._number), part, values)
        self._number += 1
        self._empty()
