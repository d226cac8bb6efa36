"""Megatron's two files: documents as the index puts them together."""

from pathlib import Path

import numpy as np
import pytest
from token_files import find, index_bytes, megatron_files, raw_file, read

from flatmix.convert import imports
from flatmix.convert.imports import documents, megatron_index
from flatmix.errors import ConvertError, ReadError

DOCUMENTS = [[[1, 2], [3]], [], [[4]], [[]], [[5, 6, 7, 8, 9]], [[], [1], []], []]
WHOLE = [[1, 2, 3], [], [4], [], [5, 6, 7, 8, 9], [1], []]


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64", "uint16"])
def test_documents_are_runs_of_sequences_in_every_type(tmp_path: Path, dtype: str) -> None:
    path = megatron_files(tmp_path / "en.text", DOCUMENTS, dtype)

    [found] = find(path, "megatron")

    assert (found.path, found.name, found.kind) == (path, "en.text.bin", "megatron")
    assert found.size == Path(path).stat().st_size
    assert found.options["type"] == dtype
    assert read(found) == WHOLE


def test_the_data_the_index_and_their_prefix_name_the_same_input(tmp_path: Path) -> None:
    path = megatron_files(tmp_path / "en.text", DOCUMENTS)
    [found] = find(path, "megatron")

    assert find(tmp_path / "en.text.idx", "megatron") == [found]
    assert find(tmp_path / "en.text", "megatron") == [found]


@pytest.mark.parametrize("run", [1, 3, 100])
@pytest.mark.parametrize("block", [1, 2, 100])
def test_documents_are_the_same_whatever_the_stretches_runs_and_blocks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, run: int, block: int
) -> None:
    monkeypatch.setattr(documents, "RUN", run)
    monkeypatch.setattr(megatron_index, "BLOCK", block)
    [found] = find(megatron_files(tmp_path / "a", DOCUMENTS, "int32"), "megatron")

    for size in (1, 5, 12, 1000):
        assert read(found, size) == WHOLE
    for skip in range(9):
        assert read(found, skip=skip) == WHOLE[skip:]


def test_the_end_of_a_run_counts_bytes_from_the_start_of_the_stretch(tmp_path: Path) -> None:
    [found] = find(megatron_files(tmp_path / "a", DOCUMENTS), "megatron")

    [run] = imports.read_tokens(found, 2, 6, 1)

    assert run.lengths.tolist() == [0, 5, 1]
    assert run.end == 14


@pytest.mark.parametrize("block", [1, 100])
@pytest.mark.parametrize(
    ("lengths", "pointers", "firsts", "whole"),
    [
        ([3, 0, 2, 2, 1], [8, 20, 0, 2, 18], [0, 2, 3, 5], [[4, 5, 6], [0, 1], [1, 2, 9]]),
        ([1, 2], [2, 4], [0, 1, 2], [[1], [2, 3]]),  # a part, from within to within
        ([1, 2], [0, 4], [0, 1, 2], [[0], [2, 3]]),
    ],
)
def test_sequences_may_lie_anywhere_in_the_data(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    block: int,
    lengths: list[int],
    pointers: list[int],
    firsts: list[int],
    whole: list[list[int]],
) -> None:
    monkeypatch.setattr(megatron_index, "BLOCK", block)
    path = raw_file(tmp_path / "a.bin", range(10))
    (tmp_path / "a.idx").write_bytes(index_bytes(lengths, pointers, firsts))

    [found] = find(path, "megatron")

    assert found.size == 2 * sum(lengths)
    assert read(found) == whole


def test_an_index_without_documents_has_none(tmp_path: Path) -> None:
    [found] = find(megatron_files(tmp_path / "a", []), "megatron")

    assert imports.cut(found, 10) == [(0, 0, 0)]
    assert read(found) == []


def test_offsets_beyond_32_bits_are_exact(tmp_path: Path) -> None:
    with (tmp_path / "a.bin").open("wb") as file:
        file.truncate(2**34)
        file.seek(2**34 - 4)
        file.write(np.array([8, 9], "<u2").tobytes())
    pointers = [2**33, 2**34 - 6]
    (tmp_path / "a.idx").write_bytes(index_bytes([1, 3], pointers, [0, 1, 2]))

    assert read(*find(tmp_path / "a", "megatron")) == [[0], [0, 8, 9]]


@pytest.mark.parametrize(("dtype", "bad"), [("int32", -1), ("int64", 2**31), ("int16", -5), ("int64", -(2**40))])
def test_ids_no_store_can_hold_are_named_with_their_place(tmp_path: Path, dtype: str, bad: int) -> None:
    [found] = find(megatron_files(tmp_path / "a", [[[1]], [], [[2, 3], [4, bad]]], dtype), "megatron")

    text = rf"a\.bin: token 3 of document 2 \(both counted from 0\) is {bad}, and ids of a store are"
    for size in (1, 1000):
        with pytest.raises(ConvertError, match=text):
            read(found, size)


def test_files_that_change_later_are_an_error(tmp_path: Path) -> None:
    [found] = find(megatron_files(tmp_path / "a", DOCUMENTS), "megatron")

    raw_file(tmp_path / "a.bin", range(6))
    with pytest.raises(ReadError, match=r"a\.bin has 12 bytes, and ends before its sequence"):
        read(found)
    megatron_files(tmp_path / "a", DOCUMENTS[:2])
    with pytest.raises(ConvertError, match=r"a\.idx changed while it was read; begin anew"):
        read(found)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    path = Path(megatron_files(tmp_path / "a", DOCUMENTS))
    path.unlink()
    with pytest.raises(ConvertError, match=r"a\.bin: there is no such file"):
        find(tmp_path / "a.idx", "megatron")
    with pytest.raises(ConvertError, match=r"b\.idx: there is no such file"):
        find(raw_file(tmp_path / "b.bin", [1]), "megatron")


def test_what_the_index_says_is_not_to_be_given(tmp_path: Path) -> None:
    path = megatron_files(tmp_path / "a", DOCUMENTS)

    with pytest.raises(ConvertError, match=r"a\.bin knows where its documents begin; leave out document_end"):
        find(path, "megatron", document_end=0)
    with pytest.raises(ConvertError, match="holds uint16, and the type given is uint32"):
        find(path, "megatron", type="uint32")
