"""pattern -> files in order: what a path, a folder or a glob names, sorted by name and never by listing order.

The order of the files is the order of the documents, so it must be that of every machine: two listings of one folder
may differ, two sorted lists of its names do not. Names are kept relative to the folder that the files of a language
have in common, so that a copy of the input elsewhere gives an equal store.

Nothing is left out but what is hidden, its name beginning with a dot: links to folders are followed, and what cannot be
listed or is neither a file nor a folder ends the search. So folders are walked here; `glob` passes over such things.
Costs one walk over each folder.
"""

import fnmatch
import glob
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from flatmix.errors import ConvertError

JSON_LINES = (".jsonl", ".json", ".ndjson")
PLAIN_TEXT = (".txt",)
_GROUP = {"zarr.json", ".zgroup"}  # what a folder of Zarr holds


@dataclass(frozen=True)
class Source:
    """Files whose records all go to `language`, or each to the language it names where `language` is None."""

    language: str | None
    files: tuple[Path, ...]
    names: tuple[str, ...]  # relative to the folder they have in common; `source_file` counts these
    data: str  # the patterns, without where they lie
    real: tuple[str, ...]  # the files, links resolved
    folders: tuple[str, ...]  # those of which all files were taken, links resolved

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.stat().st_size for file in self.files)


def find_source(language: str | None, patterns: Sequence[str | os.PathLike[str]]) -> Source:
    """The files of all `patterns`: pattern by pattern as given, sorted by name within each.

    Raises ConvertError for a pattern without files, a file or folder named twice, a name that is not UTF-8, a link to
    nothing, and a kind of file that cannot be converted; OSError for a folder that cannot be listed.
    """
    files: list[Path] = []
    folders: list[Path] = []
    for pattern in patterns:
        named, below = _find_files(os.fspath(pattern))
        files += named
        folders += below
    real = tuple(os.path.realpath(file) for file in files)
    seen: set[str] = set()
    for file, resolved in zip(files, real, strict=True):
        _check_kind(file, needs_fields=language is None)
        if resolved in seen:
            where = "" if language is None else f" for {language!r}"
            raise ConvertError(f"{file} is named twice{where}, so its documents would be too; name it once")
        seen.add(resolved)
    data = ", ".join(_unplaced(os.fspath(pattern)) for pattern in patterns)
    return Source(language, tuple(files), _relative_names(files), data, real, tuple(map(os.path.realpath, folders)))


def _find_files(pattern: str) -> tuple[list[Path], list[Path]]:
    """The files that `pattern` names, and the folders that were walked for them."""
    path = Path(pattern)
    if path.exists():
        named = [path]
    elif glob.has_magic(pattern):
        named = sorted(set(_expand(Path(path.anchor), path.parts[bool(path.anchor) :])), key=lambda path: path.parts)
    else:
        raise ConvertError(f"{pattern}: there is no such file or folder")
    folders = [path for path in named if _is_folder(path)]
    below = [path / name for folder in folders for path, names in _walk(folder) for name in names]
    files = sorted({*below, *named} - {*folders}, key=lambda path: path.parts)
    if not files:
        raise ConvertError(f"{pattern}: no file is there to convert")
    for file in files:
        _check_file(file)
    return files, folders


def _walk(folder: Path) -> Iterator[tuple[Path, list[str]]]:
    """`folder` and all below it with the names of what is no folder, links followed; what is hidden is passed over."""

    def fail(error: OSError) -> None:
        raise error

    seen: dict[str, str] = {}
    for path, folders, names in os.walk(folder, onerror=fail, followlinks=True):
        other = seen.setdefault(os.path.realpath(path), path)
        if other != path:
            raise ConvertError(
                f"{path} and {other} are the same folder, so its documents would be there twice; remove the link, or "
                "name the folders one by one"
            )
        if _GROUP.intersection(names):
            raise ConvertError(f"{path} is a Zarr group, such as a store, and no input; move it out of the input")
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield Path(path), [name for name in names if not name.startswith(".")]


def _expand(folder: Path, parts: Sequence[str]) -> Iterator[Path]:
    """What the parts of a glob match in `folder`; OSError where that cannot be known."""
    if not parts:
        yield folder
        return
    if not _is_folder(folder):
        if folder.is_symlink():
            _check_file(folder)
        return
    first, rest = parts[0], parts[1:]
    if first == "**":
        # At the end it stands for all that is below, as the folder itself does.
        for path in [folder] if not rest else [path for path, _ in _walk(folder)]:
            yield from _expand(path, rest)
    elif not glob.has_magic(first):
        if os.path.lexists(folder / first):
            yield from _expand(folder / first, rest)
    else:
        for name in os.listdir(folder):  # noqa: PTH208 (Path.iterdir would be no shorter)
            if fnmatch.fnmatch(name, first) and (first.startswith(".") or not name.startswith(".")):
                yield from _expand(folder / name, rest)


def _is_folder(path: Path) -> bool:
    """Whether it is a folder, or a link to one; OSError where that cannot be known, while Path.is_dir may say no."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)  # noqa: PTH116
    except (FileNotFoundError, NotADirectoryError):
        return False


def _check_file(file: Path) -> None:
    """ConvertError for what a search has found and is no file, nor a link to one."""
    if file.is_file():
        return
    if file.is_symlink():
        raise ConvertError(f"{file} is a link to nothing, or to what cannot be reached; remove it, or repair it")
    raise ConvertError(f"{file} is no file, or cannot be reached; move it out of the input")


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
