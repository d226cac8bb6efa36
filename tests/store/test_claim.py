"""Who may write a split: one writer, and a complete split stays until another is complete."""

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from helpers import documents_of, files_of, write_split
from processes import end, outputs, run_python

from flatmix.errors import ConvertError, StoreError
from flatmix.store import open_store, writer
from flatmix.store.writer import SplitWriter

BUSY = "language 'en', split 'train' of store .* is being written by another process, or by another writer of this one"


def killed(code: str, path: Path) -> None:
    """Runs `code` in a process of its own, which gets the store as `path` and must end by SIGKILL."""
    given = (
        "import os, sys\nfrom pathlib import Path\nfrom flatmix.store.writer import SplitWriter\npath = sys.argv[1]\n"
    )
    ended = end(run_python(given + code + "\nos.kill(os.getpid(), 9)", path))
    assert ended.code == -signal.SIGKILL, ended.errors


def test_an_existing_split_is_refused_and_not_touched(tmp_path: Path) -> None:
    write_split(tmp_path / "s", [[1, 2]])
    before = files_of(tmp_path / "s")

    with pytest.raises(
        StoreError, match=r"language 'en', split 'train' of store .* is there already; ask to replace it"
    ):
        SplitWriter(tmp_path / "s", "en", "train")
    assert files_of(tmp_path / "s") == before


def test_an_existing_split_is_replaced_on_request(tmp_path: Path) -> None:
    write_split(tmp_path / "s", [[1, 2]], record_sources=True)
    write_split(tmp_path / "s", [[3]], "en", "validation")
    validation = files_of(tmp_path / "s/en/validation")
    split = write_split(tmp_path / "s", [[7, 8, 9]], replace=True)

    assert documents_of(split) == [[7, 8, 9]]
    assert split.sources(0, 1) is None  # nothing is left of the old one
    assert files_of(tmp_path / "s/en/validation") == validation
    write_split(tmp_path / "fresh", [[7, 8, 9]])
    assert files_of(tmp_path / "fresh/en/train") == files_of(tmp_path / "s/en/train")


def test_an_incomplete_split_is_refused_unless_it_is_replaced(tmp_path: Path) -> None:
    SplitWriter(tmp_path / "s", "en", "train")
    with pytest.raises(StoreError, match="is there already, and is incomplete; ask to replace it"):
        SplitWriter(tmp_path / "s", "en", "train")

    assert documents_of(write_split(tmp_path / "s", [[1]], replace=True)) == [[1]]


def test_a_split_with_a_foreign_file_in_it_is_not_replaced(tmp_path: Path) -> None:
    write_split(tmp_path / "s", [[1, 2]])
    (tmp_path / "s/en/train/notes.txt").write_text("mine")
    before = files_of(tmp_path / "s")

    with pytest.raises(
        ConvertError, match=r"holds 'notes.txt', which is not of flatmix; move it away before replacing"
    ):
        SplitWriter(tmp_path / "s", "en", "train", replace=True)
    assert files_of(tmp_path / "s") == before


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_the_old_split_is_whole_until_the_new_one_is_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zarr_format: int
) -> None:
    before = files_of(Path(write_split(tmp_path, [[1, 2]], zarr_format=zarr_format).path))
    seen: list[Any] = []
    real = writer.write_attributes

    def write_attributes(group: zarr.Group, attributes: dict[str, Any]) -> None:
        seen.append((files_of(tmp_path / "en/train") == before, open_store(tmp_path)["en"].splits))
        real(group, attributes)

    monkeypatch.setattr(writer, "write_attributes", write_attributes)
    with SplitWriter(tmp_path, "en", "train", replace=True, zarr_format=zarr_format) as opened:
        opened.add([3])
        assert files_of(tmp_path / "en/train") == before
        assert open_store(tmp_path)["en"].splits == ("train",)
        assert [name for name, _ in zarr.open_group(tmp_path / "en", mode="r").members()]  # and zarr does not warn
        split = opened.finish()

    assert seen == [(True, ("train",))]
    assert documents_of(split) == [[3]]
    assert sorted(entry.name for entry in (tmp_path / "en").iterdir() if entry.is_dir()) == ["train"]


def test_a_writer_that_fails_or_is_left_leaves_the_old_split_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_split(tmp_path, [[1, 2]])
    before = files_of(tmp_path)

    with SplitWriter(tmp_path, "en", "train", replace=True) as opened:
        opened.add([3])
    assert files_of(tmp_path) == before
    opened = SplitWriter(tmp_path, "en", "train", replace=True)
    with pytest.raises(ValueError, match="has the id -1"):
        opened.add([-1])
    assert files_of(tmp_path) == before
    real = writer.write_shard
    monkeypatch.setattr(
        writer, "write_shard", lambda folder, start, values, version: real(folder, start, values * 0, version)
    )
    with pytest.raises(StoreError, match="does not read back as it was written; the old one stays"):
        write_split(tmp_path, [[3]], replace=True)
    assert files_of(tmp_path) == before


def test_a_swap_that_fails_leaves_the_old_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_split(tmp_path, [[1, 2]])
    before = files_of(tmp_path)
    real = Path.rename

    def rename(self: Path, target: Path) -> Path:
        if self.name == ".train.new":
            raise OSError(5, "Input/output error")
        return real(self, target)

    monkeypatch.setattr(Path, "rename", rename)
    with pytest.raises(OSError, match=r"Input/output error; language 'en', split 'train' .*: the old one stays"):
        write_split(tmp_path, [[3]], replace=True)
    assert files_of(tmp_path) == before


