"""Files that are nothing but numbers: what must be said of them."""

from pathlib import Path

import pytest
from token_files import find, llmc_file, raw_file, read

from flatmix.errors import ConvertError


def test_a_file_is_one_input_that_says_nothing_of_its_place(tmp_path: Path) -> None:
    path = raw_file(tmp_path / "train.bin", [1, 2, 0, 65535, 0])

    [found] = find(path, "nanogpt", type="uint16", document_end=0)

    assert (found.path, found.name, found.kind, found.size) == (path, "train.bin", "nanogpt", 10)
    assert found.stamp == f"10-{Path(path).stat().st_mtime_ns}"
    assert read(found) == [[1, 2, 0], [65535, 0]]


def test_the_type_decides_what_the_numbers_are(tmp_path: Path) -> None:
    path = raw_file(tmp_path / "a.bin", [70000, 0, 5], "<u4")

    assert read(*find(path, "nanogpt", type="uint32", document_end=0)) == [[70000, 0], [5]]
    assert read(*find(path, "nanogpt", type="uint16", document_start=5)) == [[4464, 1, 0, 0], [5, 0]]


def test_the_type_is_not_guessed(tmp_path: Path) -> None:
    path = raw_file(tmp_path / "a.bin", [1, 0])

    with pytest.raises(ConvertError, match=r"a\.bin does not say what its numbers are: give their type, uint16"):
        find(path, "nanogpt", document_end=0)
    with pytest.raises(ConvertError, match=r"a\.bin does not say where its documents begin"):
        find(path, "nanogpt", type="uint16")


@pytest.mark.parametrize(("dtype", "size"), [("uint16", 5), ("uint32", 6)])
def test_a_size_that_is_no_number_of_tokens_is_refused(tmp_path: Path, dtype: str, size: int) -> None:
    (tmp_path / "a.bin").write_bytes(bytes(size))

    with pytest.raises(ConvertError, match=rf"has {size} bytes, and that is no number of {dtype}, \d bytes each"):
        find(tmp_path / "a.bin", "nanogpt", type=dtype, document_end=0)


def test_what_is_no_file_of_tokens_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.bin").touch()
    settings = {"type": "uint16", "document_end": 0}

    with pytest.raises(ConvertError, match=r"empty\.bin holds no tokens; leave it out"):
        find(tmp_path / "empty.bin", "nanogpt", **settings)
    with pytest.raises(ConvertError, match=r"none\.bin: there is no such file"):
        find(tmp_path / "none.bin", "nanogpt", **settings)
    with pytest.raises(ConvertError, match="is no file, and a file of tokens is one"):
        find(tmp_path, "nanogpt", **settings)
    with pytest.raises(ConvertError, match=r"begins with the header of llm\.c, .*; give the format llm\.c"):
        find(llmc_file(tmp_path / "c.bin", [1, 0]), "nanogpt", **settings)
