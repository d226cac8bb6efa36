"""llm.c's files: the header decides, and must agree with the size."""

from pathlib import Path

import pytest
from token_files import find, llmc_file, read

from flatmix.errors import ConvertError, ReadError


@pytest.mark.parametrize("wide", [False, True])
def test_the_header_says_what_the_tokens_are(tmp_path: Path, wide: bool) -> None:
    ids = [7, 1, 2, 7, 7, 100000 if wide else 3]
    path = llmc_file(tmp_path / "a.bin", ids, wide)

    [found] = find(path, "llm.c", document_start=7)

    assert (found.name, found.kind, found.size) == ("a.bin", "llm.c", 1024 + len(ids) * (4 if wide else 2))
    for size in (1, 5, 100):
        assert read(found, size) == [[7, 1, 2], [7], [7, ids[-1]]]


def test_a_file_that_was_cut_is_an_error_and_so_is_one_that_is_too_long(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match=r"has 1030 bytes of the 1032 that its header says \(4 tokens\): it was cut"):
        find(llmc_file(tmp_path / "a.bin", [7, 1, 2], count=4), "llm.c", document_start=7)
    with pytest.raises(ConvertError, match=r"has 1030 bytes, and its header says 2 tokens, which are 1028 bytes"):
        find(llmc_file(tmp_path / "b.bin", [7, 1, 2], count=2), "llm.c", document_start=7)
    header = Path(llmc_file(tmp_path / "c.bin", [7, 1, 2])).read_bytes()[:100]
    (tmp_path / "c.bin").write_bytes(header)
    with pytest.raises(ReadError, match=r"has 100 bytes of the 1030"):
        find(tmp_path / "c.bin", "llm.c", document_start=7)


def test_a_negative_count_is_refused(tmp_path: Path) -> None:
    path = Path(llmc_file(tmp_path / "a.bin", [7]))
    raw = bytearray(path.read_bytes())
    raw[8:12] = b"\xff\xff\xff\xff"
    path.write_bytes(raw)

    with pytest.raises(ConvertError, match="its header says -1 tokens"):
        find(path, "llm.c", document_start=7)


def test_other_files_are_refused_by_what_they_are(tmp_path: Path) -> None:
    (tmp_path / "raw.bin").write_bytes(bytes(2000))
    (tmp_path / "short.bin").write_bytes(bytes(3))
    (tmp_path / "eval.bin").write_bytes((20240522).to_bytes(4, "little") + bytes(1020))

    for name in ("raw.bin", "short.bin"):
        with pytest.raises(ConvertError, match=r"is no file of llm\.c: .* 20240520 or 20240801"):
            find(tmp_path / name, "llm.c", document_start=7)
    with pytest.raises(ConvertError, match=r"eval\.bin is a file of multiple-choice questions"):
        find(tmp_path / "eval.bin", "llm.c", document_start=7)
    with pytest.raises(ConvertError, match="of version 2, and version 7 is read here"):
        find(llmc_file(tmp_path / "v.bin", [7], True, version=2), "llm.c", document_start=7)
    with pytest.raises(ConvertError, match="holds no tokens"):
        find(llmc_file(tmp_path / "e.bin", []), "llm.c", document_start=7)


def test_a_boundary_is_needed_and_the_type_must_not_contradict(tmp_path: Path) -> None:
    path = llmc_file(tmp_path / "a.bin", [7])

    with pytest.raises(ConvertError, match="does not say where its documents begin"):
        find(path, "llm.c")
    with pytest.raises(ConvertError, match="holds uint16, and the type given is uint32"):
        find(path, "llm.c", type="uint32", document_start=7)
    assert read(*find(path, "llm.c", type="uint16", document_start=7)) == [[7]]
