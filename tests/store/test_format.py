import hashlib
import unicodedata

import numpy as np
import pytest

from flatmix.store import format as layout


@pytest.mark.parametrize(
    "name",
    [
        "en", "no", "nan", "1e2", "zh-Hant", "sr@latin", "C", "中文", "हिन्दी", "a b", "a.b", "_x", "x__", "é",
        "a" * 100, "é" * 50, "C++", "~", "train2", "Zarr", "seq_start",
    ],
)  # fmt: skip
def test_names_in_any_script_are_accepted(name: str) -> None:
    layout.check_name("language", name)
    layout.check_name("split", name)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("", "it is empty"),
        (unicodedata.normalize("NFD", "é"), "form NFC; write 'é'"),
        ("a" * 101, "101 bytes"),
        ("é" * 51, "102 bytes"),
        ("a\nb", "control character"),
        ("a\x7f", "control character"),
        ("a\x85b", "control character"),
        *((f"a{character}b", "it holds one of") for character in '/\\:*?"<>|#%'),
        (".", "begins with"),
        ("..", "begins with"),
        (".hidden", "begins with"),
        ("../en", "it holds one of"),
        ("__x", "begins with"),
        ("a ", "ends with"),
        ("a.", "ends with"),
        ("zarr.json", "own files"),
        ("Zarr.JSON", "own files"),
        ("c", "own files"),
        ("encoded_tokens", "own files"),
        ("seq_starts", "own files"),
        ("piece_digests", "own files"),
        ("source_file", "own files"),
        ("source_record", "own files"),
        ("a.__lock", "__lock"),
        ("\ud800", "not valid Unicode"),
    ],
)
def test_names_that_some_file_system_or_reader_would_change_are_refused(name: str, reason: str) -> None:
    for kind in ("language", "split"):
        with pytest.raises(ValueError, match="cannot name a") as caught:
            layout.check_name(kind, name)
        assert reason in str(caught.value)
        assert repr(name) in str(caught.value)
        assert kind in str(caught.value)


@pytest.mark.parametrize("name", ["train", "validation"])
def test_a_language_is_not_called_like_a_split(name: str) -> None:
    layout.check_name("split", name)
    with pytest.raises(ValueError, match="splits are called so"):
        layout.check_name("language", name)


@pytest.mark.parametrize("cuts", [[], [1], [4], [3, 4, 5], [8], [1, 2, 3, 9, 10]])
def test_digests_of_pieces_do_not_depend_on_how_values_come(monkeypatch: pytest.MonkeyPatch, cuts: list[int]) -> None:
    monkeypatch.setattr(layout, "PIECE", 4)
    values = np.arange(11, dtype=np.uint64)
    digests = layout.PieceDigests()
    for part in np.split(values, cuts):
        digests.update(part)

    expected = b"".join(hashlib.sha256(values[at : at + 4].astype("<u8").tobytes()).digest() for at in (0, 4, 8))
    assert expected == digests.finish()
    assert layout.piece_count(11) == 3


def test_an_empty_array_has_no_piece() -> None:
    digests = layout.PieceDigests()
    digests.update(np.empty(0, np.uint32))

    assert digests.finish() == b""
    assert layout.piece_count(0) == 0


def test_pieces_are_counted_exactly_beyond_32_and_53_bits() -> None:
    assert layout.piece_count(layout.PIECE) == 1
    assert layout.piece_count(layout.PIECE + 1) == 2
    assert layout.piece_count(2**54 + 1) == 2**30 + 1


def test_big_endian_values_have_the_same_digest() -> None:
    little, big = layout.PieceDigests(), layout.PieceDigests()
    little.update(np.arange(5, dtype="<u4"))
    big.update(np.arange(5, dtype=">u4"))

    assert little.finish() == big.finish()
