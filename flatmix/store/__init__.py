"""(store, language, split) -> what is in it, and readers of its tokens: opened and checked once.

A store is a folder of languages, a language a folder of splits; `store["en"]["train"]` reads a handful of small
files, checks that kinds, shapes, types and counts agree, and refuses a split that its writer did not complete. What
it returns knows its counts, its digest and its origin, and holds nothing open. An older store, from before format 1,
is a folder of splits, and opens as a store of one language.

Cost: seven small files for each split, whatever the size of the corpus: those of `split` and its language's one (five
without sources, two more in Zarr v2); two chunks more where the store is an older one. `Store.open` does many languages
at once. `flatmix.store.writer` writes stores; it is not imported here, so reading does not load zarr.
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

from flatmix.errors import ReadError, StoreError
from flatmix.store import format as layout
from flatmix.store import metadata as meta
from flatmix.store.split import Split, load_older_split, load_split, place_of

__all__ = ["Language", "Split", "Store", "open_store"]

_OPENERS = 16  # languages opened at once


def open_store(path_or_url: str | os.PathLike[str], language: str | None = None, storage: Any = None) -> "Store":
    """Opens the store in a local folder, or at a file:// URL; reads a few small files.

    `language` names the one language of a store from before format 1, which does not name it itself; such a store
    needs it, and no other takes it. StoreError when there is no flat-tokens store. Object stores (`storage`, other
    URLs) are not supported by this version.
    """
    if language is not None:
        layout.check_name("language", language)
    if storage is not None:
        raise StoreError("storage settings are for object stores, which are not supported by this version of flatmix")
    root = local_folder(path_or_url)
    group = meta.read_group(root)
    if group is None:
        raise StoreError(f"no store at {root}: {_what_is_at(root)}")
    if meta.flatmix_attribute(group.attributes, f"store {root}") is not None:
        if language is not None:
            raise StoreError(
                f"language={language!r}: stores older than format 1 are given the name of their one language, and "
                f"{root} is of format 1 and names its own; leave it out"
            )
        return Store(str(root), group.zarr_format)
    if not _is_older(root, group.zarr_format):
        raise StoreError(
            f"{root} is not a flat-tokens store: a Zarr group without the attribute 'flatmix', and without the "
            "'train' or 'validation' of an older store"
        )
    if language is None:
        raise StoreError(
            f"{root} is an older store, of one language, which it does not name: say which, with language='en', or "
            "--language en"
        )
    return Store(str(root), group.zarr_format, language)


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
    """The languages of one store. `path` is its absolute path; listing and opening happen when asked for.

    `zarr_format`, 2 or 3, is that of all its groups; `older_language` names the one language of an older store.
    """

    path: str
    zarr_format: int = 3
    older_language: str | None = None

    @property
    def languages(self) -> tuple[str, ...]:
        """The names of the languages, sorted by code point; lists the folder anew each time."""
        if self.older_language is not None:
            return (self.older_language,)
        return meta.group_names(Path(self.path), self.zarr_format)

    def __iter__(self) -> Iterator[str]:
        return iter(self.languages)

    def __getitem__(self, language: str) -> "Language":
        layout.check_name("language", language)
        if self.older_language is not None:
            there = language == self.older_language
        else:
            there = meta.read_group(Path(self.path, language), self.zarr_format) is not None
        if not there:
            raise StoreError(f"no language {language!r} in store {self.path}; {_names('languages', self.languages)}")
        return Language(self, language)

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
        except (StoreError, ReadError) as error:
            return str(error)


@dataclass(frozen=True)
class Language:
    """The splits of one language of a store."""

    store: Store
    name: str

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of the splits, completed or not, sorted by code point."""
        return meta.group_names(self._folder, self.store.zarr_format)

    @property
    def _folder(self) -> Path:
        older = self.store.older_language is not None
        return Path(self.store.path) if older else Path(self.store.path, self.name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.splits)

    def __getitem__(self, split: str) -> "Split":
        opened = self._load(split)
        if opened is None:
            place = place_of(self.store.path, self.name, split)
            raise StoreError(f"{place} was not completed: its writer stopped before the end; convert it again")
        return opened

    def _load(self, split: str) -> "Split | None":
        layout.check_name("split", split)
        group, path = meta.read_group(self._folder / split, self.store.zarr_format), self.store.path
        if group is None:
            hint = ""
            if (self._folder / layout.name_beside(split, layout.OLD)).exists():
                hint = "; a conversion that was to replace it was killed at its very end: run it again"
            raise StoreError(
                f"language {self.name!r} of store {path} has no split {split!r}; {_names('splits', self.splits)}{hint}"
            )
        load = load_split if self.store.older_language is None else load_older_split
        return load(path, self.name, split, group)


def _is_older(root: Path, zarr_format: int) -> bool:
    """Whether a group without the attribute `flatmix` is a store from before format 1."""
    splits = [meta.read_group(root / name, zarr_format) for name in ("train", "validation")]
    return any(split and "max_token_id" in split.attributes and "flatmix" not in split.attributes for split in splits)


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
    return f"the folder holds no {layout.METADATA} or {layout.GROUP_V2} of a group"
