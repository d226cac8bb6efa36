"""A store -> the splits in it that are to be verified, and what of its folders is wrong or foreign.

Readers pass over what is no Zarr group, and so a language whose metadata file was lost is simply not there; here every
folder is looked at. Leftovers of conversions and foreign files are notes.

Cost: a few small files for each folder, and one listing of everything.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from flatmix.errors import StoreError
from flatmix.store import Split, Store
from flatmix.store import format as layout
from flatmix.store import metadata as meta
from flatmix.store.folders import is_leftover
from flatmix.store.foreign import foreign_in_split
from flatmix.store.locks import is_being_written
from flatmix.store.split import load_older_split, load_split
from flatmix.verify.report import Finding, Kind, called

_NAMED = 10  # foreign files of one split


@dataclass(frozen=True)
class Place:
    """A split, or what should be one: then `fault` says why it cannot be opened."""

    language: str
    split: str
    folder: Path
    fault: Finding | None = None

    def __str__(self) -> str:
        return called(self.language, self.split)


@dataclass
class Survey:
    """What there is: the splits, sorted, and what is about none of them."""

    places: list[Place] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def survey(store: Store, languages: Collection[str] | None, splits: Collection[str] | None) -> Survey:
    """The splits of those names, or all. StoreError for a name that is not there.

    Where languages are named, each must have each split that is named; otherwise one of them must.
    """
    found, root, folders = Survey(), Path(store.path), {}
    if store.older_language is not None:
        folders[store.older_language] = root
    else:
        for name, fault in _groups(root, store.zarr_format, "language", languages, found.notes):
            if fault is None:
                folders[name] = root / name
            else:
                found.findings.append(Finding(name, None, "refused", fault))
    for language, folder in folders.items():
        places = _places(language, folder, store.zarr_format, splits, found.notes)
        found.places += sorted(places, key=lambda place: place.split)
    _check_named(store, found, folders, languages, splits)
    return found


def load(store: Store, place: Place) -> Split | Finding:
    """The split, opened; or why it cannot be. An older one is opened without its identity."""
    if place.fault is not None:
        return place.fault
    try:
        group = meta.read_group(place.folder, store.zarr_format)
        if group is None:
            return _fault(place, "refused", "it is no longer there")
        if store.older_language is not None:
            return load_older_split(store.path, place.language, place.split, group, identified=False)
        split = load_split(store.path, place.language, place.split, group)
        if split is not None:
            return split
        if is_being_written(place.folder):
            return _fault(place, "incomplete", "it is being written at this moment; verify it when that is done")
    except (StoreError, OSError) as error:
        return _fault(place, "refused", _one_line(error))
    return _fault(place, "incomplete", "its writer stopped before the end; convert it again, or remove it")


def notes_of(place: Place) -> list[str]:
    """What lies in the folder of a split and is not of flatmix."""
    foreign = foreign_in_split(place.folder) if place.folder.is_dir() else []
    if not foreign:
        return []
    more = f" and {len(foreign) - _NAMED} more" if len(foreign) > _NAMED else ""
    return [f"{place}: not of flatmix: {', '.join(map(repr, foreign[:_NAMED]))}{more}"]


def _fault(place: Place, kind: Kind, words: str) -> Finding:
    return Finding(place.language, place.split, kind, words)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _places(
    language: str, folder: Path, zarr_format: int, splits: Collection[str] | None, notes: list[str]
) -> Iterator[Place]:
    for name, fault in _groups(folder, zarr_format, "split", splits, notes):
        found = None if fault is None else Finding(language, name, "refused", fault)
        yield Place(language, name, folder / name, found)
    for entry in sorted(folder.iterdir()):
        name = _replaced(entry)
        if name is None or (splits is not None and name not in splits):
            continue
        place = Place(language, name, folder / name)
        if is_being_written(entry):
            notes.append(f"{place}: {entry.name!r} beside it is being written at this moment, to take its place")
        elif entry.suffix == layout.OLD and not place.folder.exists():
            words = f"it is {entry.name!r} now: what was to replace it was killed at its very end; convert it again"
            yield Place(language, name, folder / name, Finding(language, name, "missing", words))
        else:
            words = "was left by a conversion that was killed; the next one of this split removes it"
            notes.append(f"{place}: {entry.name!r} beside it {words}")


def _replaced(entry: Path) -> str | None:
    """The split that the folder `entry` is or was to take the place of, or that it was; None for any other."""
    return layout.split_beside(entry.name) if entry.is_dir() else None


def _groups(
    folder: Path, zarr_format: int, kind: str, chosen: Collection[str] | None, notes: list[str]
) -> Iterator[tuple[str, str | None]]:
    """Each group in `folder`, a "language" or "split" if it is one of the chosen, and why it cannot be opened."""
    for entry in sorted(folder.iterdir()):
        if (
            entry.name in layout.GROUP_FILES
            or is_leftover(entry.name)
            or (kind == "split" and _replaced(entry) is not None)
        ):
            continue
        fault = _fault_of(entry, zarr_format, kind)
        if fault == "":
            if chosen is None:
                notes.append(f"{entry} is not of flatmix")
        elif chosen is None or entry.name in chosen:
            yield entry.name, fault


def _fault_of(entry: Path, zarr_format: int, kind: str) -> str | None:
    """None for a group, "" for what has nothing to do with flatmix, and what is wrong with anything else."""
    if not entry.is_dir() or entry.name.startswith("."):
        return ""
    try:
        group = meta.read_group(entry, zarr_format)
        if group is not None:
            layout.check_name(kind, entry.name)
            return None
        inside = sorted(folder.name for folder in entry.iterdir() if _is_ours(folder, kind))
    except (ValueError, OSError) as error:
        return _one_line(error)
    if not inside:
        return ""
    missing = layout.METADATA if zarr_format == 3 else layout.GROUP_V2
    return f"it holds {inside[0]!r}, and no {missing} of a group: readers pass over it. Convert it again, or remove it"


def _is_ours(folder: Path, kind: str) -> bool:
    """Whether a folder within a language or a split is one of flatmix."""
    if kind == "split":
        return folder.name in layout.DTYPES and folder.is_dir()
    return folder.is_dir() and any(_is_ours(inner, "split") for inner in folder.iterdir())


def _check_named(
    store: Store,
    found: Survey,
    folders: Mapping[str, Path],
    languages: Collection[str] | None,
    splits: Collection[str] | None,
) -> None:
    known = {*folders, *(finding.language for finding in found.findings)}
    for language in languages or ():
        if language not in known:
            _ = store[language]  # raises, and says which there are
            raise StoreError(f"no language {language!r} in store {store.path}")
    there = {(place.language, place.split) for place in found.places}
    for split in splits or ():
        lacking = [language for language in folders if (language, split) not in there]
        if languages is not None and lacking:
            _ = store[lacking[0]][split]
        if folders and len(lacking) == len(folders):
            raise StoreError(f"no language of store {store.path} has a split {split!r}")
