"""The id between documents: the same documents, whatever the stretches, the blocks and the size of the file."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from token_files import find, raw_file, read, split_ids

from flatmix.convert import imports
from flatmix.convert.imports import boundaries, documents
from flatmix.errors import ConvertError, ReadError


@pytest.fixture
def small_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boundaries, "RUN", 4)
    monkeypatch.setattr(documents, "RUN", 4)


@pytest.mark.usefixtures("small_runs")
@pytest.mark.parametrize("word", ["document_end", "document_start"])
@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
def test_documents_are_those_of_a_walk_over_all_tokens_whatever_the_stretches(
    tmp_path: Path, word: str, dtype: str
) -> None:
    @settings(max_examples=50)
    @given(ids=st.lists(st.integers(0, 3), min_size=1, max_size=40), size=st.integers(1, 100))
    def check(ids: list[int], size: int) -> None:
        ids = [*ids, 0] if 0 not in ids else ids
        path = raw_file(tmp_path / "ids.bin", ids, {"uint16": "<u2", "uint32": "<u4"}[dtype])
        [found] = find(path, "nanogpt", type=dtype, **{word: 0})
        whole = split_ids(ids, *((0, None) if word == "document_end" else (None, 0)))
        assert read(found, size) == whole
        for skip in range(len(whole) + 2):
            assert read(found, skip=skip) == whole[skip:]

    check()


@pytest.mark.usefixtures("small_runs")
def test_a_stretch_without_a_beginning_has_no_documents_and_one_reads_past_its_end(tmp_path: Path) -> None:
    [found] = find(raw_file(tmp_path / "a.bin", [*range(1, 12), 0, 5]), "nanogpt", type="uint16", document_end=0)

    assert list(imports.read_tokens(found, 4, 8, 0)) == []
    [run] = imports.read_tokens(found, 0, 4, 0)
    assert run.ids.tolist() == [*range(1, 12), 0]
    assert run.end == 24
    [last] = imports.read_tokens(found, 12, None, 0)
    assert last.ids.tolist() == [5]
    assert last.end == 2


def test_a_short_file_is_one_run(tmp_path: Path) -> None:
    [found] = find(raw_file(tmp_path / "a.bin", [1, 0, 0, 2, 3]), "nanogpt", type="uint16", document_end=0)

    [run] = imports.read_tokens(found, 0, None, 0)

    assert (run.lengths.tolist(), run.end) == ([2, 1, 2], 10)


def test_a_run_holds_about_a_million_tokens_or_one_longer_document(tmp_path: Path) -> None:
    ids = np.ones(2**22, "<u2")
    ids[[100, 2**20, 2**20 + 5, 3 * 2**20]] = 0
    ids.tofile(tmp_path / "a.bin")
    [found] = find(tmp_path / "a.bin", "nanogpt", type="uint16", document_end=0)

    lengths = [run.lengths.tolist() for run in imports.read_tokens(found, 0, None, 0)]

    assert lengths == [[101], [2**20 - 100, 5], [2**21 - 5], [2**20 - 1]]


@pytest.mark.parametrize("word", ["document_end", "document_start"])
def test_a_late_stretch_of_a_file_of_more_than_2_to_the_32_tokens_is_exact(tmp_path: Path, word: str) -> None:
    path, count = tmp_path / "large.bin", 2**32 + 2**21
    with path.open("wb") as file:
        file.truncate(2 * count)  # zeros, which take no place on the disk
        for place, token in ((2**32 + 3, 7), (2**32 + 10, 7), (count - 1, 9)):
            file.seek(2 * place)
            file.write(np.uint16(token).tobytes())
    [found] = find(path, "nanogpt", type="uint16", **{word: 7})
    stretches = imports.cut(found, 2**32)

    *rest, last = stretches
    assert last == (2**32, count, 2**22)
    assert rest == [(0, 2**31, 2**32), (2**31, 2**32, 2**32)]
    parts = list(imports.read_tokens(found, 2**32, count, 0))
    lengths = [length for run in parts for length in run.lengths.tolist()]
    after = word == "document_end"
    assert lengths == [7, count - 2**32 - 10 - after]
    assert parts[-1].ids[-1] == 9
    assert [parts[0].ids[0], parts[0].ids[6]] == ([0, 7] if after else [7, 0])


@pytest.mark.parametrize("word", ["document_end", "document_start"])
def test_a_short_file_without_the_boundary_is_refused_before_any_work(tmp_path: Path, word: str) -> None:
    path = raw_file(tmp_path / "a.bin", [5, 6, 7])

    with pytest.raises(ConvertError, match=rf"a\.bin does not hold the id 0, .* {word}, .* 3 tokens; .* are 5, 6, 7$"):
        find(path, "nanogpt", type="uint16", **{word: 0})


@pytest.mark.usefixtures("small_runs")
@pytest.mark.parametrize("word", ["document_end", "document_start"])
def test_a_long_file_without_the_boundary_is_refused_when_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str
) -> None:
    monkeypatch.setattr(boundaries, "SCANNED", 8)
    [found] = find(raw_file(tmp_path / "a.bin", range(1, 30)), "nanogpt", type="uint16", **{word: 0})

    assert read(find(raw_file(tmp_path / "b.bin", range(30)), "nanogpt", type="uint16", document_start=0)[0])
    with pytest.raises(ConvertError, match=r"does not hold the id 0, .* first ids are 1, 2, 3, 4, 5, 6, 7, 8, 9, 10$"):
        list(imports.read_tokens(found, 0, 10, 0))


@pytest.mark.usefixtures("small_runs")
def test_a_document_that_cannot_be_one_is_refused_with_its_number_and_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boundaries, "LONGEST", 10)
    ids = [1, 0, 2, 0, *[3] * 10, 0]
    [found] = find(raw_file(tmp_path / "a.bin", ids), "nanogpt", type="uint16", document_end=0)

    with pytest.raises(ConvertError, match=r"document 2 \(counted from 0\) would have 11 tokens, from token 4 on"):
        read(found)
    monkeypatch.setattr(boundaries, "LONGEST", 11)
    assert len(read(found)) == 3


@pytest.mark.usefixtures("small_runs")
@pytest.mark.parametrize("word", ["document_end", "document_start"])
def test_an_id_no_store_can_hold_is_named_with_its_document_in_any_stretch(tmp_path: Path, word: str) -> None:
    ids = [0, 1, 0, 1, 1, 0, 2**31, 0]
    [found] = find(raw_file(tmp_path / "a.bin", ids, "<u4"), "nanogpt", type="uint32", **{word: 0})
    number = 3 if word == "document_end" else 2
    text = rf"a\.bin: document {number} \(counted from 0\) has the id 2147483648 at token 6"

    for size in (1, 8, 100):
        with pytest.raises(ConvertError, match=text):
            read(found, size)


def test_a_file_that_became_shorter_is_an_error(tmp_path: Path) -> None:
    path = raw_file(tmp_path / "a.bin", [1, 2, 0, 3, 4, 0])
    [found] = find(path, "nanogpt", type="uint16", document_end=0)
    with Path(path).open("r+b") as file:
        file.truncate(7)

    with pytest.raises(ReadError, match=r"a\.bin has 7 bytes, and 12 at least belong to it"):
        read(found)
    Path(path).unlink()
    with pytest.raises(ReadError, match=r"a\.bin cannot be opened: No such file"):
        read(found)
