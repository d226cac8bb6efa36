"""Which files a pattern names, in which order, and under which names they are kept."""

import os
from pathlib import Path

import pytest

from flatmix.convert.sources import find_source
from flatmix.errors import ConvertError


def make_files(folder: Path, *names: str) -> Path:
    for name in names:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    return folder


def test_files_of_a_folder_are_sorted_by_name_whatever_the_order_they_were_made_in(tmp_path):
    one = make_files(tmp_path / "one", "b.jsonl", "a.jsonl", "sub/d.jsonl", "c.jsonl")
    two = make_files(tmp_path / "two", "c.jsonl", "sub/d.jsonl", "a.jsonl", "b.jsonl")

    expected = ("a.jsonl", "b.jsonl", "c.jsonl", "sub/d.jsonl")
    assert find_source("en", [one]).names == expected
    assert find_source("en", [two]).names == expected
    assert find_source("en", [one]).data == find_source("en", [two]).data


def test_order_does_not_follow_the_listing(tmp_path, monkeypatch):
    """Even where the file system lists names backwards."""
    make_files(tmp_path, "b.jsonl", "a.jsonl", "c.jsonl")
    listed = Path.rglob
    monkeypatch.setattr(Path, "rglob", lambda self, pattern: sorted(listed(self, pattern), reverse=True))

    assert find_source("en", [tmp_path]).names == ("a.jsonl", "b.jsonl", "c.jsonl")


def test_a_glob_is_sorted_and_several_patterns_keep_their_order(tmp_path):
    make_files(tmp_path, "x/b.jsonl", "x/a.jsonl", "w.txt", "x/notes.md")

    source = find_source("en", [tmp_path / "x" / "*.jsonl", tmp_path / "w.txt"])

    assert source.names == ("x/a.jsonl", "x/b.jsonl", "w.txt")
    assert source.data == "*.jsonl, w.txt"


def test_names_do_not_tell_where_the_input_lies(tmp_path):
    make_files(tmp_path / "deep" / "down", "en/a.jsonl", "more/b.jsonl")

    source = find_source("en", [tmp_path / "deep/down/en", tmp_path / "deep/down/more/b.jsonl"])

    assert source.names == ("en/a.jsonl", "more/b.jsonl")
    assert source.data == "*, b.jsonl"


def test_hidden_files_are_passed_over(tmp_path):
    make_files(tmp_path, ".DS_Store", ".cache/x.jsonl", "a.jsonl")

    assert find_source("en", [tmp_path]).names == ("a.jsonl",)


def test_a_file_whose_name_looks_like_a_glob_is_that_file(tmp_path):
    make_files(tmp_path, "a[1].jsonl", "a1.jsonl")

    assert find_source("en", [tmp_path / "a[1].jsonl"]).names == ("a[1].jsonl",)


def test_a_relative_path_is_taken_from_the_working_folder(tmp_path, monkeypatch):
    make_files(tmp_path, "data/a.jsonl")
    monkeypatch.chdir(tmp_path)

    assert find_source("en", ["data"]).files == (Path("data/a.jsonl"),)
    assert find_source("en", ["data/*.jsonl"]).names == ("a.jsonl",)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("nothing", r"nothing: there is no such file or folder"),
        ("*.jsonl", r"\*\.jsonl: no file is there to convert"),
        ("empty", r"empty: no file is there to convert"),
    ],
)
def test_a_pattern_without_files_is_refused(tmp_path, pattern, message):
    (tmp_path / "empty").mkdir()

    with pytest.raises(ConvertError, match=message):
        find_source("en", [tmp_path / pattern])


def test_other_kinds_of_file_are_refused_with_the_kinds_that_can_be_read(tmp_path):
    make_files(tmp_path, "a/a.jsonl", "a/README", "part.parquet")

    with pytest.raises(ConvertError, match=r"README: files of kind \(none\) cannot be converted"):
        find_source("en", [tmp_path / "a"])
    with pytest.raises(ConvertError, match=r"part\.parquet: files of kind \.parquet .*\.jsonl, .*\.txt"):
        find_source("en", [tmp_path / "part.parquet"])


def test_a_file_named_twice_is_refused(tmp_path):
    make_files(tmp_path, "a.jsonl")

    with pytest.raises(ConvertError, match=r"a\.jsonl is named twice for 'en'"):
        find_source("en", [tmp_path, tmp_path / "*.jsonl"])


def test_plain_text_cannot_name_its_language(tmp_path):
    make_files(tmp_path, "a.txt")

    with pytest.raises(ConvertError, match=r"a\.txt: plain text has no field that names its language"):
        find_source(None, [tmp_path])


@pytest.mark.skipif(os.name != "posix", reason="only there can a name be no text")
def test_a_name_that_is_not_utf8_is_refused(tmp_path):
    make_files(tmp_path, os.fsdecode(b"\xff.jsonl"))

    with pytest.raises(ConvertError, match="is not UTF-8"):
        find_source("en", [tmp_path])
