"""What of the folders of a store is told: splits that readers pass over, leftovers, foreign files."""

import fcntl
import os
import shutil
from pathlib import Path

import pytest
from helpers import write_split

from flatmix.errors import StoreError
from flatmix.store.writer import SplitWriter
from flatmix.verify import verify


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that stays as it is."""
    path = tmp_path_factory.mktemp("survey") / "s"
    for language, split in (("en", "train"), ("en", "validation"), ("sw", "train")):
        write_split(path, [[1, 2]], language, split)
    return path


@pytest.fixture
def store(tmp_path: Path, written: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "s"))


def test_incomplete_splits_are_findings(store: Path) -> None:
    with SplitWriter(store, "ar", "train"):
        report = verify(store)
        assert report.splits["ar", "train"].verdict == "incomplete"
        assert report.findings[0].words == "it is being written at this moment; verify it when that is done"
    (finding,) = verify(store).findings
    assert str(finding) == (
        "language 'ar', split 'train': its writer stopped before the end; convert it again, or remove it"
    )


@pytest.mark.parametrize("damage", ["gone", "cut", "another format"])
def test_a_language_or_split_without_readable_metadata_is_a_finding(store: Path, damage: str) -> None:
    for folder, split in ((store / "sw", None), (store / "en/train", "train")):
        file = folder / "zarr.json"
        if damage == "gone":
            file.unlink()
        else:
            file.write_text('{"zarr' if damage == "cut" else '{"zarr_format": 9}')
        found = [finding for finding in verify(store).findings if finding.split == split]
        assert [finding.kind for finding in found] == ["refused"]
        if damage == "cut":
            assert "is damaged: it is not a JSON object" in found[0].words
        else:
            assert "and no zarr.json of a group: readers pass over it" in found[0].words
    assert list(verify(store).splits) == [("en", "train"), ("en", "validation")]


def test_leftovers_of_a_killed_conversion_are_notes(store: Path) -> None:
    (store / "en/train").rename(store / "en/.train.old")
    write_split(store, [[1]], "en", "other")
    (store / "en/other").rename(store / "en/train")
    (store / "sw/.train.new").mkdir()
    report = verify(store)

    assert report.sound
    assert report.notes == (
        "language 'en', split 'train': '.train.old' beside it was left by a conversion that was killed; the next one "
        "of this split removes it",
        "language 'sw', split 'train': '.train.new' beside it was left by a conversion that was killed; the next one "
        "of this split removes it",
    )
    handle = os.open(store / "sw/.train.new", os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        assert "'.train.new' beside it is being written at this moment" in verify(store).notes[1]
    finally:
        os.close(handle)


def test_a_split_that_a_killed_conversion_has_moved_away_is_missing(store: Path) -> None:
    (store / "en/train").rename(store / "en/.train.old")
    report = verify(store)

    assert report.splits["en", "train"].verdict == "missing"
    assert "it is '.train.old' now: what was to replace it was killed at its very end" in report.findings[0].words


def test_foreign_files_are_notes_wherever_they_lie(store: Path) -> None:
    for name in ("readme.txt", "en/notes.txt", "en/train/my.txt", "en/train/encoded_tokens/c/0.bak"):
        (store / name).write_text("mine")
    for name in ("sw/train/encoded_tokens/mine", "drafts", "sw/.hidden"):
        (store / name).mkdir()
    report = verify(store)

    assert report.sound
    assert report.notes == (
        f"{store / 'drafts'} is not of flatmix",
        f"{store / 'readme.txt'} is not of flatmix",
        f"{store / 'en/notes.txt'} is not of flatmix",
        f"{store / 'sw/.hidden'} is not of flatmix",
        "language 'en', split 'train': not of flatmix: 'encoded_tokens/c/0.bak', 'my.txt'",
        "language 'sw', split 'train': not of flatmix: 'encoded_tokens/mine/'",
    )


def test_many_foreign_files_are_counted(store: Path) -> None:
    for number in range(13):
        (store / f"en/train/{number:02}.txt").write_text("mine")
    assert verify(store, ["en"], ["train"]).notes[0].endswith("'08.txt', '09.txt' and 3 more")


def test_names_that_are_not_there_are_refused(store: Path) -> None:
    with pytest.raises(StoreError, match=r"no language 'xx' in store .*; its languages are 'en', 'sw'"):
        verify(store, ["en", "xx"])
    with pytest.raises(StoreError, match=r"language 'sw' .* has no split 'validation'; its splits are 'train'"):
        verify(store, ["en", "sw"], ["validation"])
    with pytest.raises(StoreError, match=r"no language of store .* has a split 'test'"):
        verify(store, None, ["train", "test"])
    with pytest.raises(StoreError, match="no store at"):
        verify(store / "elsewhere", ["en"])
    assert list(verify(store, None, ["validation"]).splits) == [("en", "validation")]


def test_a_language_that_was_named_is_found_also_when_it_is_damaged(store: Path) -> None:
    (store / "sw/zarr.json").unlink()
    assert [finding.language for finding in verify(store, ["sw"]).findings] == ["sw"]
    assert verify(store, ["en"]).sound


def test_an_empty_store_is_sound(tmp_path: Path) -> None:
    from flatmix.store.folders import create_store

    create_store(tmp_path)
    assert verify(tmp_path).sound
    assert not verify(tmp_path).splits
