"""What cannot be read of an array -> findings, each about adjacent chunks of one shard.

A shard that is gone or has lost its index is a thousand chunks that fail for the same reason; so the reason that is
told is that of the first.
"""

from collections.abc import Iterable
from dataclasses import replace

from flatmix.store import Split
from flatmix.store import format as layout
from flatmix.store.arrays import ArrayMetadata
from flatmix.verify.pieces import Damage
from flatmix.verify.report import Finding


def damage_findings(split: Split, name: str, damages: Iterable[Damage]) -> list[Finding]:
    """The damages of one array, in the sequence of its entries -> findings."""
    array = split.arrays[name]
    joined: list[Damage] = []
    for damage in damages:
        last = joined[-1] if joined else None
        if last and damage.start <= last.stop and shard_of(array, damage.start) == shard_of(array, last.start):
            joined[-1] = replace(last, stop=max(last.stop, damage.stop))
        else:
            joined.append(damage)
    return [_finding(split, array, damage) for damage in joined]


def _finding(split: Split, array: ArrayMetadata, damage: Damage) -> Finding:
    first, last = damage.start // array.chunk, (damage.stop - 1) // array.chunk
    shard = shard_of(array, damage.start)
    which = f"chunk {first}" if first == last else f"chunks {first} to {last}"
    where = "" if shard is None else f" (in shard {shard})"
    holds, are = ("holds", "is") if first == last else ("hold", "are")
    words = (
        f"{which}{where}, which {holds} the {unit_of(array.name)} [{damage.start}, {damage.stop}), {are} missing or "
        f"damaged: {damage.reason}"
    )
    return Finding(split.language, split.name, "damaged", words, array.name, shard, damage.start, damage.stop)


def shard_of(array: ArrayMetadata, start: int, stop: int | None = None) -> int | None:
    """The file that holds entry `start`, or all of [start, stop); None where none does, or chunks have their own."""
    if array.shard is None or (stop is not None and start // array.shard != (stop - 1) // array.shard):
        return None
    return start // array.shard


def unit_of(array: str) -> str:
    return "tokens" if array == layout.ENCODED_TOKENS else "entries"
