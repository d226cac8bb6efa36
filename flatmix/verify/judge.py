"""The facts of all pieces of a split -> its report: do they agree with each other, and with what the split says.

What follows from a fault that has a finding already is not told a second time: document starts are compared, and a
largest id that is too small is told, only where the entries in question are what was written, as far as that is known.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from flatmix.store import Split
from flatmix.store import format as layout
from flatmix.verify.damage import damage_findings, shard_of
from flatmix.verify.facts import Beyond, Facts, file_limit
from flatmix.verify.proof import Proof, prove
from flatmix.verify.report import Finding, SplitReport, called
from flatmix.verify.starts import seq_starts_findings, start_bit_findings

_SOURCES = (layout.SOURCE_FILE, layout.SOURCE_RECORD)


def judge(split: Split, facts: Sequence[Facts], notes: Iterable[str] = ()) -> SplitReport:
    """The report of a split from the facts of all its pieces, those of an array in its own sequence."""
    by_array: dict[str, list[Facts]] = {array: [] for array in split.arrays}
    for one in facts:
        by_array[one.piece.array].append(one)
    wrong = {array: {one.piece.number for one in pieces if one.damages} for array, pieces in by_array.items()}
    findings = [
        finding
        for array, pieces in by_array.items()
        for finding in damage_findings(split, array, (damage for one in pieces for damage in one.damages))
    ]
    proof = Proof() if split.weak else prove(split, by_array)
    for array, numbers in proof.wrong.items():
        wrong[array] |= numbers
    findings += proof.findings
    starts, skipped = _start_findings(split, by_array, wrong)
    findings += starts
    findings += _id_findings(split, by_array[layout.ENCODED_TOKENS], not wrong[layout.ENCODED_TOKENS])
    findings += _source_findings(split, by_array.get(layout.SOURCE_FILE, []))
    return SplitReport(
        split.language,
        split.name,
        split.tokens,
        split.documents,
        max((one.ended for one in facts), default=0.0) - min((one.began for one in facts), default=0.0),
        tuple(findings),
        (*notes, *proof.notes, *skipped, *_limits(split)),
        {array: sorted(numbers) for array, numbers in wrong.items() if numbers},
        proven=not split.weak,
    )


def _start_findings(
    split: Split, by_array: Mapping[str, Sequence[Facts]], wrong: Mapping[str, set[int]]
) -> tuple[list[Finding], list[str]]:
    starts = by_array[layout.SEQ_STARTS]
    if not starts:
        return [], []
    if wrong[layout.SEQ_STARTS]:
        place = called(split.language, split.name)
        return [], [f"{place}: where documents start was not compared, since seq_starts is damaged"]
    findings = seq_starts_findings(split, starts)
    if not findings:
        tokens = by_array[layout.ENCODED_TOKENS]
        whole = [one for one in tokens if one.piece.number not in wrong[layout.ENCODED_TOKENS]]
        findings = start_bit_findings(split, whole, starts)
    return findings, []


def _id_findings(split: Split, tokens: Sequence[Facts], whole: bool) -> list[Finding]:
    largest = max([0, *(one.largest for one in tokens)])
    beyond = _all_beyond(tokens)
    if beyond is not None:
        words = (
            f"ids beyond max_token_id, which is {split.max_token_id}: {beyond.count}, the first at token "
            f"{beyond.first}, and the largest is {largest}"
        )
        return [_spanned(split, "ids", words, layout.ENCODED_TOKENS, beyond)]
    if whole and largest < split.max_token_id:
        words = f"the largest id is {largest}, and max_token_id is {split.max_token_id}"
        return [Finding(split.language, split.name, "ids", words, layout.ENCODED_TOKENS)]
    return []


def _source_findings(split: Split, files: Sequence[Facts]) -> list[Finding]:
    beyond = _all_beyond(files)
    if beyond is None:
        return []
    words = (
        f"source files beyond the {file_limit(split)} that the attribute source names: {beyond.count}, the first of "
        f"document {beyond.first}, and the largest is number {max(one.largest for one in files)}"
    )
    return [_spanned(split, "sources", words, layout.SOURCE_FILE, beyond)]


def _all_beyond(facts: Sequence[Facts]) -> Beyond | None:
    found = [one.beyond for one in facts if one.beyond is not None]
    return Beyond(sum(one.count for one in found), found[0].first, found[-1].last) if found else None


def _spanned(split: Split, kind: Any, words: str, array: str, beyond: Beyond) -> Finding:
    start, stop = beyond.first, beyond.last + 1
    return Finding(
        split.language, split.name, kind, words, array, shard_of(split.arrays[array], start, stop), start, stop
    )


def _limits(split: Split) -> list[str]:
    """What no reading of this split can show."""
    place, unproven = called(split.language, split.name), []
    if split.weak:
        bare = "" if _has_checksums(split, layout.ENCODED_TOKENS) else ", nor checksums"
        unproven.append(
            f"{place}: an older store has no digests{bare}: a value that was changed and can be decoded is not found"
        )
    if layout.SOURCE_FILE in split.arrays:
        if not all(_has_checksums(split, array) for array in _SOURCES):
            unproven.append(
                f"{place}: its sources have no checksums: a value of theirs that was changed and can be decoded is not "
                "found"
            )
        if file_limit(split) is None:
            unproven.append(f"{place}: how many source files there are is not said, so source_file was only read")
    return unproven


def _has_checksums(split: Split, array: str) -> bool:
    return "'crc32c'" in str(split.arrays[array].raw.get("codecs"))
