import json
from pathlib import Path

import numpy as np
import pytest
from helpers import edit_json, files_of, write_split

from flatmix.errors import ConvertError, StoreError
from flatmix.store import format as layout
from flatmix.store import open_store
from flatmix.store.folders import create_array, create_store
from flatmix.store.writer import SplitWriter


def test_a_store_in_a_missing_folder_is_made_with_its_parents(tmp_path: Path) -> None:
    create_store(tmp_path / "a/b/s")
    before = files_of(tmp_path)
    create_store(tmp_path / "a/b/s")

    assert open_store(tmp_path / "a/b/s").languages == ()
    assert files_of(tmp_path) == before


def test_an_empty_folder_is_used(tmp_path: Path) -> None:
    (tmp_path / "s").mkdir()
    (tmp_path / "s/zarr.0123abcd.partial").write_text("what zarr leaves behind when it is killed")
    create_store(tmp_path / "s")

    assert open_store(tmp_path / "s").languages == ()


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize("at", ["s", "s/en", "s/en/train"])
def test_a_folder_that_is_not_ours_is_refused_and_not_touched(tmp_path: Path, at: str, replace: bool) -> None:
    if at != "s":
        write_split(tmp_path / "s", [[1]], "en" if at == "s/en/train" else "ar", "validation")
    (tmp_path / at).mkdir(parents=True)
    (tmp_path / at / "notes.txt").write_text("mine")
    before = files_of(tmp_path / at)

    with pytest.raises(
        ConvertError, match=r"is an output folder that is not ours: it holds 'notes.txt'; choose a new or"
    ):
        SplitWriter(tmp_path / "s", "en", "train", replace=replace)
    assert files_of(tmp_path / at) == before


@pytest.mark.parametrize("replace", [False, True])
def test_a_zarr_group_of_another_kind_is_refused_and_not_touched(tmp_path: Path, replace: bool) -> None:
    import zarr

    zarr.create_group(tmp_path / "foreign", zarr_format=3)
    zarr.create_array(tmp_path / "array", shape=(3,), dtype="uint32")
    write_split(tmp_path / "s", [[1]])
    zarr.create_group(tmp_path / "s/en/other", zarr_format=3)
    before = files_of(tmp_path)

    for path, split, message in (
        ("foreign", "train", "is a Zarr group, but not a flat-tokens store"),
        ("array", "train", "is an output folder that is not ours: it holds 'zarr.json'; choose a new or empty one"),
        ("s", "other", "is there already and is not a split of flatmix; it is left as it is"),
    ):
        with pytest.raises(ConvertError, match=message):
            SplitWriter(tmp_path / path, "en", split, replace=replace)
    assert files_of(tmp_path) == before


def test_a_file_in_the_place_of_a_store_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s").write_text("mine")

    with pytest.raises(ConvertError, match="is a file; choose a new or empty folder"):
        SplitWriter(tmp_path / "s", "en", "train")


def test_a_store_of_a_later_format_is_not_written_to(tmp_path: Path) -> None:
    write_split(tmp_path / "s", [[1]])
    edit_json(tmp_path / "s", lambda group: group["attributes"]["flatmix"].update(format=2))

    with pytest.raises(StoreError, match="has the format 2, and this version of flatmix reads format 1"):
        SplitWriter(tmp_path / "s", "ar", "train")


def test_adding_a_language_or_split_changes_nothing_that_is_there(tmp_path: Path) -> None:
    write_split(tmp_path / "s", [[1, 2]])
    before = files_of(tmp_path / "s")
    write_split(tmp_path / "s", [[3]], "ar")
    write_split(tmp_path / "s", [[4]], "en", "validation")
    after = files_of(tmp_path / "s")

    assert before == {name: after[name] for name in before}
    assert open_store(tmp_path / "s").languages == ("ar", "en")


@pytest.mark.parametrize(("language", "split"), [("EN", "train"), ("en", "Train")])
def test_names_that_differ_only_in_case_are_refused(tmp_path: Path, language: str, split: str) -> None:
    write_split(tmp_path / "s", [[1]])

    with pytest.raises(StoreError, match="differs only in case from"):
        SplitWriter(tmp_path / "s", language, split, replace=True)
    assert open_store(tmp_path / "s").languages == ("en",)


@pytest.mark.parametrize(
    ("language", "split"), [("../en", "train"), ("train", "train"), ("en", "../../x"), ("en", "c")]
)
def test_bad_names_are_refused_before_anything_is_made(tmp_path: Path, language: str, split: str) -> None:
    with pytest.raises(ValueError, match="cannot name a"):
        SplitWriter(tmp_path / "s", language, split)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("compression", "settings"), [("fast", ("lz4", 5, "bitshuffle", 2)), ("small", ("zstd", 5, "shuffle", 1))]
)
def test_the_metadata_of_an_array_says_how_it_is_compressed(
    tmp_path: Path, compression: layout.Compression, settings: tuple[str, int, str, int]
) -> None:
    codec, level, shuffle, number = settings
    for zarr_format in (2, 3):
        create_array(tmp_path / f"v{zarr_format}", (5,), np.dtype("uint32"), zarr_format, compression)
    new = json.loads((tmp_path / "v3/zarr.json").read_text())
    old = json.loads((tmp_path / "v2/.zarray").read_text())

    blosc = {"cname": codec, "clevel": level, "blocksize": 0}
    inner = new["codecs"][0]["configuration"]["codecs"]
    assert [part["name"] for part in inner] == ["bytes", "blosc", "crc32c"]
    assert inner[1]["configuration"] == {**blosc, "typesize": 4, "shuffle": shuffle}
    assert old["compressor"] == {**blosc, "id": "blosc", "shuffle": number}


def test_arrays_are_written_fast_unless_asked_otherwise(tmp_path: Path) -> None:
    for zarr_format in (2, 3):
        create_array(tmp_path / f"v{zarr_format}", (5,), np.dtype("uint32"), zarr_format)
        create_array(tmp_path / f"fast{zarr_format}", (5,), np.dtype("uint32"), zarr_format, "fast")

        assert files_of(tmp_path / f"v{zarr_format}") == files_of(tmp_path / f"fast{zarr_format}")