def test_what_a_killed_replacement_left_is_removed_by_the_next(tmp_path: Path) -> None:
    write_split(tmp_path, [[1, 2]])
    killed("writer = SplitWriter(path, 'en', 'train', replace=True)\nwriter.add([3])", tmp_path)

    assert (tmp_path / "en/.train.new").exists()
    assert open_store(tmp_path)["en"].splits == ("train",)
    assert documents_of(open_store(tmp_path)["en"]["train"]) == [[1, 2]]
    assert documents_of(write_split(tmp_path, [[4]], replace=True)) == [[4]]
    assert sorted(entry.name for entry in (tmp_path / "en").iterdir()) == ["train", "zarr.json"]


def test_a_swap_that_was_cut_short_is_undone_by_the_next_writer(tmp_path: Path) -> None:
    write_split(tmp_path, [[1, 2]])
    cut = "real = Path.rename\ndef rename(one, other):\n    real(one, other)\n    os.kill(os.getpid(), 9)\n"
    cut += "Path.rename = rename\nwriter = SplitWriter(path, 'en', 'train', replace=True)\nwriter.finish()"
    killed(cut, tmp_path)

    assert open_store(tmp_path)["en"].splits == ()
    with pytest.raises(
        StoreError, match=r"no split 'train'.* was to replace it was killed at its very end: run it again"
    ):
        open_store(tmp_path)["en"]["train"]
    with pytest.raises(StoreError, match="is there already; ask to replace it"):
        SplitWriter(tmp_path, "en", "train")
    assert documents_of(open_store(tmp_path)["en"]["train"]) == [[1, 2]]
    write_split(tmp_path, [[4]], replace=True)
    assert sorted(entry.name for entry in (tmp_path / "en").iterdir()) == ["train", "zarr.json"]


def test_foreign_files_among_what_was_left_are_not_removed(tmp_path: Path) -> None:
    write_split(tmp_path, [[1, 2]])
    (tmp_path / "en/.train.new").mkdir()
    (tmp_path / "en/.train.new/notes.txt").write_text("mine")

    with pytest.raises(ConvertError, match=r"\.train\.new, left by a conversion that was killed, holds 'notes.txt'"):
        SplitWriter(tmp_path, "en", "train", replace=True)
    assert (tmp_path / "en/.train.new/notes.txt").read_text() == "mine"


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("there", ["nothing", "incomplete", "complete"])
def test_a_second_writer_of_a_split_is_refused_at_once(tmp_path: Path, there: str, replace: bool) -> None:
    if there != "nothing":
        with SplitWriter(tmp_path, "en", "train") as left:
            if there == "complete":
                left.finish()
    with SplitWriter(tmp_path, "en", "train", replace=there != "nothing") as first:
        first.add([1])
        with pytest.raises(StoreError, match=BUSY):
            SplitWriter(tmp_path, "en", "train", replace=replace)
        write_split(tmp_path, [[2]], split="validation")  # another split of the language is free
        assert documents_of(first.finish()) == [[1]]

    assert documents_of(write_split(tmp_path, [[3]], replace=True)) == [[3]]


def test_writers_of_other_processes_are_refused_and_one_that_was_killed_is_forgotten(tmp_path: Path) -> None:
    second = (
        "import sys\nfrom flatmix.store.writer import SplitWriter\nfor replace in (False, True):\n"
        "    try: SplitWriter(sys.argv[1], 'en', 'train', replace=replace)\n"
        "    except ValueError as error: print(error)"
    )
    with SplitWriter(tmp_path, "en", "train") as first:
        assert outputs(run_python(second, tmp_path))[0].count("is being written by another process") == 2
        first.finish()

    killed("writer = SplitWriter(path, 'en', 'train', replace=True)", tmp_path)
    assert documents_of(write_split(tmp_path, [[3]], replace=True)) == [[3]]


def test_a_writer_that_failed_no_longer_holds_its_split(tmp_path: Path) -> None:
    failed = SplitWriter(tmp_path, "en", "train")
    with pytest.raises(ValueError, match="has the id -1"):
        failed.add([-1])

    assert documents_of(write_split(tmp_path, [[1]], replace=True)) == [[1]]


def test_where_locks_do_not_reach_a_split_of_another_writer_is_not_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from flatmix.store import locks

    monkeypatch.setattr(locks, "fcntl", None)
    first = SplitWriter(tmp_path, "en", "train")
    first.add([1])
    assert documents_of(write_split(tmp_path, [[2, 3]], replace=True)) == [[2, 3]]
    with pytest.raises(StoreError, match="another process"):
        first.finish()

    first = SplitWriter(tmp_path, "ar", "train")
    SplitWriter(tmp_path, "ar", "train", replace=True).add_many(np.array([1]), np.array([1]))
    zarr.create_array(tmp_path / "ar/train/encoded_tokens", shape=(3,), dtype="uint32")
    first.add([1])
    with pytest.raises(StoreError, match="another process writes this split at the same time"):
        first.finish()


def test_a_split_that_was_changed_meanwhile_is_not_completed(tmp_path: Path) -> None:
    with SplitWriter(tmp_path, "en", "train") as opened:
        opened.add([1])
        zarr.open_group(tmp_path / "en/train", mode="r+").attrs.put({"flatmix": {"format": 1, "complete": True}})
        with pytest.raises(
            StoreError, match="was changed by another process while it was written; it is left as it is"
        ):
            opened.finish()
