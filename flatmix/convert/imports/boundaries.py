"""(file of ids, the id between documents, stretch) -> whole documents: one comparison tells where they begin.

A document begins at the start of the file, and where the boundary says: after each id that closes one, or at each id
that opens one. It belongs to the stretch in which it begins, and goes on past its end, to the next beginning or the
end of the file. So a stretch needs to know nothing of the others, and any division of the file gives the same
documents. Documents are read from their beginning; what is left of a block after its last whole one is read again.

Cost: 0.5 to 1 ns a token, a block of RUN tokens in memory and the ids made of it; of a longer document all of it.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from flatmix.convert.imports.documents import RUN, Cut
from flatmix.convert.imports.settings import TYPES, Boundary
from flatmix.convert.imports.spans import SpanFile, size_and_stamp
from flatmix.convert.inputs import Input, TokenRun
from flatmix.errors import ConvertError
from flatmix.store.documents import find_bad_id

SCANNED = 2**24  # tokens in which the boundary is looked for before any work
LONGEST = 2**30  # tokens of a document; one that is longer is rather a boundary that was never the right one


class Ids(NamedTuple):
    """The ids of an open file, which follow its header."""

    file: SpanFile
    type: str
    header: int  # bytes
    count: int  # tokens
    boundary: Boundary

    def read(self, start: int, stop: int) -> np.ndarray:
        """Ids [start, stop), of the file's type; ReadError where they are not there."""
        return self.file.read(self.header + start * TYPES[self.type], stop - start, _little_endian(self.type))


def boundary_input(path: str, name: str, kind: str, width: str, header: int, boundary: Boundary) -> Input:
    """An input of ids with that boundary between documents; ConvertError where a short file does not hold it."""
    size, stamp = size_and_stamp(path)
    count = (size - header) // TYPES[width]
    options = {
        "type": width,
        "header": header,
        "count": count,
        "boundary": boundary.id,
        "closes": boundary.closes,
    }
    found = Input(path=path, name=name, kind=kind, size=size, stamp=stamp, options=options)
    with SpanFile(path) as file:
        ids = _ids(file, options)
        if not count:
            raise ConvertError(f"{path} holds no tokens; leave it out")
        if count <= SCANNED and _first_match(ids, 0, count) is None:
            raise _no_boundary(ids)
    return found


def cut_ids(found: Input, size: int) -> list[Cut]:
    """Stretches of about `size` bytes, in tokens."""
    count, width = found.options["count"], TYPES[found.options["type"]]
    step = max(1, size // width)
    return [
        (start, min(start + step, count), (min(start + step, count) - start) * width) for start in range(0, count, step)
    ]


def read_ids(found: Input, start: int, stop: int | None, skip: int) -> Iterator[TokenRun]:
    """The documents that begin in the tokens [start, stop), without the first `skip`.

    ReadError where the file has become shorter; ConvertError for ids no store can hold, for a file that does not hold
    the boundary, and for a document of more than LONGEST tokens.
    """
    with SpanFile(found.path) as file:
        ids = _ids(file, found.options)
        stop = ids.count if stop is None else stop
        begin = _first_begin(ids, start, stop)
        while begin is not None and begin < stop:
            block = ids.read(begin, min(begin + RUN, ids.count))
            ends = _ends(block, ids.boundary, begin + len(block) == ids.count)
            if not len(ends):
                end = _find_end(ids, begin, begin + len(block))
                block, ends = ids.read(begin, end), np.array([end - begin])
            ends = ends[: 1 + np.searchsorted(ends[:-1], stop - begin)]  # those that begin before it
            passed = min(skip, len(ends))
            skip -= passed
            if passed < len(ends):
                yield _run(ids, block, ends, passed, begin, start)
            begin += int(ends[-1])


def _ids(file: SpanFile, options: dict[str, Any]) -> Ids:
    boundary = Boundary(options["boundary"], options["closes"])
    return Ids(file, options["type"], options["header"], options["count"], boundary)


def _little_endian(width: str) -> str:
    return f"<u{TYPES[width]}"


def _run(ids: Ids, block: np.ndarray, ends: np.ndarray, passed: int, begin: int, start: int) -> TokenRun:
    first = int(ends[passed - 1]) if passed else 0
    part, lengths = block[first : ends[-1]], np.diff(ends[passed:], prepend=first)
    bad = find_bad_id(part, lengths)
    if bad is not None:
        at, document = bad
        place = begin + first + at
        number = _count_documents(ids, begin + first) + document
        raise ConvertError(
            f"{ids.file.path}: document {number} (counted from 0) has the id {part[at]} at token {place}, and ids of a "
            f"store are below 2**31; is {ids.type} the type of this file?"
        )
    return TokenRun((begin + int(ends[-1]) - start) * TYPES[ids.type], part.astype(np.uint32), lengths.astype(np.int64))


def _ends(block: np.ndarray, boundary: Boundary, is_last: bool) -> np.ndarray:
    """Where documents end in a block that begins with one, int64[documents]; `is_last`: the file ends with it."""
    after = block if boundary.closes else block[1:]  # an id that opens a document ends the one before
    ends = np.flatnonzero(after == boundary.id) + 1
    if is_last and (not len(ends) or ends[-1] != len(block)):
        ends = np.append(ends, len(block))
    return ends


def _first_match(ids: Ids, start: int, stop: int) -> int | None:
    """The place of the first boundary among the tokens [start, stop)."""
    for at in range(start, stop, RUN):
        matches = ids.read(at, min(at + RUN, stop)) == ids.boundary.id
        place = int(matches.argmax())
        if matches[place]:
            return at + place
    return None


def _first_begin(ids: Ids, start: int, stop: int) -> int | None:
    """Where the first document begins among the tokens [start, stop)."""
    if start == 0:
        return 0
    back = int(ids.boundary.closes)  # the id that closes a document stands before the next
    place = _first_match(ids, start - back, stop - back)
    return None if place is None else place + back


def _find_end(ids: Ids, begin: int, scanned: int) -> int:
    """Where the document that begins at `begin` ends, which is not before `scanned`; nothing is kept on the way."""
    place = _first_match(ids, scanned, ids.count)
    if place is None and begin == 0 and _first_match(ids, 0, 1) is None:
        raise _no_boundary(ids)
    end = ids.count if place is None else place + ids.boundary.closes
    if end - begin > LONGEST:
        number = _count_documents(ids, begin)
        raise ConvertError(
            f"{ids.file.path}: document {number} (counted from 0) would have {end - begin} tokens, from token {begin} "
            f"on, without the {ids.boundary.word} {ids.boundary.id}; at most {LONGEST} are read"
        )
    return end


def _count_documents(ids: Ids, begin: int) -> int:
    """How many documents are before the one that begins at `begin`; reads all of them."""
    if begin == 0:
        return 0
    first, last = (0, begin - 1) if ids.boundary.closes else (1, begin)
    blocks = (ids.read(at, min(at + RUN, last)) for at in range(first, last, RUN))
    return 1 + sum(int(np.count_nonzero(block == ids.boundary.id)) for block in blocks)


def _no_boundary(ids: Ids) -> ConvertError:
    first = ", ".join(map(str, ids.read(0, min(10, ids.count)).tolist()))
    return ConvertError(
        f"{ids.file.path} does not hold the id {ids.boundary.id}, which is given as {ids.boundary.word}, so it would "
        f"be one document of {ids.count} tokens; its first ids are {first}"
    )
