"""job -> the folder in which it is worked on, held by one driver; a killed one leaves it to the next.

`STORE.staging/KEY/` lies beside the store and says, in `job.json`, what is being converted; the parts lie in it too, or
where the user has room for them. Locks are the system's (`store.locks`), and go with the process that held them.
"""

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from flatmix.convert.job import Job, difference, divide, key, unit_size
from flatmix.convert.parts import part_names, written_whole
from flatmix.errors import ConvertError, ReadError
from flatmix.store.locks import locked

T = TypeVar("T")
JOB, SUMMARY, PUBLISHED = "job.json", "summary.json", "published"
_WORKING = "workers"  # workers share its lock


@dataclass(frozen=True)
class Staging:
    """The folder of a job that this process works on."""

    folder: Path
    job: Job

    @property
    def parts(self) -> Path:
        return Path(self.job.parts)

    @property
    def is_empty(self) -> bool:
        """Whether nothing was made yet."""
        return self.parts.is_dir() and not part_names(self.parts)

    def clear(self) -> None:
        """Removes all that was staged; what says that the job is done goes last."""
        shutil.rmtree(self.parts, ignore_errors=True)
        for name in sorted(os.listdir(self.folder)):  # noqa: PTH208
            if name not in (JOB, SUMMARY, PUBLISHED):
                _remove(self.folder / name)
        (self.folder / JOB).unlink(missing_ok=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        _remove_empty(self.folder)


def staging_root(store: str) -> Path:
    """Where the jobs of a store are."""
    return Path(f"{store}.staging")


@contextlib.contextmanager
def open_staging(job: Job, place: str | None, restart: bool) -> Iterator[Staging]:
    """The folder of `job`, made or found, for this process alone; the job in it has its units and a place for parts.

    place: a folder for the staged parts, where those of an earlier run move as well; None for where they are, or for
    one beside the store. restart: what unfinished jobs for the same splits have left is removed.

    ConvertError for a place in the store, while another process works on one of the splits, and where an unfinished job
    of other settings is there for one of them.
    """
    root = staging_root(job.store)
    if os.path.lexists(root) and not root.is_dir():
        raise ConvertError(f"{root} is a file, and what is being converted is kept in a folder of that name; move it")
    if place is not None and Path(os.path.realpath(place)).is_relative_to(os.path.realpath(job.store)):
        raise ConvertError(f"--staging {place} lies in the store {job.store}; choose a place outside of it")
    root.mkdir(parents=True, exist_ok=True)
    folder = root / key(job)
    with ExitStack() as held:
        with locked(root, wait=True):
            folder.mkdir(exist_ok=True)
            held.callback(_remove_empty, folder)
            _hold(held, folder, job)
            for other in sorted(path for path in root.iterdir() if _is_key(path.name) and path != folder):
                _check_other(other, job, restart)
            found = _read_job(folder)
            if restart and found is not None:
                shutil.rmtree(found.parts, ignore_errors=True)
                found = None
            if found is None:
                for entry in folder.iterdir():
                    _remove(entry)
            _wait_for_workers(folder)
            job = _begin(folder, job, place) if found is None else _go_on(folder, job, found, place)
        staging = Staging(folder, job)
        try:
            yield staging
        finally:
            if (folder / JOB).exists() and staging.is_empty:
                staging.clear()  # there is nothing to go on with


def _begin(folder: Path, job: Job, place: str | None) -> Job:
    parts = _parts_folder(folder, place)
    try:
        shutil.rmtree(parts, ignore_errors=True)
        parts.mkdir(parents=True)
        size = job.sizes.unit_bytes or unit_size(job.sources)
        job = msgspec.structs.replace(job, parts=str(parts), units=divide(job.sources, size))
        _write_job(folder, job)
    except BaseException as error:
        for entry in folder.iterdir():
            _remove(entry)
        if isinstance(error, OSError) and error.filename is not None and not isinstance(error, ReadError):
            reason = f"{error.strerror}: nothing can be staged there; name another place with --staging"
            raise OSError(error.errno, reason, str(error.filename)) from error
        raise
    return job


def _go_on(folder: Path, job: Job, found: Job, place: str | None) -> Job:
    """The job with what was begun of it; its parts move where a place is given that is another."""
    parts, wanted = Path(found.parts), _parts_folder(folder, place)
    if not parts.is_dir() and not (folder / SUMMARY).exists():
        raise ConvertError(
            f"what an interrupted run of this conversion has staged, in {parts}, cannot be found; make it reachable "
            "again, or give --restart to begin anew"
        )
    moves = place is not None and wanted != parts and parts.is_dir()
    if moves:
        shutil.rmtree(wanted, ignore_errors=True)
        shutil.copytree(parts, wanted)
    job = msgspec.structs.replace(job, parts=str(wanted if moves else parts), units=found.units)
    _write_job(folder, job)  # not all settings are part of the key
    if moves:
        shutil.rmtree(parts, ignore_errors=True)
    return job


def _write_job(folder: Path, job: Job) -> None:
    with written_whole(folder / JOB) as file:
        file.write(msgspec.json.encode(job))


def _parts_folder(folder: Path, place: str | None) -> Path:
    if place is None:
        return folder / "parts"
    return Path(os.path.abspath(place), f"{folder.parent.name}-{folder.name}")  # noqa: PTH100  links keep their names


def _is_key(name: str) -> bool:
    """Whether a folder beside those of jobs is one; what others have put there is not touched."""
    return re.fullmatch("[0-9a-f]{16}", name) is not None


def load_job(folder: str) -> Job:
    """The job in `folder`, for a worker. ReadError where there is none."""
    return load_file(Path(folder, JOB), Job)


def load_file(path: Path, kind: type[T]) -> T:
    """A file of the folder as that type; read again where it is another than before. ReadError where there is none."""
    try:
        known = path.stat()
        return _decode(path, known.st_mtime_ns, known.st_ino, kind)
    except (OSError, msgspec.MsgspecError) as error:
        raise ReadError(f"{path} cannot be read by a worker: {error}; does it reach that folder?") from error


@lru_cache(maxsize=8)
def _decode(path: Path, changed: int, number: int, kind: Any) -> Any:
    return msgspec.json.decode(path.read_bytes(), type=kind)


@contextlib.contextmanager
def at_work(folder: str) -> Iterator[None]:
    """Held by a worker while it works, so that the next driver of the job can wait for it."""
    with locked(Path(folder, _WORKING), wait=True, shared=True):
        yield


def _wait_for_workers(folder: Path) -> None:
    """Waits for the workers that a killed driver has left; they end by themselves, soon."""
    working = folder / _WORKING
    working.mkdir(exist_ok=True)
    with locked(working, wait=True):
        pass


def _hold(held: ExitStack, folder: Path, job: Job) -> None:
    try:
        held.enter_context(locked(folder, wait=False))
    except BlockingIOError:
        raise ConvertError(
            f"{job.store}: the same conversion is under way in another process ({folder}); wait until it is done"
        ) from None


def _check_other(folder: Path, job: Job, restart: bool) -> None:
    """Of another job of the same store: whether the two are about the same splits."""
    try:
        with locked(folder, wait=False):
            other = _read_job(folder)
            if other is None:
                shutil.rmtree(folder, ignore_errors=True)
                return
            both = _overlap(job, other)
            if both is None:
                return
            if not restart:
                raise ConvertError(
                    f"an unfinished conversion of {both} is in {folder}, and it is another one: "
                    f"{difference(job, other)}; repeat that one to finish it, or give --restart to drop what it has "
                    "done and begin anew"
                )
            shutil.rmtree(other.parts, ignore_errors=True)
            shutil.rmtree(folder)
    except BlockingIOError:
        other = _read_job(folder)
        both = None if other is None else _overlap(job, other)
        if both is not None:
            raise ConvertError(
                f"{both} of {job.store} is being converted by another process ({folder}); wait until it is done"
            ) from None


def _overlap(one: Job, other: Job) -> str | None:
    """A split of both; of languages that only the records name, one that comes of the same data."""
    common = sorted((language, split) for language, split in one.targets() & other.targets() if language is not None)
    if common:
        return "/".join(common[0])
    fields = {(source.data, source.split) for source in one.sources if source.language is None}
    others = {(source.data, source.split) for source in other.sources if source.language is None}
    return next((f"{data} ({split})" for data, split in sorted(fields & others)), None)


def _read_job(folder: Path) -> Job | None:
    try:
        return msgspec.json.decode((folder / JOB).read_bytes(), type=Job)
    except (FileNotFoundError, NotADirectoryError, msgspec.MsgspecError):
        return None


def _remove_empty(folder: Path) -> None:
    """Removes the folder of a job, and that of all jobs, where nothing is in them."""
    for one in (folder, folder.parent):
        with contextlib.suppress(OSError):
            one.rmdir()


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
