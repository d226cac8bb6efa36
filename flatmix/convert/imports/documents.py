"""lengths of documents -> stretches of about as many bytes, and runs of about as many tokens.

Both ends of an input that knows its documents: how it is divided among workers, and how much a worker holds at once.
Neither depends on anything but the lengths, so the documents of all runs of all stretches are those of the input, in
their sequence, whatever the size. Cost: a few passes over the lengths.
"""

from collections.abc import Iterable, Iterator

import numpy as np

RUN = 2**20  # tokens that are read, and handed on, at once; a longer document alone is more

Cut = tuple[int, int, int]  # start, stop, bytes


def cut_documents(lengths: Iterable[np.ndarray], token_bytes: int, size: int) -> list[Cut]:
    """Lengths of all documents, int64[some] at a time -> stretches of documents, which begin every `size` bytes."""
    cuts: list[Cut] = []
    first, begun = 0, 0  # of the open stretch: its first document, and the bytes before it
    number, position, slot = 0, 0, 0
    for block in lengths:
        ends = position + np.cumsum(block) * token_bytes
        begins = ends - block * token_bytes
        slots = begins // size
        for at in np.flatnonzero(np.diff(slots, prepend=slot)).tolist():
            start = int(begins[at])
            cuts.append((first, number + at, start - begun))
            first, begun = number + at, start
        if len(block):
            number, position, slot = number + len(block), int(ends[-1]), int(slots[-1])
    return [*cuts, (first, number, position - begun)]


def runs(lengths: np.ndarray) -> Iterator[tuple[int, int]]:
    """Lengths, int64[documents] -> spans [i, j) of them with at most RUN tokens, or with one longer document."""
    ends = np.cumsum(lengths)
    i = 0
    while i < len(lengths):
        before = int(ends[i] - lengths[i])
        j = max(i + 1, int(np.searchsorted(ends, before + RUN, side="right")))
        yield i, j
        i = j
