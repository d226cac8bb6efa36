"""(store, language, split) -> what is in it, and readers of its tokens: opened and checked once.

A store is a folder of languages, a language a folder of splits; `store["en"]["train"]` reads a handful of small
files, checks that kinds, shapes, types and counts agree, and refuses a split that its writer did not complete. What
it returns knows its counts, its digest and its origin, and holds nothing open.

Cost: five small files for each split, whatever the size of the corpus; `Store.open` does many languages at once.
`flatmix.store.writer` writes stores; it is not imported here, so reading does not load zarr.
"""

import os
import re
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from flatmix.errors import StoreError
from flatmix.store import format as layout
from flatmix.store import metadata as meta
from flatmix.store.split import Split, load_split, place_of

__all__ = ["Language", "Split", "Store", "open_store"]

_OPENERS = 16  # languages opened at once


def open_store(path_or_url: str | os.PathLike[str], language: str | None = None, storage: Any = None) -> "Store":
    """Opens the store in a local folder, or at a file:// URL; reads one small file.

    StoreError when there is no flat-tokens store of this format. Older stores (`language`) and object stores
    (`storage`, other URLs) are not supported by this version.
    """
    if language is not None:
        raise StoreError(
            f"language={language!r}: stores older than format 1 are not supported by this version of flatmix"
        )
    if storage is not None:
        raise StoreError("storage settings are for object stores, which are not supported by this version of flatmix")
    root = local_folder(path_or_url)
    root_metadata = meta.read_json(root)
    if root_metadata is None:
        raise StoreError(f"no store at {root}: {_what_is_at(root)}")
    if not meta.is_group(root_metadata) or meta.flatmix_attribute(root_metadata, f"store {root}") is None:
        raise StoreError(
            f"{root} is not a flat-tokens store: its root is no Zarr v3 group with the attribute 'flatmix'"
        )
    return Store(str(root))


def local_folder(path_or_url: str | os.PathLike[str]) -> Path:
    """A path or file:// URL -> the absolute path; StoreError for any other URL. Nothing is looked up."""
    path = os.fspath(path_or_url)
    if not path:
        raise StoreError("the path of a store is empty")
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", path):
        url = urlsplit(path)
        if url.scheme.lower() != "file" or url.netloc not in ("", "localhost"):
            raise StoreError(f"{path}: only local folders and file:// URLs are supported by this version of flatmix")
        path = url2pathname(url.path)
    return Path(os.path.abspath(path))  # noqa: PTH100  `..` is taken out by name: TensorStore refuses it


@dataclass(frozen=True)
class Store:
    """The languages of one store. `path` is its absolute path; listing and opening happen when asked for."""

    path: str

    @property
    def languages(self) -> tuple[str, ...]:
        """The names of the languages, sorted by code point; lists the folder anew each time."""
        return meta.group_names(Path(self.path))

    def __iter__(self) -> Iterator[str]:
        return iter(self.languages)

    def __getitem__(self, language: str) -> "Language":
        layout.check_name("language", language)
        if not meta.is_group(meta.read_json(Path(self.path, language))):
            raise StoreError(f"no language {language!r} in store {self.path}; {_names('languages', self.languages)}")
        return Language(self.path, language)

    def open(self, languages: Iterable[str], split: str) -> "dict[str, Split]":
        """That split of each language, opened in parallel, in the sequence given; the error of the first that fails."""
        if isinstance(languages, str):
            raise ValueError(f"languages must be several names, not the str {languages!r}; write [{languages!r}]")
        languages = list(languages)
        with ThreadPoolExecutor(_OPENERS, "flatmix-open") as pool:
            return dict(zip(languages, pool.map(lambda language: self[language][split], languages), strict=True))

    def status(self, language: str, split: str) -> str:
        """ "complete", "incomplete", or the reason why that split cannot be opened."""
        try:
            return "incomplete" if self[language]._load(split) is None else "complete"
        except StoreError as error:
            return str(error)


@dataclass(frozen=True)
class Language:
    """The splits of one language of the store at `path`."""

    path: str
    name: str

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of the splits, completed or not, sorted by code point."""
        return meta.group_names(Path(self.path, self.name))

    def __iter__(self) -> Iterator[str]:
        return iter(self.splits)

    def __getitem__(self, split: str) -> "Split":
        opened = self._load(split)
        if opened is None:
            place = place_of(self.path, self.name, split)
            raise StoreError(f"{place} was not completed: its writer stopped before the end; convert it again")
        return opened

    def _load(self, split: str) -> "Split | None":
        layout.check_name("split", split)
        group = meta.read_json(Path(self.path, self.name, split))
        if group is None or not meta.is_group(group):
            raise StoreError(
                f"language {self.name!r} of store {self.path} has no split {split!r}; {_names('splits', self.splits)}"
            )
        return load_split(self.path, self.name, split, group)


def _names(kind: str, names: tuple[str, ...]) -> str:
    if not names:
        return f"it has no {kind} at all"
    more = f" and {len(names) - 20} more" if len(names) > 20 else ""
    return f"its {kind} are {', '.join(map(repr, names[:20]))}{more}"


def _what_is_at(root: Path) -> str:
    if not root.exists():
        return "nothing is there"
    if not root.is_dir():
        return "it is a file, not a folder"
    if (root / ".zgroup").exists():
        return "it is a Zarr v2 group, which is not supported by this version of flatmix"
    return f"the folder holds no {layout.METADATA}"
