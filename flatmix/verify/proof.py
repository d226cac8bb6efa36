"""Digests of all pieces, `piece_digests` and `digest` -> which of the three does not agree with the others.

`digest` is the hash of hashes, so content that gives it is proven, and then what differs in `piece_digests` is wrong
there. Otherwise `piece_digests` is asked, piece by piece.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from flatmix.store import Split
from flatmix.store import format as layout
from flatmix.verify.damage import shard_of, unit_of
from flatmix.verify.facts import Facts, Piece, piece_entries
from flatmix.verify.report import Finding, called


@dataclass
class Proof:
    """What comes of comparing; `wrong` are pieces of arrays, by their numbers."""

    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    wrong: dict[str, set[int]] = field(default_factory=dict)

    def add(self, piece: Piece, finding: Finding) -> None:
        self.findings.append(finding)
        self.wrong.setdefault(piece.array, set()).add(piece.number)


def prove(split: Split, facts: Mapping[str, Sequence[Facts]]) -> Proof:
    """Compares the digests of encoded_tokens and seq_starts, facts by array; for a split that is not weak."""
    found = [*facts[layout.ENCODED_TOKENS], *facts[layout.SEQ_STARTS]]
    rows = _rows(facts[layout.PIECE_DIGESTS])
    stored = None if None in rows else layout.digest(b"".join(rows))
    digests = [one.digest for one in found]
    if None not in digests and layout.digest(b"".join(digests)) == split.digest:
        return _wrong_rows(split, [number for number, row in enumerate(rows) if row not in (None, digests[number])])
    proof = Proof()
    places = {row: one.piece for row, one in zip(rows, found, strict=True)}
    for one, row in zip(found, rows, strict=True):
        if None not in (one.digest, row) and one.digest != row:
            proof.add(one.piece, _wrong_piece(split, one.piece, places.get(one.digest), stored == split.digest))
    if stored not in (None, split.digest):
        agree = "" if proof.findings else ", with which all that can be read agrees"
        words = f"the attribute digest is {split.digest}, and {layout.PIECE_DIGESTS} has that of {stored}{agree}"
        proof.findings.append(Finding(split.language, split.name, "digest", words))
    unknown = sum(row is None and one.digest is not None for one, row in zip(found, rows, strict=True))
    if unknown:
        place = called(split.language, split.name)
        proof.notes.append(
            f"{place}: {unknown} pieces can be read, and could not be proven: their digests in "
            f"{layout.PIECE_DIGESTS} cannot be read"
        )
    return proof


def _rows(facts: Sequence[Facts]) -> list[bytes | None]:
    """The rows of piece_digests; None for those that cannot be read."""
    rows: list[bytes | None] = []
    for one in facts:
        assert one.rows is not None
        rows += [row.tobytes() for row in one.rows]
    for damage in (damage for one in facts for damage in one.damages):
        rows[damage.start : damage.stop] = [None] * (damage.stop - damage.start)
    return rows


def _wrong_rows(split: Split, numbers: list[int]) -> Proof:
    """What is told where the content is proven, and these rows of piece_digests are not those of the content."""
    proof, array = Proof(), split.arrays[layout.PIECE_DIGESTS]
    if numbers:
        start, stop = numbers[0], numbers[-1] + 1
        words = (
            f"{len(numbers)} of the entries [{start}, {stop}) are not the digests of their pieces, and the pieces are "
            "what was written: together they have the attribute digest"
        )
        shard = shard_of(array, start, stop)
        proof.findings.append(Finding(split.language, split.name, "digest", words, array.name, shard, start, stop))
        size = piece_entries(split, array.name)
        proof.wrong[array.name] = {number // size for number in numbers}
    return proof


def _wrong_piece(split: Split, piece: Piece, other: Piece | None, sure: bool) -> Finding:
    words = (
        f"piece {piece.number}, the {unit_of(piece.array)} [{piece.start}, {piece.stop}), is not what was written: its "
        f"SHA-256 is not the one in {layout.PIECE_DIGESTS}"
    )
    if other is not None:
        words += f", but that of piece {other.number} of {other.array}: were files exchanged or copied?"
    if not sure:
        words += f" (which may be wrong, too: {layout.PIECE_DIGESTS} as a whole is not proven by the attribute digest)"
    shard = shard_of(split.arrays[piece.array], piece.start, piece.stop)
    return Finding(split.language, split.name, "digest", words, piece.array, shard, piece.start, piece.stop)
