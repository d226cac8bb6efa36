"""what a user names -> inputs in order, each with the kind that reads it.

A file is told by its name, a folder that is one input (a saved data set, shards, an older store) by what lies in it.
The names that a store keeps are relative to the folder that the files of a source have in common, so that a copy of the
input elsewhere gives an equal store.
"""

import json
import os
from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any, NamedTuple

from msgspec.structs import replace

from flatmix.convert import imports
from flatmix.convert.imports import llmc, megatron, nanogpt, older, shards
from flatmix.convert.inputs import Fields, Input
from flatmix.convert.lines import COMPRESSIONS, JSON_LINES, KINDS, SUFFIXES, TEXT, kind_of
from flatmix.convert.listing import list_addresses, list_local, without_query
from flatmix.convert.places import is_remote, size_and_stamp
from flatmix.errors import ConvertError

_PARQUET = ".parquet"
_FILES = (*KINDS, "parquet", nanogpt.KIND, llmc.KIND, shards.KIND, megatron.KIND)  # whose `path` is that of a file
_FOLDERS = (shards.KIND, older.KIND)  # of tokens, which are one input with all that is in it


@dataclass(frozen=True)
class Source:
    """Inputs whose records all go to `language`, or each to the language it names where `language` is None."""

    language: str | None
    split: str
    data: str  # the patterns, without where they lie
    inputs: tuple[Input, ...]
    fields: Fields
    folders: tuple[str, ...]  # local ones of which all was taken, links resolved
    globs: tuple[str, ...] = ()  # local patterns with a wildcard, absolute


class ReadOptions(NamedTuple):
    """How inputs are read, where there is a choice."""

    download: bool = False  # a data set of the hub is fetched whole, and not streamed
    tokens: dict[str, Any] | None = None  # what files of tokens do not say of themselves; see `imports.find_inputs`


_USUAL = ReadOptions()


class _Asked(NamedTuple):
    """What is the same for all patterns of a source."""

    language: str | None
    split: str
    fields: Fields
    options: ReadOptions

    @property
    def format(self) -> str | None:
        return (self.options.tokens or {}).get("format")


def find_source(
    language: str | None,
    split: str,
    patterns: Sequence[str | os.PathLike[str]],
    fields: Fields,
    options: ReadOptions = _USUAL,
    passed: Container[str] = (),
) -> Source:
    """The inputs of all `patterns`: pattern by pattern as given, sorted by name within each.

    A pattern is a path, a folder, a glob, an address (s3://..., with folders and globs as well) or hf:NAME, a data set
    of the Hugging Face hub. Folders `passed`, links resolved, are passed over by wildcards and below a folder.

    Raises ConvertError for a pattern without files, an input named twice, a name that is not UTF-8, a link to nothing,
    a kind that cannot be converted or not together with the others; ReadError for what cannot be reached; OSError for a
    folder that cannot be listed.
    """
    asked = _Asked(language, split, fields, options)
    inputs: list[Input] = []
    folders: list[str] = []
    labels: list[str] = []
    globs: list[str] = []
    local: list[tuple[int, Path]] = []  # (inputs before it, path): what a path means may depend on the others
    for pattern in map(os.fspath, patterns):
        if pattern.startswith("hf:") and not is_remote(pattern):
            from flatmix.convert.hub import find_hub

            inputs += find_hub(pattern, split, fields, options.download)
            labels.append(pattern)
        elif is_remote(pattern) and not pattern.startswith("file://"):
            found, label = list_addresses(pattern)
            inputs += [_remote_input(address, *known) for address, known in found.items()]
            labels.append(label)
        else:
            pattern = pattern.removeprefix("file://")
            listing = list_local(pattern, lambda path, alone: _is_whole(path, alone, asked), passed)
            local += [(len(inputs), path) for path in listing.paths]
            folders += map(os.path.realpath, listing.folders)
            globs += [os.path.abspath(pattern)] if listing.wildcard else []  # noqa: PTH100  links keep their names
            labels.append(listing.label)
    inputs = _with_local(inputs, local, asked)
    _check_together(inputs, asked)
    _check_once(inputs, language)
    return Source(language, split, ", ".join(labels), tuple(_renamed(inputs)), fields, tuple(folders), tuple(globs))


def stamp_now(found: Input) -> str:
    """The stamp of an input as it is now; the one it had where that cannot be known. ReadError where it is gone."""
    if found.kind == megatron.KIND:
        return "-".join(size_and_stamp(path)[1] for path in (found.path, f"{found.path[:-4]}.idx"))
    return size_and_stamp(found.path)[1] if found.kind in _FILES else found.stamp


def _is_whole(path: str, alone: bool, asked: _Asked) -> bool:
    """Whether a folder, or the prefix of files of Megatron, is one input as it is."""
    if asked.options.tokens is None and _is_saved(path):
        return True
    kind = asked.format or imports.detect(path)
    if not Path(path).is_dir():
        return alone and kind == megatron.KIND and megatron.has_index(path)
    # A store that a wildcard happens to match is rather one that was written beside the input.
    return kind == shards.KIND or (kind == older.KIND and alone)


def _is_saved(path: str) -> bool:
    if not Path(path).is_dir():
        return False
    from flatmix.convert import tables

    return tables.is_saved(path)


def _with_local(inputs: Sequence[Input], local: Sequence[tuple[int, Path]], asked: _Asked) -> list[Input]:
    """`inputs` and those at the local paths, each in its place."""
    paths = {os.path.abspath(path) for _, path in local}  # noqa: PTH100  links keep their names
    indexed: dict[str, list[Input] | None] = {}  # folders whose index of shards is named -> what it lists
    made: list[Input] = []
    done = 0
    for before, path in local:
        made += inputs[done:before]
        done = before
        absolute = os.path.abspath(path)  # noqa: PTH100
        folder = os.path.dirname(absolute)  # noqa: PTH120
        if folder not in indexed:
            indexed[folder] = _shards_of(folder, paths, asked)
            made += indexed[folder] or []
        if indexed[folder] is None and not _is_second_half(absolute, paths):
            made += _local_inputs(absolute, path, asked)
    return [*made, *inputs[done:]]


