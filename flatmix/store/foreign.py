"""The folder of a split -> what lies in it that flatmix has not put there, by its names.

Arrays are looked through as well, since a shard that somebody has copied aside is found nowhere else. What a killed
writer may have left is not foreign: parts of metadata and of chunks.

Cost: one listing of every folder.
"""

import os
import re
from collections.abc import Iterator
from pathlib import Path

from flatmix.store import format as layout
from flatmix.store.folders import is_leftover

_OF_ARRAY = (layout.METADATA, layout.ARRAY_V2, layout.ATTRIBUTES_V2)
_CHUNK = re.compile(r"(c[./])?[0-9]+([./][0-9]+)*")  # in any of Zarr's ways to name one
_PART = re.compile(r".*\.[0-9a-f]{32}\.partial")


def foreign_in_split(folder: Path) -> list[str]:
    """What is not of flatmix in the folder of a split: paths below it, sorted, those of folders with a slash."""
    foreign = []
    for name, is_folder in _entries(folder):
        if is_folder and name in layout.DTYPES:
            foreign += [f"{name}/{path}" for path in _foreign_in_array(folder / name)]
        elif is_folder or (name not in layout.GROUP_FILES and not is_leftover(name)):
            foreign.append(name + "/" * is_folder)
    return sorted(foreign)


def _foreign_in_array(folder: Path, below: str = "") -> Iterator[str]:
    for name, is_folder in _entries(folder):
        path = below + name
        if is_folder and (path == "c" or _CHUNK.fullmatch(path)):
            yield from _foreign_in_array(folder / name, f"{path}/")
        elif is_folder:
            yield f"{path}/"
        elif not (_CHUNK.fullmatch(path) or (not below and name in _OF_ARRAY) or _PART.fullmatch(name)):
            yield path


def _entries(folder: Path) -> Iterator[tuple[str, bool]]:
    """Names, and whether each is a folder: no link is one, so none is followed."""
    with os.scandir(folder) as entries:
        for entry in entries:
            yield entry.name, entry.is_dir(follow_symlinks=False)
