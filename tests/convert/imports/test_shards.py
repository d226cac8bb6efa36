"""Folders of shards: the index is right, or nothing is read."""

import json
from pathlib import Path
from typing import Any

import pytest
from token_files import find, raw_file, read

from flatmix.errors import ConvertError, ReadError


def folder(path: Path, index: Any, **shards: list[int]) -> Path:
    path.mkdir()
    for name, ids in shards.items():
        raw_file(path / f"{name}.bin", ids)
    (path / "index.json").write_text(json.dumps(index))
    return path


def test_shards_come_in_the_sequence_of_their_names_without_the_empty(tmp_path: Path) -> None:
    index = {"b.bin": 3, "a.bin": 2, "c.bin": 0, "10.bin": 1, "9.bin": 2}
    shards = {"a": [1, 0], "b": [2, 0, 3], "c": [], "10": [0], "9": [4, 0], "unnamed": [0]}
    path = folder(tmp_path / "en", index, **shards)

    inputs = find(path, "shards", document_end=0)

    assert [found.name for found in inputs] == ["10.bin", "9.bin", "a.bin", "b.bin"]
    assert inputs[2].path == str(path / "a.bin")
    assert [read(found) for found in inputs] == [[[0]], [[4, 0]], [[1, 0]], [[2, 0], [3]]]


def test_a_shard_alone_is_read_as_its_folder_says(tmp_path: Path) -> None:
    path = folder(tmp_path / "en", {"a.bin": 2, "b.bin": 3, "c.bin": 0}, a=[1, 0], b=[2, 0], c=[])

    [found] = find(path / "a.bin", "shards", document_end=0)

    assert (found.name, read(found)) == ("a.bin", [[1, 0]])
    with pytest.raises(ReadError, match=r"b\.bin has 4 bytes, and index\.json says 3 tokens, which are 6 bytes"):
        find(path / "b.bin", "shards", document_end=0)
    with pytest.raises(ConvertError, match="says that there are no tokens in it"):
        find(path / "c.bin", "shards", document_end=0)
    with pytest.raises(ConvertError, match=r"d\.bin is not among the shards of index\.json"):
        find(path / "d.bin", "shards", document_end=0)


def test_shards_in_folders_below_are_named_so(tmp_path: Path) -> None:
    path = folder(tmp_path / "en", {"part/a.bin": 2})
    (path / "part").mkdir()
    raw_file(path / "part" / "a.bin", [1, 0])

    [found] = find(path, "shards", document_end=0)

    assert (found.name, read(found)) == ("part/a.bin", [[1, 0]])


def test_a_shard_of_another_size_is_an_error(tmp_path: Path) -> None:
    path = folder(tmp_path / "en", {"a.bin": 2}, a=[1, 0, 2])
    with pytest.raises(ConvertError, match=r"a\.bin has 6 bytes, and index\.json says 2 tokens, which are 4 bytes"):
        find(path, "shards", document_end=0)

    raw_file(path / "a.bin", [1])
    with pytest.raises(ReadError, match=r"a\.bin has 2 bytes, and index\.json says 2 tokens"):
        find(path, "shards", document_end=0)

    (path / "a.bin").unlink()
    with pytest.raises(ConvertError, match=r"a\.bin: there is no such file"):
        find(path, "shards", document_end=0)


@pytest.mark.parametrize("name", ["../a.bin", "/a.bin", "b/../../a.bin", "./a.bin", "b//a.bin", "", ".", "b/.."])
def test_names_that_lead_out_of_the_folder_are_refused(tmp_path: Path, name: str) -> None:
    raw_file(tmp_path / "a.bin", [0])
    path = folder(tmp_path / "en", {name: 1})

    with pytest.raises(ConvertError, match=r"names '.*', and a shard's name is one of a file in the folder"):
        find(path, "shards", document_end=0)


@pytest.mark.parametrize("index", [{}, [], {"a.bin": "2"}, {"a.bin": True}, {"a.bin": None}, {"a.bin": {"n": 2}}])
def test_what_is_no_index_is_refused(tmp_path: Path, index: Any) -> None:
    path = folder(tmp_path / "en", index, a=[1, 0])

    with pytest.raises(ConvertError, match=r"en holds no index\.json that says \{name of a shard: number of tokens\}"):
        find(path, "shards", document_end=0)


def test_counts_below_zero_and_shards_that_are_all_empty_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConvertError, match=r"says that a\.bin has -1 tokens"):
        find(folder(tmp_path / "en", {"a.bin": -1}, a=[0]), "shards", document_end=0)
    with pytest.raises(ConvertError, match="says that there are no tokens in it"):
        find(folder(tmp_path / "fr", {"a.bin": 0}, a=[]), "shards", document_end=0)


def test_a_boundary_is_needed_and_the_type_is_known(tmp_path: Path) -> None:
    path = folder(tmp_path / "en", {"a.bin": 1}, a=[0])

    with pytest.raises(ConvertError, match="en does not say where its documents begin"):
        find(path, "shards")
    with pytest.raises(ConvertError, match="en holds uint16, and the type given is uint32"):
        find(path, "shards", type="uint32", document_end=0)
