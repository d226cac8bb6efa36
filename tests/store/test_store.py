import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import documents_of, edit_json, write_split

from flatmix.errors import StoreError
from flatmix.store import open_store

SIX = ("zh", "ar", "en", "de", "sw", "no")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("six") / "s"
    for language in SIX:
        write_split(path, [[1, 2, 3]], language)
    write_split(path, [[4]], "en", "validation")
    return path


def test_languages_and_splits_are_sorted_whatever_the_listing(store: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(store, tmp_path / "copy")

    for path in (store, copy):
        assert open_store(path).languages == ("ar", "de", "en", "no", "sw", "zh")
        assert list(open_store(path)) == sorted(SIX)
        assert open_store(path)["en"].splits == ("train", "validation")
        assert list(open_store(path)["en"]) == ["train", "validation"]


def test_many_languages_open_in_the_sequence_given(store: Path) -> None:
    splits = open_store(store).open(reversed(SIX), "train")

    assert list(reversed(SIX)) == list(splits)
    assert list(splits) == [split.language for split in splits.values()]
    assert [split.tokens for split in splits.values()] == [3] * 6
    assert open_store(store).open([], "train") == {}


def test_opening_many_languages_reports_the_one_that_fails(store: Path) -> None:
    with pytest.raises(
        StoreError, match=r"language 'ar' of store .* has no split 'validation'; its splits are 'train'"
    ):
        open_store(store).open(["en", "ar"], "validation")
    with pytest.raises(ValueError, match=r"write \['en'\]"):
        open_store(store).open("en", "train")


def test_a_language_added_later_is_seen_by_a_store_that_is_open(store: Path, tmp_path: Path) -> None:
    opened = open_store(shutil.copytree(store, tmp_path / "copy"))
    assert "ti" not in opened
    write_split(opened.path, [[1]], "ti")

    assert "ti" in opened
    assert opened["ti"]["train"].tokens == 1


def test_what_is_missing_is_named_with_what_is_there(store: Path) -> None:
    with pytest.raises(
        StoreError, match=f"no language 'xx' in store {store}; its languages are 'ar', 'de', 'en', 'no'"
    ):
        open_store(store)["xx"]
    with pytest.raises(
        StoreError, match=f"language 'en' of store {store} has no split 'test'; its splits are 'train', "
    ):
        open_store(store)["en"]["test"]


def test_a_long_list_of_what_is_there_is_cut(tmp_path: Path) -> None:
    write_split(tmp_path / "s", [[1]], "l00")
    for number in range(1, 23):
        shutil.copytree(tmp_path / "s/l00", tmp_path / f"s/l{number:02}")

    with pytest.raises(StoreError, match=r"'l18', 'l19' and 3 more$"):
        open_store(tmp_path / "s")["xx"]


@pytest.mark.parametrize("name", ["..", "../s", "en/train", "/", "", ".", "a\\b", "en\x00"])
def test_no_name_leads_out_of_the_store(store: Path, name: str) -> None:
    with pytest.raises(ValueError, match="cannot name a language"):
        open_store(store)[name]
    with pytest.raises(ValueError, match="cannot name a split"):
        open_store(store)["en"][name]


def test_foreign_files_and_folders_are_passed_over(store: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(store, tmp_path / "copy")
    (copy / "notes.txt").write_text("mine")
    (copy / "plots").mkdir()
    (copy / "en/notes.txt").write_text("mine")
    shutil.copytree(copy / "en/train", copy / "en/.train.new")  # as a writer has it that will replace the split
    shutil.copytree(copy / "en", copy / ".en")

    assert sorted(SIX) == list(open_store(copy))
    assert open_store(copy)["en"].splits == ("train", "validation")
    with pytest.raises(StoreError, match="no language 'plots'"):
        open_store(copy)["plots"]


def test_a_language_or_split_without_tokens_is_named(store: Path, tmp_path: Path) -> None:
    import zarr

    copy = shutil.copytree(store, tmp_path / "copy")
    zarr.create_group(copy / "ti", zarr_format=3)
    zarr.create_group(copy / "en/empty", zarr_format=3)
    shutil.rmtree(copy / "ar/train/encoded_tokens")

    with pytest.raises(StoreError, match=r"language 'ti' of store .* has no split 'train'; it has no splits at all"):
        open_store(copy).open(["en", "ti"], "train")
    with pytest.raises(StoreError, match=r"language 'en', split 'empty' of store .* holds no encoded_tokens"):
        open_store(copy)["en"]["empty"]
    with pytest.raises(StoreError, match=r"language 'ar', split 'train' of store .* holds no encoded_tokens"):
        open_store(copy)["ar"]["train"]


def test_status_tells_complete_from_incomplete_from_broken(store: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(store, tmp_path / "copy")
    edit_json(copy / "ar/train", lambda group: group["attributes"]["flatmix"].update(complete=False))
    edit_json(copy / "de/train", lambda group: group["attributes"]["flatmix"].update(format=2))
    opened = open_store(copy)

    assert opened.status("en", "train") == "complete"
    assert opened.status("ar", "train") == "incomplete"
    assert "has the format 2" in opened.status("de", "train")
    assert "has no split 'test'" in opened.status("de", "test")
    assert "no language 'xx'" in opened.status("xx", "train")


def test_a_store_opens_by_path_relative_path_and_url(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = shutil.copytree(store, tmp_path / "a b%20é")
    monkeypatch.chdir(tmp_path)
    for path in (copy, str(copy), os.path.relpath(copy), copy.as_uri(), f"{copy}/../{copy.name}/"):
        opened = open_store(path)
        assert str(copy) == opened.path
    monkeypatch.chdir("/")

    assert documents_of(opened["en"]["train"]) == [[1, 2, 3]]


@pytest.mark.parametrize(
    ("path", "settings", "message"),
    [
        ("s3://bucket/corpus.zarr", {}, "only local folders and file:// URLs are supported by this version"),
        ("gs://bucket/corpus.zarr", {}, "only local folders"),
        ("https://example.com/corpus.zarr", {}, "only local folders"),
        ("file://elsewhere/corpus.zarr", {}, "only local folders"),
        ("/x", {"storage": {"region": "x"}}, "storage settings .* not supported by this version"),
        ("", {}, "the path of a store is empty"),
    ],
)
def test_what_this_version_does_not_support_is_said(path: str, settings: dict[str, object], message: str) -> None:
    with pytest.raises(StoreError, match=message):
        open_store(path, **settings)


def test_what_is_no_store_is_said(tmp_path: Path) -> None:
    import zarr

    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    zarr.create_group(tmp_path / "v2", zarr_format=2)
    zarr.create_group(tmp_path / "v3", zarr_format=3)
    zarr.create_group(tmp_path / "next", zarr_format=3, attributes={"flatmix": {"format": 2}})
    expected = {
        "missing": "nothing is there",
        "file": "it is a file",
        "folder": "the folder holds no zarr.json or .zgroup of a group",
        "v2": "is not a flat-tokens store: a Zarr group without the attribute 'flatmix'",
        "v3": "is not a flat-tokens store: a Zarr group without the attribute 'flatmix'",
        "next": "has the format 2, and this version of flatmix reads format 1",
    }
    for name, message in expected.items():
        with pytest.raises(StoreError, match=message) as caught:
            open_store(tmp_path / name)
        assert str(tmp_path / name) in str(caught.value)


@pytest.mark.parametrize(("module", "loads"), [("flatmix.store", False), ("flatmix.store.writer", True)])
def test_opening_a_store_does_not_load_zarr(module: str, loads: bool) -> None:
    """The second case shows that the first could fail."""
    code = f"import sys, {module}; print('zarr' in sys.modules, 'jax' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)

    assert [str(loads), "False"] == done.stdout.split()
