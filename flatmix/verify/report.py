"""What was found wrong -> one answer: sound or not, split by split, in a sequence that threads do not change.

A finding is a fault: something that readers refuse, would stumble over, or would take for what it is not. A note is no
fault: what lies there without being part of the store, and what could not be checked. `damaged` counts pieces, runs of
2^24 entries of an array (of an older store, rounded down to whole chunks): a piece is what is made again from its
source, and proven by one digest.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Kind = Literal[
    "incomplete",  # a split that its writer has not completed
    "missing",  # a split that a conversion was to replace, and that was left moved away
    "refused",  # what readers refuse to open
    "damaged",  # entries that cannot be read
    "digest",  # entries that are not those that were written
    "seq_starts",  # document starts that do not rise from 0 to the number of tokens
    "start bits",  # tokens that say otherwise than seq_starts where documents start
    "ids",  # a largest id that is not max_token_id
    "sources",  # origins of documents in files that there are not
]


def called(language: str, split: str | None) -> str:
    """A split, or all of a language, in words."""
    return f"language {language!r}" + (f", split {split!r}" if split is not None else "")


@dataclass(frozen=True)
class Finding:
    """One fault. `words` say it without the place; entries are [start, stop) of `array`, tokens in encoded_tokens.

    `split` is None where the fault is the language's, `array` where it is the split's, `shard` where entries of several
    files are meant, or each chunk is a file.
    """

    language: str
    split: str | None
    kind: Kind
    words: str
    array: str | None = None
    shard: int | None = None
    start: int | None = None
    stop: int | None = None

    def __str__(self) -> str:
        return f"{called(self.language, self.split)}: {f'{self.array}: ' if self.array else ''}{self.words}"


@dataclass(frozen=True)
class SplitReport:
    """What was found in one split. Its counts are None where it could not be opened.

    `damaged` has, for each array with entries that cannot be read or are not those that were written, the sorted
    numbers of their pieces. `proven` says that digests of all the content were compared.
    """

    language: str
    split: str
    tokens: int | None
    documents: int | None
    seconds: float
    findings: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    damaged: Mapping[str, list[int]] = field(default_factory=dict)
    proven: bool = False

    @property
    def sound(self) -> bool:
        return not self.findings

    @property
    def verdict(self) -> str:
        """ "sound"; "no fault found" where that is no proof; or what is wrong with it."""
        if self.sound:
            return "sound" if self.proven else "no fault found"
        kinds = {finding.kind for finding in self.findings}
        for kind in ("incomplete", "missing", "refused"):
            if kind in kinds:
                return kind
        return "damaged" if kinds & {"damaged", "digest"} else "wrong"


@dataclass(frozen=True)
class Report:
    """What was found in a store: `splits` by (language, split), in sequence; the rest is about neither of them."""

    store: str
    splits: Mapping[tuple[str, str], SplitReport]
    store_findings: tuple[Finding, ...] = ()
    store_notes: tuple[str, ...] = ()

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All faults: those of the store, then those of each split."""
        return self.store_findings + tuple(found for split in self.splits.values() for found in split.findings)

    @property
    def notes(self) -> tuple[str, ...]:
        """All that is no fault, in the same sequence."""
        return self.store_notes + tuple(note for split in self.splits.values() for note in split.notes)

    @property
    def sound(self) -> bool:
        return not self.findings

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON: the fields, and the verdicts."""
        splits = [
            asdict(split) | {"findings": len(split.findings), "verdict": split.verdict}
            for split in self.splits.values()
        ]
        for split in splits:
            del split["notes"]
        return {
            "store": self.store,
            "sound": self.sound,
            "splits": splits,
            "findings": [asdict(finding) for finding in self.findings],
            "notes": list(self.notes),
        }
