"""Document starts, said twice -> where the two disagree: `seq_starts` and the start bits of encoded_tokens.

That they agree is known from the marks of each piece, without reading anything again. Only a piece whose marks differ
is read a second time, beside the entries of seq_starts that lie in it, to say which tokens are wrong.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence

import numpy as np

from flatmix.store import Split
from flatmix.store import format as layout
from flatmix.verify.damage import shard_of
from flatmix.verify.facts import Beyond, Facts, Marks, Piece, piece_entries
from flatmix.verify.kernels import mark
from flatmix.verify.report import Finding

_TOKENS, _ENTRIES = 2**20, 2**16  # read at once
_WHOLE = 2**64


def seq_starts_findings(split: Split, facts: Sequence[Facts]) -> list[Finding]:
    """Whether the pieces that could be read whole rise from 0 to the number of tokens. `facts`: all of seq_starts."""
    findings: list[Finding] = []

    def found(entry: int, words: str) -> None:
        shard = shard_of(split.arrays[layout.SEQ_STARTS], entry)
        place = layout.SEQ_STARTS, shard, entry, entry + 1
        findings.append(Finding(split.language, split.name, "seq_starts", words, *place))

    for number, one in enumerate(facts):
        before = facts[number - 1].last if number else None
        if one.first is not None and one.first != 0 and number == 0:
            found(0, f"entry 0 is {one.first}, not 0")
        if one.first is not None and before is not None and one.first < before:
            found(one.piece.start, f"entry {one.piece.start} is {one.first}, less than the {before} before it")
        if one.fault is not None:
            entry, value, previous = one.fault
            limit = (
                f"less than the {previous} before it" if value < previous else f"and there are {split.tokens} tokens"
            )
            found(entry, f"entry {entry} is {value}, {limit}")
    if facts and facts[-1].last not in (None, split.tokens) and facts[-1].fault is None:
        found(split.documents, f"the last entry is {facts[-1].last}, and there are {split.tokens} tokens")
    return findings


def start_bit_findings(split: Split, tokens: Sequence[Facts], starts: Sequence[Facts]) -> list[Finding]:
    """The pieces of `tokens`, of encoded_tokens, whose start bits are not where `starts`, all of seq_starts, says."""
    size = piece_entries(split, layout.ENCODED_TOKENS)
    expected = _marks(split.tokens, size, starts)
    findings = []
    for one in tokens:
        assert one.marks is not None
        number = one.piece.number
        if (int(one.marks.counts[0]), int(one.marks.sums[0])) == (
            int(expected.counts[number]),
            int(expected.sums[number]),
        ):
            continue
        wrong = wrong_starts(split, one.piece)
        words = (
            f"{wrong.count} of the tokens [{one.piece.start}, {one.piece.stop}) have a start bit where no document "
            f"starts, or none where one does; the first is token {wrong.first}"
        )
        shard = shard_of(split.arrays[layout.ENCODED_TOKENS], wrong.first, wrong.last + 1)
        place = layout.ENCODED_TOKENS, shard, wrong.first, wrong.last + 1
        findings.append(Finding(split.language, split.name, "start bits", words, *place))
    return findings


def _marks(tokens: int, size: int, starts: Sequence[Facts]) -> Marks:
    """The marks of all pieces of encoded_tokens that seq_starts gives."""
    pieces = -(-tokens // size)
    counts, sums = np.zeros(pieces, np.int64), np.zeros(pieces, np.uint64)
    before = None
    for one in starts:
        assert one.marks is not None
        touched = slice(one.marks.base, one.marks.base + len(one.marks.counts))
        counts[touched] += one.marks.counts
        sums[touched] += one.marks.sums
        if one.first is not None and one.first != before and one.first < tokens:
            piece = one.first // size
            counts[piece] += 1
            sums[piece] = np.uint64((int(sums[piece]) + int(mark(np.uint64(one.first)))) % _WHOLE)
        before = one.last
    return Marks(0, counts, sums)


def wrong_starts(split: Split, piece: Piece) -> Beyond:
    """Reads a piece of encoded_tokens again -> the tokens whose start bits are wrong; there are some."""
    reader = split.array_reader(layout.ENCODED_TOKENS)
    count, first, last = 0, -1, -1
    for start, expected in _expected(split, piece):
        encoded = np.empty(len(expected), np.uint32)
        reader.read(start, start + len(expected), encoded).result()
        wrong = np.flatnonzero((encoded & np.uint32(1)).astype(bool) != expected)
        if len(wrong):
            count, last = count + len(wrong), start + int(wrong[-1])
            first = first if first >= 0 else start + int(wrong[0])
    return Beyond(count, first, last)


def _expected(split: Split, piece: Piece) -> Iterator[tuple[int, np.ndarray]]:
    """Whether each token of the piece starts a document, bool[n], some at a time, and the first of these tokens."""
    reader, entries = split.array_reader(layout.SEQ_STARTS), split.documents + 1

    def read(first: int, stop: int) -> np.ndarray:
        return split.start_seq_starts(first, stop, reader).result()

    entry = bisect_left(range(entries), piece.start, key=lambda number: int(read(number, number + 1)[0]))
    for start in range(piece.start, piece.stop, _TOKENS):
        stop = min(start + _TOKENS, piece.stop)
        expected = np.zeros(stop - start, bool)
        while entry < entries:
            part = read(entry, min(entry + _ENTRIES, entries))
            inside = part[part < np.uint64(stop)]
            expected[inside - np.uint64(start)] = True
            entry += len(inside)
            if len(inside) < len(part):
                break
        yield start, expected