def _shards_of(folder: str, paths: set[str], asked: _Asked) -> list[Input] | None:
    """All shards of a folder whose index is among `paths`, and with it all that it lists; None for another folder."""
    if os.path.join(folder, shards.INDEX) not in paths or asked.format not in (None, shards.KIND):  # noqa: PTH118
        return None
    if imports.detect(folder) != shards.KIND:
        return None
    return imports.find_inputs(folder, shards.KIND, asked.options.tokens, asked.split)


def _is_second_half(path: str, paths: set[str]) -> bool:
    """Whether it is the index of a file of Megatron that is named as well."""
    return path.endswith(".idx") and f"{path[:-4]}.bin" in paths and megatron.has_index(path)


def _local_inputs(absolute: str, path: Path, asked: _Asked) -> list[Input]:
    tokens = asked.options.tokens
    if tokens is None:
        if _is_saved(absolute):
            from flatmix.convert import tables

            return tables.find_saved(absolute, asked.split)
        found = _text_input(absolute)
        if found is not None:
            return [found]
    kind = asked.format or imports.detect(absolute)
    if kind is None and tokens is not None:
        raise ConvertError(
            f"{path} is no file of tokens as {', '.join(imports.KINDS)} have them; name its format, or leave out the "
            "settings of tokens"
        )
    if kind is None:
        raise _foreign(str(path))
    return imports.find_inputs(absolute, kind, tokens, asked.split)


def _remote_input(address: str, size: int, stamp: str) -> Input:
    found = _text_input(address, (size, stamp))
    if found is None:
        raise _foreign(address)
    return found


def _text_input(path: str, known: tuple[int, str] | None = None) -> Input | None:
    """The file at a path or an address as one of text; None where its name says that it is another."""
    name = without_query(path).rpartition("/")[2] if is_remote(path) else os.path.basename(path)  # noqa: PTH119
    kind = kind_of(name)
    if kind is None and not name.lower().endswith(_PARQUET):
        return None
    size, stamp = known or size_and_stamp(path)
    if kind is not None:
        return Input(path=path, name=name, kind=kind[0], size=size, stamp=stamp, options={"compression": kind[1]})
    from flatmix.convert import tables

    return replace(tables.find_parquet(path, name), size=size, stamp=stamp)


def _foreign(path: str) -> ConvertError:
    kind = Path(without_query(path)).suffix.lower()
    compressed = " and ".join(f".{compression}" for compression in COMPRESSIONS)
    names = {wanted: ", ".join(suffix for suffix in SUFFIXES if SUFFIXES[suffix] == wanted) for wanted in KINDS}
    return ConvertError(
        f"{path}: files of kind {kind or '(none)'} cannot be converted; give JSON lines ({names[JSON_LINES]}) or plain "
        f"text ({names[TEXT]}), with {compressed} behind it or without, Parquet ({_PARQUET}), tokens on this machine "
        "(.bin, .idx), or a pattern that leaves this file out, like 'FOLDER/*.jsonl'"
    )


def _check_together(inputs: Sequence[Input], asked: _Asked) -> None:
    tokens = next((one for one in inputs if one.kind in imports.KINDS), None)
    texts = next((one for one in inputs if one.kind not in imports.KINDS), None)
    if tokens is not None and texts is not None:
        raise ConvertError(f"{texts.path} is text and {tokens.path} is tokens already; convert them one after another")
    if texts is not None and asked.options.tokens is not None:
        raise ConvertError(f"{texts.path} is no file of tokens on this machine; leave out the settings of tokens")
    for one in inputs if asked.language is None else ():
        if one.kind in imports.KINDS:
            raise ConvertError(f"{one.path}: tokens have no field that names their language; name it with --language")
        if one.kind == TEXT:
            raise ConvertError(f"{one.path}: plain text has no field that names its language; name it with --language")


def _check_once(inputs: Sequence[Input], language: str | None) -> None:
    seen: set[tuple[str, str]] = set()
    for one in inputs:
        place = one.path if is_remote(one.path) else os.path.realpath(one.path)
        key = place, json.dumps(one.options, sort_keys=True)
        if key in seen:
            where = "" if language is None else f" for {language!r}"
            raise ConvertError(f"{one.path} is named twice{where}, so its documents would be too; name it once")
        seen.add(key)


def _renamed(inputs: Sequence[Input]) -> list[Input]:
    """With names relative to the folder that files have in common: those here, and those at addresses."""
    files = {one.path for one in inputs if one.kind in _FILES}
    addresses = {path for path in files if is_remote(path)}
    names = _relative({path: without_query(path).split("/") for path in addresses})
    names |= _relative({path: list(Path(path).parts) for path in files - addresses})
    for name in names.values():
        try:
            name.encode()
        except UnicodeEncodeError:
            raise ConvertError(f"the file name {name!a} is not UTF-8 and could not be recorded") from None
    return [replace(one, name=names.get(one.path, one.name)) for one in inputs]


def _relative(parts: dict[str, list[str]]) -> dict[str, str]:
    """{path: its parts} -> {path: its name}, without the folders that all have in common."""
    folders = [path[:-1] for path in parts.values()]
    common = sum(1 for _ in takewhile(lambda level: len(set(level)) == 1, zip(*folders, strict=False)))
    return {path: "/".join(split[common:]) for path, split in parts.items()}
