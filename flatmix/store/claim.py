"""a split -> the folder that a writer fills, held by that writer alone until it is done.

A new split is written in its own place, where it says that it is incomplete. One that takes the place of a complete
split is written beside it, as `.NAME.new`, and moved when it is complete: whatever goes wrong before leaves the old one
as it was. No name of a split begins with a dot, so readers pass over what lies there; to Zarr it is one more group.
Between the two renames of the swap no split is there; the next writer undoes a swap that was cut short, and removes
what a killed one left behind. A writer that can go on after a kill gives its name as the owner, and always writes
beside the place: what it left is then its own to go on with.

Cost: a few small files. Until it is done, a split that replaces another takes its room on disk beside the old one.
"""

import contextlib
import shutil
from contextlib import ExitStack
from pathlib import Path

import zarr
from zarr.errors import ContainsGroupError

from flatmix.errors import ConvertError, StoreError
from flatmix.store import format as layout
from flatmix.store import metadata as meta
from flatmix.store.folders import (
    check_empty,
    check_spelling,
    check_version,
    is_leftover,
    write_attributes,
    write_group,
)
from flatmix.store.locks import locked


class Claim:
    """A split that is being written. `group` says that it is incomplete; `folder` is where it lies for now.

    With `replace`, of a split that is there; without, StoreError. StoreError, too, while another writer has the split,
    ConvertError for what is not ours to write over. Holds locks until `release`.

    `resumed` says that the folder holds what an earlier claim of the same `owner` has written. Without an owner nobody
    goes on: each claim begins with nothing.
    """

    def __init__(self, place: Path, name: str, replace: bool, zarr_format: int = 3, owner: str | None = None) -> None:
        """`place` is the folder of the split, in that of its language; `name` what messages call it."""
        self._place, self._name, self._owner = place, name, owner
        self.folder = place
        self.resumed = False
        self._published = False
        with ExitStack() as locks:
            with locked(place.parent, wait=True):
                check_spelling(place)
                self._undo_swap()
                existing = meta.read_group(place)
                if existing is None:
                    check_empty(place)
                    place.mkdir(exist_ok=True)
                self._hold(locks, place)
                if existing is not None:
                    self._check_replaceable(existing, replace, zarr_format)
                self.resumed = owner is not None and self._is_left_by(owner, zarr_format)
                self._remove_leftovers()
                self.group = self._go_on(zarr_format) if self.resumed else self._begin(existing, zarr_format)
                if self.replaces:
                    self._hold(locks, self.folder)  # it keeps others away when it has moved
            self._locks = locks.pop_all()

    @property
    def replaces(self) -> bool:
        """Whether it is written beside its place: what is there, if anything, stays until it is complete."""
        return self.folder != self._place

    def publish(self) -> None:
        """Puts the completed split in its place; an old one goes."""
        if self.replaces:
            _check_ours(self._place, self._name)
            with locked(self._place.parent, wait=True):
                try:
                    self._place.rename(self._old)
                    self.folder.rename(self._place)
                except BaseException:
                    if not self._place.exists():
                        self._old.rename(self._place)
                    raise
            with contextlib.suppress(OSError):  # the next writer of this split tries again
                remove_group(self._old)
        self._published = True

    def release(self) -> None:
        """Lets others write the split; of one that was to replace another and was not published, nothing is left.

        What has an owner is left to it.
        """
        if self.replaces and not self._published and self._owner is None:
            shutil.rmtree(self.folder, ignore_errors=True)
        self._locks.close()

    @property
    def _new(self) -> Path:
        return self._place.with_name(layout.name_beside(self._place.name, layout.NEW))

    @property
    def _old(self) -> Path:
        return self._place.with_name(layout.name_beside(self._place.name, layout.OLD))

    def _hold(self, locks: ExitStack, folder: Path) -> None:
        try:
            locks.enter_context(locked(folder, wait=False))
        except BlockingIOError:
            raise StoreError(
                f"{self._name} is being written by another process, or by another writer of this one; wait until it "
                "is done"
            ) from None

    def _check_replaceable(self, existing: meta.Group, replace: bool, zarr_format: int) -> None:
        attribute = meta.flatmix_attribute(existing.attributes, self._name)
        if attribute is None:
            raise ConvertError(f"{self._name} is there already and is not a split of flatmix; it is left as it is")
        check_version(self._place, existing, zarr_format)
        if not replace:
            state = "" if attribute.get("complete") is True else ", and is incomplete"
            raise StoreError(f"{self._name} is there already{state}; ask to replace it, or choose another name")
        _check_ours(self._place, self._name)

    def _is_left_by(self, owner: str, zarr_format: int) -> bool:
        left = meta.read_group(self._new, zarr_format)
        return left is not None and left.attributes == layout.incomplete_attributes(owner)

    def _go_on(self, zarr_format: int) -> zarr.Group:
        self.folder = self._new
        return zarr.open_group(self.folder, mode="r+", zarr_format=zarr_format)

    def _begin(self, existing: meta.Group | None, zarr_format: int) -> zarr.Group:
        beside = self._owner is not None
        if beside or existing is None or existing.attributes["flatmix"].get("complete") is True:
            self.folder = self._new if beside or existing is not None else self._place
            try:
                return write_group(self.folder, zarr_format, layout.incomplete_attributes(self._owner))
            except ContainsGroupError as error:  # only where locks do not reach
                raise StoreError(f"{self._name} is being written by another process") from error
        group = zarr.open_group(self._place, mode="r+", zarr_format=zarr_format)  # there is nothing to keep
        write_attributes(group, layout.incomplete_attributes())
        for name in layout.DTYPES:
            if (self._place / name).exists():
                shutil.rmtree(self._place / name)
        return group

    def _undo_swap(self) -> None:
        """Puts back an old split whose writer was killed after it had moved it away, and before the new one came."""
        if meta.read_group(self._old) is not None and not self._place.exists():
            self._old.rename(self._place)

    def _remove_leftovers(self) -> None:
        """Removes what a killed writer of this split has left beside it."""
        for folder in (self._old,) if self.resumed else (self._new, self._old):
            if folder.exists():
                with ExitStack() as held:
                    self._hold(held, folder)
                    _check_ours(folder, f"{folder}, left by a conversion that was killed,")
                    remove_group(folder)


def remove_group(folder: Path) -> None:
    """Removes the folder of a split, first what would let it pass for one."""
    for name in (layout.METADATA, layout.GROUP_V2):
        (folder / name).unlink(missing_ok=True)
    shutil.rmtree(folder)


def _check_ours(folder: Path, name: str) -> None:
    """ConvertError where something lies in the folder of a split that flatmix has not put there."""
    ours = {*layout.GROUP_FILES, *layout.DTYPES}
    foreign = sorted(entry.name for entry in folder.iterdir() if entry.name not in ours and not is_leftover(entry.name))
    if foreign:
        raise ConvertError(
            f"{name} holds {foreign[0]!r}, which is not of flatmix; move it away before replacing the split"
        )
