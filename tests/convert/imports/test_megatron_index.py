"""Indexes of Megatron that contradict themselves or their data: refused, with the place."""

from pathlib import Path

import pytest
from token_files import CODES, find, index_bytes, megatron_files, raw_file

from flatmix.convert.imports import megatron_index
from flatmix.errors import ConvertError, ReadError


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_floating_point_numbers_are_refused(tmp_path: Path, dtype: str) -> None:
    with pytest.raises(ConvertError, match=rf"of type {CODES[dtype]}: floating-point numbers, which are no ids"):
        find(megatron_files(tmp_path / "a", [[[1]]], dtype), "megatron")


def damaged(folder: Path, index: bytes, tokens: int = 4) -> str:
    (folder / "a.idx").write_bytes(index)
    return raw_file(folder / "a.bin", range(tokens))


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (b"TNTIDX\0\0" + bytes(50), r"a\.idx is an index of the older kind \(TNTIDX\), which is not read here"),
        (b"PK" + bytes(50), r"a\.idx is no index of Megatron: such a file begins with MMIDIDX"),
        (b"", r"a\.idx is no index of Megatron"),
        (index_bytes([4], [0], [0, 1], version=2), r"is of version 2, and version 1 is read here"),
        (index_bytes([4], [0], [0, 1], code=9), r"of type 9: a type that is not known"),
        (index_bytes([4], [0], [0, 1]) + b"\0", r"multimodal kind"),
        (index_bytes([4], [0], [0, 1]) + bytes(2), r"has 64 bytes, and its counts \(1 sequences, 2 doc.*\) say 62$"),
        (index_bytes([4], [0], []), r"has no document indices"),
        (index_bytes([2, 2], [0, 4], [0, 2, 1, 2]), r"document 2 \(counted from 0\) begins with sequence 1, "),
        (index_bytes([2, 2], [0, 4], [1, 2]), r"document 0 \(counted from 0\) begins with sequence 1, "),
        (index_bytes([2, 2], [0, 4], [0, 1]), r"has 2 sequences, and its documents end with number 1"),
        (index_bytes([2, 2], [0, 4], [0, 3]), r"has 2 sequences, and its documents end with number 3"),
        (index_bytes([2, -2], [0, 4], [0, 2]), r"sequence 1 \(counted from 0\) has -2 tokens from byte 4 on"),
        (index_bytes([2, 2], [-4, 4], [0, 2]), r"sequence 0 \(counted from 0\) has 2 tokens from byte -4 on"),
        (index_bytes([2], [0], [0, 1]), r"has 8 bytes, and .*a\.idx ends at byte 4, .* truncate -s 4"),
    ],
)
def test_an_index_that_contradicts_is_refused(tmp_path: Path, index: bytes, text: str) -> None:
    with pytest.raises(ConvertError, match=text):
        find(damaged(tmp_path, index), "megatron")


@pytest.mark.parametrize("blocks", [1, 100])
def test_entries_are_checked_in_every_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blocks: int) -> None:
    monkeypatch.setattr(megatron_index, "BLOCK", blocks)

    with pytest.raises(ConvertError, match=r"document 2 \(counted from 0\) begins with sequence 0"):
        find(damaged(tmp_path, index_bytes([2, 2], [0, 4], [0, 1, 0, 2])), "megatron")
    with pytest.raises(ConvertError, match=r"ends at byte 6, .* not of one run"):
        find(damaged(tmp_path, index_bytes([2, 1], [0, 4], [0, 2])), "megatron")


@pytest.mark.parametrize(
    ("index", "text"),
    [
        (index_bytes([4], [0], [0, 1])[:-1], r"a\.idx has 61 bytes, .* say 62: it was cut"),
        (index_bytes([4], [0], [0, 1])[:20], r"a\.idx has 20 bytes, and its header alone has 34: it was cut"),
        (index_bytes([5], [0], [0, 1]), r"a\.bin has 8 bytes, and ends before its sequence 0 .* 5 tokens from byte 0"),
        (index_bytes([2, 2], [0, 5], [0, 2]), r"a\.bin has 8 bytes, and ends before its sequence 1 "),
        (index_bytes([2], [2**62], [0, 1]), r"a\.bin has 8 bytes, and ends before its sequence 0 "),
    ],
)
def test_files_that_were_cut_are_an_error(tmp_path: Path, index: bytes, text: str) -> None:
    with pytest.raises(ReadError, match=text):
        find(damaged(tmp_path, index), "megatron")
