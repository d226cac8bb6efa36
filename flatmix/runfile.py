"""run.toml -> Run: the settings of a run, checked one by one, each error with its file, line and key.

A run file holds what `FlatTokensParams`, `MixtureParams`, `TokenBatchParams` and a timeline hold, in tables that people
can read; docs/run-files.md lists the keys. Nothing is guessed: a key that is not known, a number written as text, a
weight that is no number are refused before any store is opened. Names of languages are keys, and TOML's keys are
always strings, so that `no`, `on`, `nan` and `1e2` are languages. Settings that are left out have the defaults of those
classes, which are written there only.
"""

import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from msgspec import UNSET, Struct

from flatmix.order import Timeline
from flatmix.order.selector import checked_weights
from flatmix.params import FlatTokensParams, MixtureParams, TokenBatchParams
from flatmix.runtables import Tables, convert_tables
from flatmix.tomlfile import Keys, TomlFile, dotted, read_toml


@dataclass(frozen=True)
class Run:
    """What a run file says. `params.filespec` is absolute, or a URL."""

    split: str
    params: FlatTokensParams
    mixture: MixtureParams
    token_batch_params: TokenBatchParams
    timeline: tuple[tuple[int, int, int], ...] | None = None


def read_run(path: str | os.PathLike[str]) -> Run:
    """Reads and checks a run file; the store that it names is not looked at.

    Raises ValueError, naming file, line and key, for what is no run file; OSError where there is no file.
    """
    file = read_toml(path)
    said = convert_tables(file)
    with file.settings("batch"):
        shape = TokenBatchParams(**_given(said.batch, "len", "batch", "extra_tokens", "stride"))
    timeline = _timeline(file, said)
    mixture = _mixture(file, said)
    sizes = {
        name: _size(file, ("order", name), value, mixture.languages)
        for name, value in _given(said.order, "sequences_per_read_block", "read_blocks_per_shuffle_buffer").items()
    }
    if said.batch.packing is not UNSET:
        sizes["sequence_packing"] = said.batch.packing
    store, seed = _store(file, said.data.store), _word(file, ("order", "seed"), said.order.seed)
    with file.settings("read", "data"):
        params = FlatTokensParams(
            filespec=store,
            streams=said.order.streams,
            seed=seed,
            **sizes,
            **_given(said.data, "language", "vocab_size", "storage"),
            **_given(said.read, "memory_budget", "prefetch", "threads"),
        )
    return Run(said.data.split, params, mixture, shape, timeline)


def _given(table: Struct, *names: str) -> dict[str, Any]:
    """What the file says of these; the rest have their defaults."""
    return {name: getattr(table, name) for name in names if getattr(table, name) is not UNSET}


def _timeline(file: TomlFile, said: Tables) -> tuple[tuple[int, int, int], ...] | None:
    batch = said.batch.batch
    if said.timeline is UNSET:
        with file.settings("order", "batch"):
            Timeline(((0, 0, batch),), said.order.streams)
        return None
    entries = tuple((entry.step, entry.slot, entry.batch) for entry in said.timeline)
    with file.settings("order", keys=("timeline",)):
        Timeline(entries, said.order.streams)
    if entries[-1][2] != batch:
        place = ("timeline", len(entries) - 1, "batch")
        raise file.error(place, f"is {entries[-1][2]}, and batch.batch {batch}: the last entry's must be equal to it")
    return entries


def _mixture(file: TomlFile, said: Tables) -> MixtureParams:
    weights = _weights(file, ("mixture", "weights"), said.mixture.weights)
    settings = _given(said.order, "selector") | _given(said.mixture, "mode")
    last, phases = 0, []
    for number, phase in enumerate([] if said.mixture.phases is UNSET else said.mixture.phases):
        place = ("mixture", "phases", number)
        if phase.step <= last:
            raise file.error((*place, "step"), f"is {phase.step}: steps of phases rise, and the first is above 0")
        last = phase.step
        phases.append((phase.step, _weights(file, (*place, "weights"), phase.weights)))
    languages = MixtureParams(weights, phases=phases).languages
    if said.order.keys is not UNSET:
        settings["keys"] = _by_language(file, ("order", "keys"), said.order.keys, _word, languages)
    if said.mixture.byte_premiums is not UNSET:
        given = said.mixture.byte_premiums
        settings["byte_premiums"] = _by_language(file, ("mixture", "byte_premiums"), given, _premium, languages)
    with file.settings("mixture", "order", keys=("mixture",)):
        return MixtureParams(weights, phases=phases or None, **settings)


def _weights(file: TomlFile, keys: Keys, weights: dict[str, Any]) -> dict[str, float]:
    checked = {name: _number(file, (*keys, name), weight) for name, weight in weights.items()}
    with file.settings(keys=keys):
        checked_weights([*checked.items()], dotted(keys))
    return checked


def _by_language(
    file: TomlFile,
    keys: Keys,
    given: dict[str, Any],
    check: Callable[[TomlFile, Keys, Any], Any],
    languages: Sequence[str],
) -> dict[str, Any]:
    for name in given:
        if name not in languages:
            listed = ", ".join(map(repr, languages))
            raise file.error((*keys, name), f"is of no language of the mixture, which has {listed}")
    return {name: check(file, (*keys, name), value) for name, value in given.items()}


def _number(file: TomlFile, keys: Keys, value: Any) -> float:
    if isinstance(value, dict):
        name = f"{keys[-1]}.{next(iter(value), '...')}"
        raise file.error(keys, f'is a table: a number is needed; write a name that has a dot in quotes, "{name}"')
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise file.error(keys, f"is {value!r}: a number is needed")
    if not 0 <= value <= sys.float_info.max:
        raise file.error(keys, f"is {value}: it must be finite and not below 0")
    return float(value)


def _premium(file: TomlFile, keys: Keys, value: Any) -> float:
    number = _number(file, keys, value)
    if number == 0:
        raise file.error(keys, f"is {value}: it must be above 0")
    return number


def _word(file: TomlFile, keys: Keys, value: Any) -> int:
    """A number of 64 bits. TOML promises 63, so that larger ones are written as text."""
    number = int(value) if isinstance(value, str) and re.fullmatch("[0-9]{1,20}", value) else value
    if type(number) is not int or not 0 <= number < 2**64:
        raise file.error(keys, f"is {value!r}: a whole number from 0 to 2^64 - 1 is needed, in quotes from 2^63 on")
    return number


def _size(file: TomlFile, keys: Keys, value: Any, languages: Sequence[str]) -> Any:
    if isinstance(value, dict):
        return _by_language(file, keys, value, _one_size, languages)
    return _one_size(file, keys, value)


def _one_size(file: TomlFile, keys: Keys, value: Any) -> int | str:
    if value != "auto" and (type(value) is not int or value < 1):
        raise file.error(keys, f'is {value!r}: take a number above 0, "auto", or a table of languages')
    return value


def _store(file: TomlFile, store: str) -> str:
    """A path from the folder of the run file on; a URL as it is."""
    if not store:
        raise file.error(("data", "store"), "is empty: the path of a store is needed")
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", store):
        return store
    return str(Path(file.path).absolute().parent / store)
