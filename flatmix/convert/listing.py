"""pattern -> files in order: what a path, a folder, a glob or an address names, sorted by name.

The order of the files is the order of the documents, so it must be that of every machine: two listings of one folder
may differ, two sorted lists of its names do not.

Nothing is left out but what is hidden, its name beginning with a dot: links to folders are followed, and what cannot be
listed or is neither a file nor a folder ends the search. So folders are walked here; `glob` passes over such things.
Costs one walk over each folder, and for an address one listing.
"""

import fnmatch
import glob
import os
import stat
from collections.abc import Callable, Container, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from flatmix.convert.places import list_remote
from flatmix.errors import ConvertError
from flatmix.store.format import GROUP_V2, METADATA

_GROUP = {METADATA, GROUP_V2}  # what a folder of Zarr holds


class Listing(NamedTuple):
    """What a pattern names on this machine."""

    paths: list[Path]  # files, and what is one input as it is
    folders: list[Path]  # those of which all was taken
    label: str  # the pattern, without where it lies
    wildcard: bool  # it is a glob, and no path


def list_local(pattern: str, is_whole: Callable[[str, bool], bool], passed: Container[str] = ()) -> Listing:
    """The files of a path, folder or glob.

    is_whole: whether a folder, or a path where nothing lies, is one input; it is told besides whether the pattern is
    just that path. passed: folders that are passed over, links resolved.

    Raises ConvertError where there are none, for a link to nothing, a folder that is there twice and a Zarr group;
    OSError for a folder that cannot be listed.
    """
    path = Path(pattern)
    if path.exists() or (not path.is_symlink() and is_whole(pattern, True)):
        named = [path]
    elif glob.has_magic(pattern):
        named = sorted(
            set(_expand(Path(path.anchor), path.parts[bool(path.anchor) :], passed)), key=lambda path: path.parts
        )
    else:
        raise ConvertError(f"{pattern}: there is no such file or folder")
    folders = [path for path in named if _is_folder(path)]
    whole = [found for found in named if not found.is_file() and is_whole(str(found), found == path)]
    walked = [folder for folder in folders if folder not in whole]
    below = [path / name for folder in walked for path, names in _walk(folder, passed) for name in names]
    paths = sorted({*below, *named} - {*walked}, key=lambda path: path.parts)
    if not paths:
        raise ConvertError(f"{pattern}: no file is there to convert")
    for file in paths:
        if file not in whole:
            _check_file(file)
    return Listing(paths, folders, _unplaced(path, whole), wildcard=named != [path])


def would_match(pattern: str, path: str) -> bool:
    """Whether a glob names a path, or a folder above it; both absolute, and nothing need lie there."""

    def match(wanted: Sequence[str], parts: Sequence[str]) -> bool:
        if not wanted:
            return True
        if wanted[0] == "**":
            return any(match(wanted[1:], parts[place:]) for place in range(len(parts) + 1))
        return bool(parts) and fnmatch.fnmatch(parts[0], wanted[0]) and match(wanted[1:], parts[1:])

    return match(Path(pattern).parts, Path(path).parts)


def list_addresses(address: str) -> tuple[dict[str, tuple[int, str]], str]:
    """The files of an address, a folder there or a glob: {address: (size, stamp)}; and it without where it lies.

    Raises ConvertError where there are none, and for a Zarr group; ReadError where it cannot be listed.
    """
    spelt, found = list_remote(address, _select)
    parts = without_query(spelt).rstrip("/").split("/")
    first = next((place for place, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    if spelt in found:
        return found, parts[-1]
    hidden = not any(part.startswith(".") for part in parts[first:])  # unless the pattern speaks of what is hidden
    kept = {}
    for one in sorted(found, key=lambda one: one.split("/")):
        below = without_query(one).split("/")[first:]
        if _GROUP.intersection(below[-1:]):
            raise ConvertError(f"{one} is of a Zarr group, such as a store, and no input; move it out of the input")
        if not (hidden and any(name.startswith(".") for name in below)):
            kept[one] = found[one]
    if not kept:
        raise ConvertError(f"{address}: no file is there to convert")
    return kept, "/".join(parts[first:]) or "*"


def without_query(address: str) -> str:
    """An address of the web without what follows "?", which may be secret; any other as it is."""
    return address.partition("?")[0] if address.startswith(("http://", "https://")) else address


def _select(file_system: Any, path: str) -> dict[str, dict[str, Any]]:
    """{path: what the file system tells of it} of all files that `path` names there."""
    named: dict[str, dict[str, Any]] = {}
    if "*" not in path:
        try:
            named = {path: file_system.info(path)}
        except FileNotFoundError as error:
            # Of the web this is said whatever went wrong.
            if path.startswith(("http://", "https://")) and not isinstance(error.__cause__, FileNotFoundError | None):
                raise error.__cause__ from None
    if not named and glob.has_magic(path):
        named = file_system.glob(path, detail=True)
    files: dict[str, dict[str, Any]] = {}
    for one, info in sorted(named.items()):
        if info["type"] != "directory":
            files[one] = info
        elif not any(one.startswith(f"{other.rstrip('/')}/") for other in named if other != one):
            files |= file_system.find(one, detail=True)
    return {one: info for one, info in files.items() if info["type"] == "file" and not one.endswith("/")}


def _walk(folder: Path, passed: Container[str]) -> Iterator[tuple[Path, list[str]]]:
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
        folders[:] = sorted(
            name
            for name in folders
            if not name.startswith(".") and os.path.realpath(os.path.join(path, name)) not in passed  # noqa: PTH118
        )
        yield Path(path), [name for name in names if not name.startswith(".")]


def _expand(folder: Path, parts: Sequence[str], passed: Container[str]) -> Iterator[Path]:
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
        for path in [folder] if not rest else [path for path, _ in _walk(folder, passed)]:
            yield from _expand(path, rest, passed)
    elif not glob.has_magic(first):
        if os.path.lexists(folder / first):
            yield from _expand(folder / first, rest, passed)
    else:
        for name in os.listdir(folder):  # noqa: PTH208 (Path.iterdir would be no shorter)
            if fnmatch.fnmatch(name, first) and (first.startswith(".") or not name.startswith(".")):
                yield from _expand(folder / name, rest, passed)


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


def _unplaced(path: Path, whole: Sequence[Path]) -> str:
    """A pattern without the folders in front of its first wildcard: where input lies is not part of what it is."""
    if path.is_file() or path in whole:
        return path.name
    if path.is_dir():
        return "*"
    magic = [glob.has_magic(part) for part in path.parts]
    return "/".join(path.parts[magic.index(True) :])
