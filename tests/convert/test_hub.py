"""Data sets by name: their parts in sequence, streamed or downloaded, always of one commit, and what is not there."""

import json
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from table_files import strings, write_parquet

from flatmix.convert import hub, tables
from flatmix.convert.inputs import Fields, Input, Record
from flatmix.errors import ConvertError, ReadError

CARD = """---
configs:
- config_name: hi
  data_files:
  - split: train
    path: hi/train-*
  - split: dev
    path: hi/dev-*
- config_name: ru
  data_files: ru/*
---
"""
PARTS = [["a0", "", "a2"], ["b0"], ["c0", "पर"]]
ALL = [text for part in PARTS for text in part]
COMMIT = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture(autouse=True)
def _quiet():
    import datasets

    datasets.disable_progress_bars()


def write_lines(file: Path, texts: Sequence[Any], **fields: Any) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps({"text": text, "n": number, **fields}) for number, text in enumerate(texts))
    file.write_text("".join(line + "\n" for line in lines), encoding="utf-8")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Two configurations, of which one has two splits, and its "train" three parts."""
    folder = tmp_path / "texts"
    for number, part in enumerate(PARTS):
        write_lines(folder / "hi" / f"train-{number}.jsonl", part, lang="hi")
    write_lines(folder / "hi" / "dev-0.jsonl", ["dev"], lang="hi")
    write_lines(folder / "ru" / "only.jsonl", ["да", "нет"], lang="ru")
    (folder / "README.md").write_text(CARD)
    return folder


class Hub:
    """Stands in for the hub, which has `folder` under any name, and hands out one commit of it."""

    def __init__(self, folder: Path):
        import datasets

        self.folder, self.head = folder, COMMIT
        self.asked: list[tuple[str, str | None, str | None]] = []
        self._build = datasets.load_dataset_builder

    def build(self, name: str, config: str | None = None, revision: str | None = None) -> Any:
        self.asked.append((name, config, revision))
        builder = self._build(str(self.folder), config, cache_dir=str(self.folder.parent / "cache"))
        builder.hash = revision or self.head
        return builder


@pytest.fixture
def there(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    hub._pinned_stream.cache_clear()
    there = Hub(folder)
    monkeypatch.setattr("datasets.load_dataset_builder", there.build)
    return there


def read(found: Sequence[Input], size: int = 2**40, fields: Fields | None = None, skip: int = 0) -> list[Record]:
    """The records of all inputs, stretch by stretch."""
    return [
        record
        for one in found
        for start, stop, _ in tables.cut(one, size)
        for record in tables.read_records(one, start, stop, fields or Fields(), skip)
    ]


def texts(records: Sequence[Record]) -> list[str | None]:
    return [record.text for record in records]


def find(spec: str, split: str = "train", fields: Fields | None = None, download: bool = False) -> list[Input]:
    return hub.find_hub(spec, split, fields or Fields(), download)


# What there is


def test_each_part_of_a_stream_is_an_input(folder: Path):
    found = find(f"hf:{folder}:hi")
    assert [one.name for one in found] == [f"texts/hi/train/{number:05}-of-00003" for number in range(3)]
    assert {(one.kind, one.size) for one in found} == {("hub-stream", 0)}
    assert [texts(read([one])) for one in found] == PARTS
    assert [tuple(one) for one in tables.cut(found[0], 1)] == [(0, None, 0)]


def test_the_split_of_a_name_goes_before_the_one_that_is_written(folder: Path):
    assert texts(read(find(f"hf:{folder}:hi", "dev"))) == ["dev"]
    (dev,) = find(f"hf:{folder}:hi:dev", "train")
    assert dev.name == "texts/hi/dev"
    assert texts(read([dev])) == ["dev"]


def test_a_data_set_without_configurations_needs_none(tmp_path: Path):
    write_lines(tmp_path / "plain" / "train.jsonl", ["one"])
    write_lines(tmp_path / "plain" / "test.jsonl", ["two"])
    (found,) = find(f"hf:{tmp_path / 'plain'}::test")
    assert found.name == "plain/test"
    assert texts(read([found])) == ["two"]


def test_the_language_of_each_row_is_read(folder: Path):
    records = read(find(f"hf:{folder}:ru", fields=Fields("text", "lang")), fields=Fields("text", "lang"))
    assert [(record.language, record.text) for record in records] == [("ru", "да"), ("ru", "нет")]


def test_the_first_records_of_a_part_can_be_left_out(tmp_path: Path):
    expected = [str(number) for number in range(600)]
    write_lines(tmp_path / "many" / "train.jsonl", expected)
    found = find(f"hf:{tmp_path / 'many'}")
    records = read(found)
    assert texts(records) == expected
    ends = [record.end for record in records]
    assert ends == sorted(ends)
    assert ends[-1] >= sum(map(len, expected))
    for skip in (1, 255, 256, 257, 599, 600, 700):
        assert texts(read(found, skip=skip)) == expected[skip:]


def test_a_downloaded_data_set_is_read_in_rows(there: Hub):
    """From the cache: the files that it came from are not needed any more."""
    (found,) = find("hf:some/texts:hi", download=True)
    assert (found.kind, found.name, found.stamp) == ("hub-rows", "some/texts/hi/train", COMMIT)
    assert (found.options["rows"], found.options["revision"]) == (6, COMMIT)
    assert found.size > 0
    shutil.rmtree(there.folder)
    assert len(tables.cut(found, 1)) == 6
    for size in (1, found.size // 2, 2**40):
        assert texts(read([found], size)) == ALL


def test_each_file_of_the_cache_is_an_input(there: Hub, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("datasets.config.MAX_SHARD_SIZE", 1)
    found = find("hf:some/texts:hi", download=True)
    count = len(found)
    assert count > 1
    assert [one.name for one in found] == [f"some/texts/hi/train/{number:05}-of-{count:05}" for number in range(count)]
    assert sum(one.options["rows"] for one in found) == len(ALL)
    assert texts(read(found)) == ALL


def test_a_folder_is_streamed_even_where_a_download_is_asked_for(folder: Path):
    """In the cache it could be mistaken for another of the same name."""
    found = find(f"hf:{folder}:hi", download=True)
    assert {one.kind for one in found} == {"hub-stream"}
    assert texts(read(found)) == ALL


@pytest.mark.parametrize("download", [False, True])
def test_a_null_is_a_problem_of_its_row(there: Hub, download: bool):
    write_lines(there.folder / "hi" / "train-1.jsonl", ["b0", None, "b2"], lang="hi")
    records = read(find("hf:some/texts:hi", download=download))
    assert texts(records) == [*PARTS[0], "b0", None, "b2", *PARTS[2]]
    assert records[4].problem == "its column 'text' is null"


def test_bytes_that_are_no_utf8_are_a_problem_of_their_row_in_a_stream(tmp_path: Path):
    (tmp_path / "bytes").mkdir()
    write_parquet(tmp_path / "bytes" / "train.parquet", {"text": strings([b"one", b"\xff", b"three"]), "n": [1, 2, 3]})
    records = read(find(f"hf:{tmp_path / 'bytes'}"))
    assert texts(records) == ["one", None, "three"]
    assert records[1].problem == "its column 'text' is not UTF-8: byte 0xff at byte 0 (invalid start byte)"


def test_columns_that_are_not_known_beforehand_are_read(tmp_path: Path):
    """Those of plain text are not: each line is a row."""
    (tmp_path / "plain").mkdir()
    (tmp_path / "plain" / "train.txt").write_text("one\ntwo\n")
    assert texts(read(find(f"hf:{tmp_path / 'plain'}"))) == ["one", "two"]
    with pytest.raises(ConvertError, match=r"there is no column 'body'; .*; the columns are 'text' \(string\)$"):
        find(f"hf:{tmp_path / 'plain'}", fields=Fields("body"))


# One commit


def test_the_commit_that_was_found_is_read_by_all(there: Hub):
    """Also after the hub has a later one."""
    found = find("hf:some/texts:hi")
    assert [one.name for one in found] == [f"some/texts/hi/train/{number:05}-of-00003" for number in range(3)]
    assert {one.stamp for one in found} == {COMMIT}
    assert {one.options["revision"] for one in found} == {COMMIT}

    there.head, asked = COMMIT[::-1], len(there.asked)
    assert texts(read(found)) == ALL
    assert set(there.asked[asked:]) == {("some/texts", "hi", COMMIT)}
    assert find("hf:some/texts:hi")[0].stamp == there.head


def test_a_folder_has_no_commit_and_its_stamp_follows_its_files(folder: Path):
    found = find(f"hf:{folder}:hi")
    assert found[0].options["revision"] is None
    write_lines(folder / "hi" / "train-0.jsonl", ["another"])
    again = find(f"hf:{folder}:hi")
    assert again[0].name == found[0].name
    assert again[0].stamp != found[0].stamp


def test_parts_that_came_since_are_told(folder: Path):
    found = find(f"hf:{folder}:hi")
    write_lines(folder / "hi" / "train-3.jsonl", ["more"], lang="hi")
    with pytest.raises(ReadError, match="has 4 parts and had 3: it was changed"):
        read(found)


# What is not there, or broken


@pytest.mark.parametrize("download", [False, True])
def test_a_split_that_is_not_there_is_answered_with_those_that_are(there: Hub, download: bool):
    with pytest.raises(ConvertError, match=r"there is no split 'test'; the data set has 'train', 'dev': name one"):
        find("hf:some/texts:hi", "test", download=download)


@pytest.mark.parametrize("download", [False, True])
def test_a_column_that_is_not_there_is_answered_with_those_that_are(there: Hub, download: bool):
    with pytest.raises(
        ConvertError, match=r"texts:hi: there is no column 'body'; .*; the columns are 'text' \(string\), 'n' \(int64\)"
    ):
        find("hf:some/texts:hi", fields=Fields("body"), download=download)
    with pytest.raises(
        ConvertError, match="the column 'n' holds no strings but int64; name the column of the language"
    ):
        find("hf:some/texts:hi", fields=Fields("text", "n"), download=download)


def test_a_configuration_that_is_not_there_is_answered_with_those_that_are(folder: Path):
    with pytest.raises(ConvertError, match=r"texts:no cannot be used: ValueError: .*'no' not found.*'hi', 'ru'"):
        find(f"hf:{folder}:no")
    with pytest.raises(ConvertError, match=r"(?s)texts cannot be used: ValueError: Config name is missing.*'hi', 'ru'"):
        find(f"hf:{folder}")


def test_a_data_set_that_is_not_there_and_a_hub_that_is_not(tmp_path: Path):
    with pytest.raises(ConvertError, match="none cannot be used: FileNotFoundError"):
        find(f"hf:{tmp_path / 'none'}")
    with pytest.raises(ReadError, match=r"hf:some/where:en cannot be opened: ConnectionError: .* \(check the network"):
        find("hf:some/where:en")


@pytest.mark.parametrize("spec", ["hf:", "hf::en", "some/where"])
def test_what_names_no_data_set_is_refused(spec: str):
    with pytest.raises(ConvertError, match="names no data set; write hf:NAME, hf:NAME:CONFIG or hf:NAME:CONFIG:SPLIT"):
        find(spec)


def test_a_stream_that_breaks_off_is_told_with_the_rows_before_it(folder: Path):
    found = find(f"hf:{folder}:hi")
    (folder / "hi" / "train-1.jsonl").write_text('{"text": "b0", "n": 0, "lang": "hi"}\n{"text": ')
    assert texts(read(found[:1])) == PARTS[0]
    with pytest.raises(ReadError, match=r"texts/hi/train/00001-of-00003 cannot be read to its end, only up to row 0 "):
        read(found[1:2])


def test_a_download_that_fails_is_told(there: Hub):
    (there.folder / "hi" / "train-1.jsonl").write_text('{"text": "b0", "n": 0, "lang": "hi"}\n{"text": ')
    with pytest.raises(ReadError, match="hf:some/texts:hi cannot be downloaded: DatasetGenerationError"):
        find("hf:some/texts:hi", download=True)


def test_without_the_library_the_extra_is_named(folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(ImportError, match=r"needs the library datasets \(pip install 'flatmix\[hf\]'\)"):
        find(f"hf:{folder}:hi")
