"""One writer of a folder at a time, however it ends."""

import errno
from pathlib import Path

import pytest
from processes import outputs, run_python

from flatmix.store import locks
from flatmix.store.locks import is_being_written, locked


def test_a_lock_excludes_all_others_until_it_is_left(tmp_path: Path) -> None:
    with locked(tmp_path, wait=False), pytest.raises(BlockingIOError), locked(tmp_path, wait=False):
        pass
    with locked(tmp_path, wait=False):
        pass
    with pytest.raises(KeyError), locked(tmp_path, wait=False):
        raise KeyError
    with locked(tmp_path, wait=True):
        pass
    assert list(tmp_path.iterdir()) == []


def test_a_forked_child_does_not_keep_a_lock(tmp_path: Path) -> None:
    code = (
        "import os, sys, time\nfrom pathlib import Path\nfrom flatmix.store.locks import locked\n"
        "with locked(Path(sys.argv[1]), wait=False):\n    child = os.fork()\n"
        "    if not child: time.sleep(30), os._exit(0)\n"
        "try:\n    with locked(Path(sys.argv[1]), wait=False): print('free')\nfinally: os.kill(child, 9)"
    )
    assert outputs(run_python(code, tmp_path)) == ["free"]


def test_a_look_finds_what_is_being_written_and_leaves_it(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    assert not is_being_written(tmp_path / "train")
    assert not is_being_written(tmp_path / "absent")
    assert not is_being_written(tmp_path / "absent/train")
    (tmp_path / "file").touch()
    assert not is_being_written(tmp_path / "file/train")
    with locked(tmp_path / "train", wait=False):
        assert is_being_written(tmp_path / "train")
        assert is_being_written(tmp_path / "train")
    assert not is_being_written(tmp_path / "train")


def test_where_there_are_no_locks_nothing_is_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def flock(handle: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    with monkeypatch.context() as patch:
        patch.setattr(locks.fcntl, "flock", flock)
        with locked(tmp_path, wait=False), locked(tmp_path, wait=False):
            pass
    monkeypatch.setattr(locks, "fcntl", None)
    with locked(tmp_path, wait=False), locked(tmp_path, wait=False):
        pass
