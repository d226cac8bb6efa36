"""a piece of an array -> its values once more, from the source, as far as that still gives what it gave.

Nothing here is proven: that is for `repair`.

Cost: that of reading the documents of the piece (`origin`); one piece in memory.
"""

from bisect import bisect_right

import numpy as np

from flatmix.convert.origin import Damaged, Origin, Run, documents
from flatmix.store import Split
from flatmix.store import format as layout
from flatmix.store.documents import encode
from flatmix.store.split import place_of


def span(split: Split, array: str, number: int) -> tuple[int, int]:
    """Entries [first, stop) of a piece."""
    first = number * layout.PIECE
    return first, min(first + layout.PIECE, split.arrays[array].shape[0])


def seq_starts_piece(origin: Origin, damaged: Damaged, number: int) -> np.ndarray:
    """The entries of a piece of seq_starts, uint64[n], from the lengths of documents."""
    first, stop = span(origin.split, layout.SEQ_STARTS, number)
    known = first - 1  # the last entry before it that can be read
    while known >= 0 and known // layout.PIECE in damaged.get(layout.SEQ_STARTS, ()):
        known = known // layout.PIECE * layout.PIECE - 1
    end = int(origin.split.seq_starts(known, known + 1)[0]) if known >= 0 else 0
    values = np.zeros(stop - first, np.uint64)
    for run in documents(origin, damaged, max(known, 0), stop - 1):
        ends = end + np.cumsum(run.lengths)
        entry = run.first + 1  # that of the first of these ends
        if entry + len(ends) > first:
            values[max(entry - first, 0) : entry + len(ends) - first] = ends[max(first - entry, 0) :]
        end = int(ends[-1])
    return values


def tokens_piece(origin: Origin, damaged: Damaged, number: int) -> np.ndarray:
    """The encoded tokens of a piece, uint32[n]; zeros where the source gives fewer. ReadError without seq_starts."""
    split = origin.split
    first, stop = span(split, layout.ENCODED_TOKENS, number)
    document, last = document_at(split, first), document_at(split, stop - 1)
    token = int(split.seq_starts(document, document + 1)[0])
    values = np.zeros(stop - first, np.uint32)
    for run in documents(origin, damaged, document, last + 1):
        encoded = encoded_run(split, run)
        i, j = max(token, first), min(token + len(encoded), stop)
        if i < j:
            values[i - first : j - first] = encoded[i - token : j - token]
        token += len(encoded)
    return values


def document_at(split: Split, token: int) -> int:
    """The number of the document that a token belongs to."""
    reader = split.array_reader(layout.SEQ_STARTS)

    def start(entry: int) -> int:
        return int(split.start_seq_starts(entry, entry + 1, reader).result()[0])

    return bisect_right(range(split.documents + 1), token, key=start) - 1


def encoded_run(split: Split, run: Run) -> np.ndarray:
    """The tokens of documents as a store holds them, uint32[tokens]."""
    return encode(run.ids, run.lengths, run.first, place_of(split.store_path, split.language, split.name))[0]
