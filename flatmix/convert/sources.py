"""pattern -> files in order: what a path, a folder or a glob names, sorted by name and never by listing order.

The order of the files is the order of the documents, so it must be that of every machine: two listings of one folder
may differ, two sorted lists of its names do not. Names are kept relative to the folder that the files of a language
have in common, so that a copy of the input elsewhere gives an equal store. Costs one walk over each folder.
"""

import glob
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from flatmix.errors import ConvertError

JSON_LINES = (".jsonl", ".json", ".ndjson")
PLAIN_TEXT = (".txt",)


@dataclass(frozen=True)
class Source:
    """Files whose records all go to `language`, or each to the language it names where `language` is None."""

    language: str | None
    files: tuple[Path, ...]
    names: tuple[str, ...]  # relative to the folder they have in common; `source_file` counts these
    data: str  # the patterns, without where they lie

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.stat().st_size for file in self.files)


def find_source(language: str | None, patterns: Sequence[str | os.PathLike[str]]) -> Source:
    """The files of all `patterns`: pattern by pattern as given, sorted by name within each.

    Raises ConvertError for a pattern without files, a file named twice, a name that is not UTF-8, and a kind of file
    that cannot be converted.
    """
    files: list[Path] = []
    for pattern in patterns:
        files += _find_files(os.fspath(pattern))
    seen: set[str] = set()
    for file in files:
        _check_kind(file, needs_fields=language is None)
        real = os.path.realpath(file)
        if real in seen:
            where = "" if language is None else f" for {language!r}"
            raise ConvertError(f"{file} is named twice{where}, so its documents would be too; name it once")
        seen.add(real)
    data = ", ".join(_unplaced(os.fspath(pattern)) for pattern in patterns)
    return Source(language, tuple(files), _relative_names(files), data)


def _find_files(pattern: str) -> list[Path]:
    path = Path(pattern)
    if path.is_dir():
        below = [p for p in path.rglob("*") if p.is_file() and not _hidden(p.relative_to(path))]
        files = sorted(below, key=lambda p: p.relative_to(path).parts)
    elif path.is_file():
        files = [path]
    elif path.exists():
        raise ConvertError(f"{pattern} is neither a file nor a folder")
    elif glob.has_magic(pattern):
        found = glob.glob(pattern, recursive=True)  # noqa: PTH207 (Path.glob takes no absolute pattern)
        files = sorted(path for name in found if (path := Path(name)).is_file())
    else:
        raise ConvertError(f"{pattern}: there is no such file or folder")
    if not files:
        raise ConvertError(f"{pattern}: no file is there to convert")
    return files


def _hidden(relative: Path) -> bool:
    return any(part.startswith(".") for part in relative.parts)


def _check_kind(file: Path, *, needs_fields: bool) -> None:
    kind = file.suffix.lower()
    if kind not in JSON_LINES + PLAIN_TEXT:
        raise ConvertError(
            f"{file}: files of kind {kind or '(none)'} cannot be converted; give JSON lines ({', '.join(JSON_LINES)}) "
            f"or plain text ({', '.join(PLAIN_TEXT)}), or a pattern that leaves this file out, like 'FOLDER/*.jsonl'"
        )
    if needs_fields and kind in PLAIN_TEXT:
        raise ConvertError(f"{file}: plain text has no field that names its language; name it with --language")


def _relative_names(files: Sequence[Path]) -> tuple[str, ...]:
    absolute = [Path(os.path.abspath(file)) for file in files]  # noqa: PTH100 (a link keeps its own name)
    root = os.path.commonpath([file.parent for file in absolute])
    names = tuple(file.relative_to(root).as_posix() for file in absolute)
    for name in names:
        try:
            name.encode()
        except UnicodeEncodeError:
            raise ConvertError(f"the file name {name!a} is not UTF-8 and could not be recorded") from None
    return names


def _unplaced(pattern: str) -> str:
    """`pattern` without the folders in front of its first wildcard: where the input lies is not part of what it is."""
    path = Path(pattern)
    if path.is_dir():
        return "*"
    if path.is_file():
        return path.name
    magic = [glob.has_magic(part) for part in path.parts]
    return "/".join(path.parts[magic.index(True) :])
