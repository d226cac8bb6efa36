"""(store, language, split) -> nothing: a split, or a language with all of its splits, is deleted.

What is about to go is found out first, so that a user can be asked; then it is looked at again, while no writer can
begin. Of a split the file that makes it a Zarr group goes before anything else, so a removal that is killed leaves
nothing that passes for a split, and the same removal asked for again goes on from there. What a killed conversion has
left beside a split goes before it, since the next writer would put it in its place; a language goes after its splits.
Nothing is deleted where something is in the way that is not of flatmix, or while a writer has one of the splits.

Cost: a listing of all that goes, twice.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from flatmix.errors import ConvertError, StoreError
from flatmix.store import Store, local_folder, open_store
from flatmix.store import format as layout
from flatmix.store import metadata as meta
from flatmix.store.claim import remove_group
from flatmix.store.folders import is_leftover
from flatmix.store.foreign import foreign_in_split
from flatmix.store.locks import is_being_written, locked
from flatmix.store.split import place_of


@dataclass(frozen=True)
class SplitToRemove:
    """A split that goes; its counts are None where it was not completed, or says nothing that can be read."""

    name: str
    tokens: int | None
    documents: int | None
    bytes_on_disk: int  # with what a killed conversion has left beside it
    folders: tuple[Path, ...]  # in the sequence in which they go


@dataclass(frozen=True)
class Removal:
    """What goes: splits of a language, and with `whole` the language itself."""

    store: str
    language: str
    splits: tuple[SplitToRemove, ...]
    whole: bool


def what_would_go(path: str | os.PathLike[str], language: str, split: str | None = None) -> Removal:
    """What `remove` would delete, and raises as it does; deletes nothing."""
    store = _open(path, language, split)
    removal = _look(store, language, split)
    for one in removal.splits:
        if any(is_being_written(folder) for folder in one.folders):
            raise _busy(removal, one)
    return removal


def remove(path: str | os.PathLike[str], language: str, split: str | None = None) -> Removal:
    """Deletes a split, or without `split` a language with all its splits; returns what has gone.

    Splits that were not completed, and what an earlier removal has left, go like any other. StoreError for a store of
    before format 1, for what is not there and for a split that a writer has; ConvertError where something lies there
    that is not of flatmix.
    """
    store = _open(path, language, split)
    folder = _folder_of(store, language)
    with ExitStack() as locks:
        try:
            locks.enter_context(locked(folder, wait=True))
            removal = _look(store, language, split)
        except FileNotFoundError:
            raise StoreError(f"language {language!r} of store {store.path} has gone already") from None
        for one in removal.splits:
            for part in one.folders:
                _hold(locks, removal, one, part)
        for part in (part for one in removal.splits for part in one.folders):
            remove_group(part)
        if removal.whole:
            _remove_language(folder)
    return removal


def _remove_language(folder: Path) -> None:
    """Deletes a language without splits; OSError where something has come into its folder."""
    for name in (layout.METADATA, layout.GROUP_V2):
        (folder / name).unlink(missing_ok=True)
    for entry in folder.iterdir():
        if is_leftover(entry.name):
            entry.unlink()
    folder.rmdir()


def _open(path: str | os.PathLike[str], language: str, split: str | None) -> Store:
    layout.check_name("language", language)
    if split is not None:
        layout.check_name("split", split)
    root = local_folder(path)
    group = meta.read_group(root)
    if group is not None and "flatmix" not in group.attributes:
        raise StoreError(f"{root} is not a store of format 1: only what flatmix wrote is removed; delete it by hand")
    return open_store(root)


def _look(store: Store, language: str, split: str | None) -> Removal:
    """What goes, all of it checked to be of flatmix."""
    root, folder = Path(store.path), _folder_of(store, language)
    _check_no_link(folder)
    names = sorted({_split_of(entry) for entry in folder.iterdir()} - {None, *layout.GROUP_FILES})
    if split is not None and split not in names:
        _ = store[language][split]  # raises, and says which there are
        raise StoreError(f"language {language!r} of store {root} has no split {split!r}")
    chosen = [name for name in names if name is not None and split in (None, name)]
    return Removal(store.path, language, tuple(_look_at(store, language, name) for name in chosen), split is None)


def _folder_of(store: Store, language: str) -> Path:
    """The folder of a language, which need not be a group any more."""
    folder = Path(store.path, language)
    if folder not in folder.parent.iterdir() or not folder.is_dir():  # as it is spelled, also where case does not count
        _ = store[language]  # raises, and says which there are
        raise StoreError(f"store {store.path} has no language {language!r}")
    return folder


def _split_of(entry: Path) -> str | None:
    """The split that an entry of a language's folder is part of; its own name where it is none; None for leftovers."""
    split = layout.split_beside(entry.name)
    if split is not None:
        return split
    return None if is_leftover(entry.name) else entry.name


def _look_at(store: Store, language: str, name: str) -> SplitToRemove:
    place = Path(store.path, language, name)
    called = place_of(store.path, language, name)
    beside = (place.with_name(layout.name_beside(name, ending)) for ending in (layout.NEW, layout.OLD))
    folders = tuple(folder for folder in (*beside, place) if folder.exists() or folder.is_symlink())
    for folder in folders:
        _check_ours(folder, called if folder == place else f"{folder}, beside {called},")
    tokens, documents = _counts(place, called)
    return SplitToRemove(name, tokens, documents, sum(map(_size, folders)), folders)


def _check_ours(folder: Path, called: str) -> None:
    """ConvertError for anything but the folder of a split, whole or not, without anything foreign in it."""
    _check_no_link(folder)
    if not folder.is_dir():
        raise ConvertError(f"{folder} is a file, and not of flatmix; move it away, and remove again")
    foreign = foreign_in_split(folder)
    if foreign:
        raise ConvertError(f"{called} holds {foreign[0]!r}, which is not of flatmix; move it away, and remove again")
    group = _group(folder)
    if group is not None and meta.flatmix_attribute(group.attributes, called) is None:
        raise ConvertError(f"{called} is a Zarr group, and not a split of flatmix; it is left as it is")


def _check_no_link(folder: Path) -> None:
    if folder.is_symlink():
        raise ConvertError(f"{folder} is a link to {folder.resolve()}: what lies there is not removed; delete the link")


def _group(folder: Path) -> meta.Group | None:
    """None, too, where its metadata is damaged: that is no reason to keep it."""
    try:
        return meta.read_group(folder)
    except StoreError:
        return None


def _counts(place: Path, called: str) -> tuple[int | None, int | None]:
    group = _group(place)
    try:
        said = group and meta.split_attributes(group.attributes.get("flatmix") or {}, called)
    except StoreError:
        said = None
    return (said.tokens, said.documents) if said else (None, None)


def _size(folder: Path) -> int:
    return sum(file.lstat().st_size for file in _files(folder))


def _files(folder: Path) -> Iterator[Path]:
    return (file for file in folder.rglob("*") if file.is_file())


def _hold(locks: ExitStack, removal: Removal, split: SplitToRemove, folder: Path) -> None:
    try:
        locks.enter_context(locked(folder, wait=False))
    except BlockingIOError:
        raise _busy(removal, split) from None


def _busy(removal: Removal, split: SplitToRemove) -> StoreError:
    called = place_of(removal.store, removal.language, split.name)
    return StoreError(f"{called} is being written; wait until it is done, or end its writer")
