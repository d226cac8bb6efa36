"""Parquet files and saved data sets: each row once and in order whatever the cuts, broken ones told, nothing lost."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from table_files import save, strings, write_parquet

from flatmix.convert import tables
from flatmix.convert.inputs import Fields, Input, Record
from flatmix.errors import ConvertError, ReadError

TEXTS = ["the cat", "", "sat on", "पर", "a\x00b\n", "the end"]


def find(file: Path) -> Input:
    return tables.find_parquet(str(file), file.name)


def read(found: Input, size: int = 2**40, fields: Fields | None = None, skip: int = 0) -> list[Record]:
    """The records of all stretches, which must join; of each the first `skip` are left out."""
    records: list[Record] = []
    cuts = tables.cut(found, size)
    assert [one.start for one in cuts] == [0, *(one.stop for one in cuts[:-1])]
    for start, stop, size in cuts:
        stretch = list(tables.read_records(found, start, stop, fields or Fields(), skip))
        ends = [record.end for record in stretch]
        assert ends == sorted(ends)
        assert not ends or abs(ends[-1] - size) <= 1
        records += stretch
    return records


def texts(records: Sequence[Record]) -> list[str | None]:
    return [record.text for record in records]


def problems(records: Sequence[Record]) -> list[str | None]:
    return [record.problem for record in records]


# Rows


@pytest.mark.parametrize("group", [1, 3, 4, 100])
@pytest.mark.parametrize("size", [1, 50, 500, 2**40])
def test_rows_of_a_parquet_file_are_the_same_whatever_the_cuts(tmp_path: Path, group: int, size: int):
    expected = [f"{number} {'x' * (number % 7)}" for number in range(100)]
    file = write_parquet(tmp_path / "a.parquet", {"n": list(range(100)), "text": expected}, group)
    found = find(file)
    assert texts(read(found, size)) == expected
    assert found.options == {"rows": 100}
    assert (found.kind, found.name, found.path) == ("parquet", "a.parquet", str(file))
    assert found.size == file.stat().st_size


@pytest.mark.parametrize("kind", ["parquet", "saved"])
def test_the_first_records_of_a_stretch_can_be_left_out(tmp_path: Path, kind: str):
    columns = {"text": [str(number) for number in range(30)]}
    if kind == "saved":
        (found,) = tables.find_saved(str(save(tmp_path / "set", columns)), "train")
    else:
        found = find(write_parquet(tmp_path / "a.parquet", columns, 7))
    for start, stop in ((0, None), (0, 30), (5, 20), (14, 15), (8, 8)):
        stretch = list(tables.read_records(found, start, stop, Fields(), 0))
        assert texts(stretch) == columns["text"][start:stop]
        for skip in (0, 1, 9, len(stretch), len(stretch) + 3):
            assert list(tables.read_records(found, start, stop, Fields(), skip)) == stretch[skip:]


def test_a_file_without_rows_has_one_stretch_without_records(tmp_path: Path):
    found = find(write_parquet(tmp_path / "a.parquet", {"text": pa.array([], pa.string())}))
    assert len(tables.cut(found, 100)) == 1
    assert read(found) == []


def test_a_saved_data_set_without_rows_is_refused(tmp_path: Path):
    with pytest.raises(ConvertError, match="set: this saved data set has no rows"):
        tables.find_saved(str(save(tmp_path / "set", {"text": []})), "train")


@pytest.mark.parametrize(
    "kind",
    [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int32(), pa.string())],
    ids=str,
)
def test_all_kinds_of_strings_are_read(tmp_path: Path, kind: pa.DataType):
    values = pa.array([*TEXTS, None])
    column = values.dictionary_encode() if pa.types.is_dictionary(kind) else values.cast(kind)
    found = find(write_parquet(tmp_path / "a.parquet", {"text": column}))
    tables.check_columns(found, Fields())
    records = read(found)
    assert texts(records) == [*TEXTS, None]
    assert problems(records) == [None] * len(TEXTS) + ["its column 'text' is null"]


def test_languages_come_from_their_column_and_bad_ones_are_told(tmp_path: Path):
    languages = ["en", "hi", "", None, "a/b", "en"]
    file = write_parquet(tmp_path / "a.parquet", {"lang": languages, "body": [*TEXTS[:5], None], "n": [1] * 6})
    records = read(find(file), fields=Fields("body", "lang"))
    assert [(record.language, record.text) for record in records] == [
        ("en", "the cat"),
        ("hi", ""),
        *[(None, None)] * 4,
    ]
    empty, null, slash, text = problems(records)[2:]
    assert empty == "'' cannot name a language: it is empty"
    assert null == "its column 'lang' is null"
    assert slash is not None
    assert slash.startswith("'a/b' cannot name a language")
    assert text == "its column 'body' is null"


def test_bytes_that_are_no_utf8_are_a_problem_of_their_row_alone(tmp_path: Path):
    column = strings([b"one", b"tw\xffo", b"\xed\xa0\x80", None, b"five"])
    records = read(find(write_parquet(tmp_path / "a.parquet", {"text": column, "other": column})), size=1)
    assert texts(records) == ["one", None, None, None, "five"]
    assert problems(records) == [
        None,
        "its column 'text' is not UTF-8: byte 0xff at byte 2 (invalid start byte)",
        "its column 'text' is not UTF-8: byte 0xed at byte 0 (invalid continuation byte)",
        "its column 'text' is null",
        None,
    ]


def test_only_the_columns_that_are_needed_are_read(tmp_path: Path):
    """The pages of another may even be broken."""
    columns = {"text": ["one", "two"], "other": ["MARK" * 10] * 2}
    file = write_parquet(
        tmp_path / "a.parquet", columns, compression="none", use_dictionary=False, write_statistics=False
    )
    raw = file.read_bytes()
    at = raw.index(b"MARK")
    file.write_bytes(raw[: at - 4] + b"\xff" * 4 + raw[at:])
    found = find(file)
    assert texts(read(found)) == ["one", "two"]
    with pytest.raises(ReadError):
        read(found, fields=Fields("other"))


# What is not there, or broken


@pytest.mark.parametrize("kind", ["parquet", "saved"])
def test_columns_that_cannot_be_used_are_refused_with_those_that_are_there(tmp_path: Path, kind: str):
    columns = {"body": ["a"], "n": [1], "lang": ["en"]}
    if kind == "saved":
        (found,) = tables.find_saved(str(save(tmp_path / "set", columns)), "train")
    else:
        found = find(write_parquet(tmp_path / "a.parquet", columns))
    there = r"; the columns are 'body' \(string\), 'n' \(int64\), 'lang' \(string\)$"
    for fields, words in (
        (Fields(), r"there is no column 'text'; name the column of the text" + there),
        (Fields("n"), r"the column 'n' holds no strings but int64; name the column of the text" + there),
        (Fields("body", "x"), r"there is no column 'x'; name the column of the language" + there),
        (Fields("body", "n"), r"the column 'n' holds no strings but int64; name the column of the language" + there),
    ):
        with pytest.raises(ConvertError, match=words):
            tables.check_columns(found, fields)
        with pytest.raises(ConvertError, match=words):
            read(found, fields=fields)
    tables.check_columns(found, Fields("body", "lang"))


def test_a_column_that_is_there_twice_is_refused(tmp_path: Path):
    pq.write_table(pa.table([["a"], ["b"]], names=["text", "text"]), tmp_path / "a.parquet")
    with pytest.raises(ConvertError, match="there are 2 columns 'text'"):
        tables.check_columns(find(tmp_path / "a.parquet"), Fields())


@pytest.mark.parametrize("content", [b"", b"no table", "cut"], ids=["empty", "other", "cut"])
def test_what_is_no_whole_parquet_file_cannot_be_read(tmp_path: Path, content: Any):
    file = write_parquet(tmp_path / "a.parquet", {"text": TEXTS})
    file.write_bytes(file.read_bytes()[:-20] if content == "cut" else content)
    with pytest.raises(ReadError, match=r"a\.parquet cannot be read as a Parquet file; it was cut, or is another kind"):
        find(file)


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(ReadError, match=r"none\.parquet cannot be reached: "):
        find(tmp_path / "none.parquet")


def test_a_broken_page_is_told_with_the_rows_before_it(tmp_path: Path):
    """By its checksum, where the file has such."""
    columns = {"text": [f"MARK{number:04}" for number in range(4000)]}
    settings = {"compression": "none", "use_dictionary": False, "write_page_checksum": True, "write_statistics": False}
    file = write_parquet(tmp_path / "a.parquet", columns, 2000, **settings)
    raw = bytearray(file.read_bytes())
    raw[raw.index(b"MARK3000")] ^= 1
    file.write_bytes(raw)
    seen: list[Record] = []
    with pytest.raises(ReadError) as stopped:
        seen.extend(tables.read_records(find(file), 0, None, Fields(), 0))
    assert f"a.parquet cannot be read to its end, only up to row {len(seen)} (counted from 0): " in str(stopped.value)
    assert "checksum" in str(stopped.value)
    assert 0 < len(seen) <= 3000
    assert texts(seen) == columns["text"][: len(seen)]


def test_a_file_that_became_shorter_is_told(tmp_path: Path):
    file = write_parquet(tmp_path / "a.parquet", {"text": TEXTS})
    found = find(file)
    write_parquet(file, {"text": TEXTS[:2]})
    with pytest.raises(ReadError, match="has 2 rows and had 6 at least: it was changed"):
        list(tables.read_records(found, 0, 6, Fields(), 0))
    assert find(file).stamp != found.stamp


def test_a_file_at_an_address_is_read_and_not_cut_within_groups(tmp_path: Path):
    file = write_parquet(tmp_path / "a.parquet", {"text": TEXTS * 10}, 20)
    with fsspec.open("memory://texts/a.parquet", "wb") as out:
        out.write(file.read_bytes())
    found = tables.find_parquet("memory://texts/a.parquet", "a.parquet")
    assert (found.size, found.options) == (file.stat().st_size, {"rows": 60})
    assert [one.stop for one in tables.cut(found, 1)] == [20, 40, 60]
    assert texts(read(found, 1)) == TEXTS * 10
    tables.check_columns(found, Fields())
    with pytest.raises(ReadError, match=r"memory://texts/none\.parquet cannot be reached: "):
        tables.find_parquet("memory://texts/none.parquet", "none.parquet")


def test_without_the_libraries_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    file, folder = write_parquet(tmp_path / "a.parquet", {"text": TEXTS}), save(tmp_path / "set", {"text": TEXTS})
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ImportError, match=r"needs the library pyarrow \(pip install 'flatmix\[hf\]'\)"):
        find(file)
    with pytest.raises(ImportError, match=r"needs the library datasets \(pip install 'flatmix\[hf\]'\)"):
        tables.find_saved(str(folder), "train")


# Saved data sets


@pytest.mark.parametrize("kind", ["plain", "chosen", "formatted", "splits"])
def test_a_saved_data_set_is_read_in_its_sequence(tmp_path: Path, kind: str):
    folder = save(tmp_path / "set", {"n": list(range(60)), "text": TEXTS * 10}, kind)
    assert tables.is_saved(str(folder))
    (found,) = tables.find_saved(str(folder), "dev")
    assert (found.kind, found.options) == ("saved", {"rows": 60})
    assert found.name == ("set/dev" if kind == "splits" else "set")
    assert found.size > 0
    assert len(tables.cut(found, 500)) > 1
    assert texts(read(found, 500)) == TEXTS * 10


def test_nulls_of_a_saved_data_set_are_problems(tmp_path: Path):
    (found,) = tables.find_saved(str(save(tmp_path / "set", {"text": ["a", None, ""]})), "train")
    assert problems(read(found)) == [None, "its column 'text' is null", None]


def test_a_split_that_was_not_saved_is_answered_with_those_that_were(tmp_path: Path):
    folder = save(tmp_path / "set", {"text": TEXTS}, "splits")
    with pytest.raises(
        ConvertError, match=r"there is no split 'test' in this saved data set; its splits are 'train', 'dev'$"
    ):
        tables.find_saved(str(folder), "test")


def test_other_folders_are_no_saved_data_sets(tmp_path: Path):
    (tmp_path / "state.json").write_text("{}")
    assert not tables.is_saved(str(tmp_path))
    assert not tables.is_saved(str(tmp_path / "none"))


def test_the_stamp_of_a_saved_data_set_tells_another_content(tmp_path: Path):
    stamps = [
        tables.find_saved(str(save(tmp_path / name, {"text": values})), "train")[0].stamp
        for name, values in (("a", ["a"]), ("b", ["b"]), ("c", ["a"]))
    ]
    assert stamps[0] == stamps[2] != stamps[1]


def test_a_saved_data_set_without_its_files_cannot_be_read(tmp_path: Path):
    folder = save(tmp_path / "set", {"text": TEXTS})
    (found,) = tables.find_saved(str(folder), "train")
    (arrow,) = folder.glob("*.arrow")
    arrow.unlink()
    with pytest.raises(ReadError, match="set cannot be read as a saved data set: FileNotFoundError"):
        tables.find_saved(str(folder), "train")
    with pytest.raises(ReadError, match="set cannot be read as a saved data set: FileNotFoundError"):
        read(found)
