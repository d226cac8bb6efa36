"""the values of a run file -> its tables, every key known and of its type.

A class for each table, its fields the keys; what is UNSET was left out, and takes the default of the settings' own
classes. Entries by language are checked where their language can be named, in `flatmix.runfile`.
"""

import re
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from flatmix.tomlfile import TomlFile, dotted


class Data(Struct, frozen=True, forbid_unknown_fields=True):
    store: str
    split: str = "train"
    language: str | UnsetType = UNSET
    vocab_size: int | UnsetType = UNSET
    storage: dict[str, Any] | UnsetType = UNSET


class Batch(Struct, frozen=True, forbid_unknown_fields=True):
    len: int
    batch: int
    extra_tokens: int | UnsetType = UNSET
    stride: int | UnsetType = UNSET
    packing: bool | UnsetType = UNSET


class Order(Struct, frozen=True, forbid_unknown_fields=True):
    seed: int | str
    streams: int
    selector: str | UnsetType = UNSET
    sequences_per_read_block: int | str | dict[str, Any] | UnsetType = UNSET
    read_blocks_per_shuffle_buffer: int | str | dict[str, Any] | UnsetType = UNSET
    keys: dict[str, Any] | UnsetType = UNSET


class Phase(Struct, frozen=True, forbid_unknown_fields=True):
    step: int
    weights: dict[str, Any]


class Mixture(Struct, frozen=True, forbid_unknown_fields=True):
    weights: dict[str, Any]
    mode: str | UnsetType = UNSET
    phases: list[Phase] | UnsetType = UNSET
    byte_premiums: dict[str, Any] | UnsetType = UNSET


class Read(Struct, frozen=True, forbid_unknown_fields=True):
    memory_budget: int | str | UnsetType = UNSET
    prefetch: int | UnsetType = UNSET
    threads: int | UnsetType = UNSET


class Entry(Struct, frozen=True, forbid_unknown_fields=True):
    step: int
    slot: int
    batch: int


class Tables(Struct, frozen=True, forbid_unknown_fields=True):
    data: Data
    batch: Batch
    order: Order
    mixture: Mixture
    read: Read = Read()
    timeline: list[Entry] | UnsetType = UNSET


_TABLES = {"": Tables, "data": Data, "batch": Batch, "order": Order, "mixture": Mixture, "mixture.phases": Phase,
           "read": Read, "timeline": Entry}  # fmt: skip


def convert_tables(file: TomlFile) -> Tables:
    """A ValueError, naming file, line and key, for a key that is missing, not known or of another type."""
    try:
        return msgspec.convert(file.values, Tables)
    except msgspec.ValidationError as error:
        message = re.fullmatch(r"(.*?)(?: - at `\$\.?(.*)`)?", str(error), re.DOTALL)
    assert message is not None  # any text matches
    reason, place = message[1], message[2] or ""
    keys = tuple(int(key) if key.isdecimal() else key for key in re.findall(r"[^.\[\]]+", place))
    table = re.sub(r"\[\d+\]", "", dotted(keys))
    if found := re.fullmatch("Object missing required field `(.*)`", reason):
        missing = (*keys, found[1])
        raise file.error(missing, f"is missing{f': write [{found[1]}]' if dotted(missing) in _TABLES else ''}")
    if found := re.fullmatch("Object contains unknown field `(.*)`", reason, re.DOTALL):
        known = ", ".join(_TABLES[table].__struct_fields__)
        raise file.error((*keys, found[1]), f"is not known: {f'[{table}]' if table else 'a run file'} takes {known}")
    expected, got = re.findall("`(.*?)`", reason.replace("object", "table"))
    hint = f"; write [[{table}]]" if (expected, got) == ("array", "table") else ""
    raise file.error(keys, f"must be {expected.replace(' | ', ' or ')}, not {got}{hint}")
