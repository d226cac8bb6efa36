"""What is refused before anything is written, and that nothing is."""

import os
from pathlib import Path

import pytest
from converted import files_of, read_documents, save_words, utf8, write_lines

from flatmix.convert import convert
from flatmix.errors import ConvertError
from flatmix.store.writer import SplitWriter


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "texts.jsonl", ["a", "b"])


def leave_incomplete(store: Path, language: str, split: str) -> None:
    with SplitWriter(store, language, split):
        pass


def test_a_split_that_is_there_is_refused_unless_it_is_to_be_replaced(tmp_path, texts):
    convert(tmp_path / "s.zarr", {"en": texts})
    before = files_of(tmp_path / "s.zarr")

    with pytest.raises(ConvertError, match="has en/train already; give another --split, or --replace"):
        convert(tmp_path / "s.zarr", {"ar": texts, "en": texts})
    assert files_of(tmp_path / "s.zarr") == before

    convert(tmp_path / "s.zarr", {"en": write_lines(tmp_path / "new.jsonl", ["new"])}, replace=True)
    assert read_documents(tmp_path / "s.zarr", "en") == utf8("new")


def test_an_incomplete_split_is_refused_in_words_and_can_be_replaced(tmp_path, texts):
    leave_incomplete(tmp_path / "s.zarr", "en", "train")

    with pytest.raises(ConvertError, match="has en/train already, though not complete"):
        convert(tmp_path / "s.zarr", {"en": texts})

    convert(tmp_path / "s.zarr", {"en": texts}, replace=True)
    assert read_documents(tmp_path / "s.zarr", "en") == utf8("a", "b")


@pytest.mark.parametrize("replace", [False, True])
def test_a_folder_that_is_not_ours_is_refused_and_nothing_in_it_is_touched(tmp_path, texts, replace):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/notes.txt").write_text("notes")

    with pytest.raises(ConvertError, match="mine is there and cannot be added to, nothing in it was touched"):
        convert(tmp_path / "mine", {"en": texts}, replace=replace)

    assert files_of(tmp_path / "mine") == {"notes.txt": b"notes"}


@pytest.mark.parametrize("place", ["ar", "en/validation"])
def test_a_foreign_folder_inside_a_store_is_refused_before_others_are_written(tmp_path, texts, place):
    convert(tmp_path / "s.zarr", {"en": texts})
    (tmp_path / "s.zarr" / place).mkdir()
    (tmp_path / "s.zarr" / place / "notes.txt").write_text("notes")
    before = files_of(tmp_path / "s.zarr")

    with pytest.raises(ConvertError, match="is there and is not ours"):
        convert(tmp_path / "s.zarr", {"de": texts, "ar": texts, "en": texts}, "validation", replace=True)

    assert files_of(tmp_path / "s.zarr") == before


def test_an_empty_folder_is_taken(tmp_path, texts):
    (tmp_path / "s.zarr").mkdir()

    convert(tmp_path / "s.zarr", {"en": texts})

    assert read_documents(tmp_path / "s.zarr", "en") == utf8("a", "b")


def test_a_place_that_can_be_no_store_is_refused(tmp_path, texts):
    with pytest.raises(ConvertError, match=r"texts\.jsonl is a file, and the store is a folder"):
        convert(texts, {"en": texts})
    with pytest.raises(ConvertError, match=r"texts\.jsonl is a file"):
        convert(texts / "s.zarr", {"en": texts})
    with pytest.raises(ValueError, match="only local folders"):
        convert("s3://bucket/s.zarr", {"en": texts})


def test_a_folder_without_the_right_to_write_is_refused(tmp_path, texts, monkeypatch):
    """Root has the right everywhere, so the system's answer is replaced."""
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "locked")
    (tmp_path / "locked").mkdir(mode=0o500)

    with pytest.raises(ConvertError, match="locked cannot be written to"):
        convert(tmp_path / "locked/s.zarr", {"en": texts})
    assert list((tmp_path / "locked").iterdir()) == []


def test_no_documents_at_all_is_an_error_and_leaves_nothing(tmp_path):
    (tmp_path / "empty.jsonl").write_text("\n\n")
    (tmp_path / "bad.jsonl").write_text("{}\n{}\n")

    with pytest.raises(ConvertError, match="the input of en holds no document; nothing was written"):
        convert(tmp_path / "s.zarr", {"en": tmp_path / "empty.jsonl"})
    with pytest.raises(ConvertError, match="the input holds no document"):
        convert(tmp_path / "s.zarr", tmp_path / "empty.jsonl", language_field="lang")
    with pytest.raises(ConvertError, match=r"of en holds no document \(bad records left out: 2\)"):
        convert(tmp_path / "s.zarr", {"en": tmp_path / "bad.jsonl"}, skip_bad=True)

    assert not (tmp_path / "s.zarr").exists()


def test_a_language_without_documents_is_named_before_the_others_are_written(tmp_path, texts):
    (tmp_path / "empty.jsonl").write_text("")

    with pytest.raises(ConvertError, match="the input of sw holds no document"):
        convert(tmp_path / "s.zarr", {"en": texts, "sw": tmp_path / "empty.jsonl"})

    assert not (tmp_path / "s.zarr").exists()


def test_a_store_holds_the_tokens_of_one_tokenizer(tmp_path, texts):
    words = save_words(tmp_path)
    convert(tmp_path / "s.zarr", {"en": texts}, tokenizer=words)
    before = files_of(tmp_path / "s.zarr")

    for options in ({"tokenizer": "bytes"}, {"tokenizer": words, "end_token": 5}):
        with pytest.raises(ConvertError, match=r"en/train was made with words\.json \(sha256 .*, this conversion uses"):
            convert(tmp_path / "s.zarr", {"ar": texts}, **options)
        with pytest.raises(ConvertError, match=r"en/train was made with"):
            convert(tmp_path / "s.zarr", {"en": texts}, "validation", **options)
    assert files_of(tmp_path / "s.zarr") == before

    copy = tmp_path / "copy.json"
    copy.write_bytes(words.read_bytes())
    convert(tmp_path / "s.zarr", {"ar": texts}, tokenizer=copy)


@pytest.mark.parametrize("there", [2, 3])
def test_a_store_is_of_one_version_of_zarr(tmp_path, texts, there):
    convert(tmp_path / "s.zarr", {"en": texts}, zarr_format=there)
    before = files_of(tmp_path / "s.zarr")

    for language, replace in (("sw", False), ("en", True)):
        with pytest.raises(
            ConvertError, match=rf"s\.zarr is of Zarr v{there}, and a store is of one .*: ask for --zarr-format {there}"
        ):
            convert(tmp_path / "s.zarr", {language: texts}, replace=replace, zarr_format=5 - there)
    with pytest.raises(ValueError, match="zarr_format must be 3, or 2 for readers that know no other, not 4"):
        convert(tmp_path / "s.zarr", {"sw": texts}, zarr_format=4)

    assert files_of(tmp_path / "s.zarr") == before


def test_an_older_store_is_not_added_to(tmp_path, texts):
    from older_stores import older_store

    path = older_store(tmp_path / "old.zarr", {"train": [[1, 2]]})
    before = files_of(path)

    with pytest.raises(ConvertError, match=r"cannot be added to, nothing in it was touched: .* is an older store"):
        convert(path, {"en": texts}, "validation", zarr_format=2)
    assert files_of(path) == before


def test_the_tokenizer_may_change_where_all_splits_are_replaced(tmp_path, texts):
    convert(tmp_path / "s.zarr", {"en": texts})

    convert(tmp_path / "s.zarr", {"en": texts}, end_token=0, replace=True)

    assert read_documents(tmp_path / "s.zarr", "en") == [[97, 0], [98, 0]]


def test_splits_of_an_unknown_tokenizer_and_incomplete_ones_do_not_stand_in_the_way(tmp_path, texts):
    with SplitWriter(tmp_path / "s.zarr", "en", "train") as writer:
        writer.add([1, 2])
        writer.finish()
    leave_incomplete(tmp_path / "s.zarr", "en", "validation")

    convert(tmp_path / "s.zarr", {"ar": texts})

    assert read_documents(tmp_path / "s.zarr", "ar") == utf8("a", "b")


@pytest.mark.parametrize("name", ["", "a/b", "train", "validation", "e\u0301", ".en", "zarr.json"])
def test_a_language_that_can_be_no_name_is_refused(tmp_path, texts, name):
    with pytest.raises(ValueError, match="cannot name a language"):
        convert(tmp_path / "s.zarr", {"en": texts, name: texts})
    assert not (tmp_path / "s.zarr").exists()


def test_a_split_that_can_be_no_name_is_refused(tmp_path, texts):
    with pytest.raises(ValueError, match="'a/b' cannot name a split"):
        convert(tmp_path / "s.zarr", {"en": texts}, "a/b")


def test_names_that_differ_only_in_case_are_refused(tmp_path, texts):
    with pytest.raises(ConvertError, match="languages 'EN' and 'en' differ only in case"):
        convert(tmp_path / "s.zarr", {"en": texts, "EN": texts})
    mixed = write_lines(tmp_path / "mixed.jsonl", ["a"], lang="en")
    with mixed.open("a") as more:
        more.write('{"text": "b", "lang": "EN"}\n')
    with pytest.raises(ConvertError, match="languages 'EN' and 'en'"):
        convert(tmp_path / "s.zarr", mixed, language_field="lang")

    convert(tmp_path / "s.zarr", {"en": texts})
    with pytest.raises(ConvertError, match="languages 'EN' and 'en'"):
        convert(tmp_path / "s.zarr", {"EN": texts})
    with pytest.raises(ConvertError, match="splits 'Train' and 'train'"):
        convert(tmp_path / "s.zarr", {"en": texts}, "Train")


def test_languages_found_in_records_are_checked_like_named_ones(tmp_path, texts):
    convert(tmp_path / "s.zarr", {"en": texts})
    before = files_of(tmp_path / "s.zarr")

    with pytest.raises(ConvertError, match="has en/train already"):
        convert(tmp_path / "s.zarr", write_lines(tmp_path / "m.jsonl", ["a"], lang="en"), language_field="lang")

    assert files_of(tmp_path / "s.zarr") == before


def test_sources_must_name_languages_in_one_way(tmp_path, texts):
    with pytest.raises(ConvertError, match="not both"):
        convert(tmp_path / "s.zarr", {"en": texts}, language_field="lang")
    with pytest.raises(ConvertError, match="which language is"):
        convert(tmp_path / "s.zarr", texts)
    for nothing in ({}, {"en": []}):
        with pytest.raises(ConvertError, match="nothing to convert"):
            convert(tmp_path / "s.zarr", nothing)


def test_a_file_of_another_kind_is_refused_before_the_first_is_read(tmp_path):
    (tmp_path / "a.jsonl").write_text("broken")
    (tmp_path / "b.parquet").write_bytes(b"PAR1")

    with pytest.raises(ConvertError, match=r"b\.parquet: files of kind \.parquet cannot be converted"):
        convert(tmp_path / "s.zarr", {"en": tmp_path / "a.jsonl", "ar": tmp_path / "b.parquet"})


def test_a_file_of_two_languages_is_refused(tmp_path, texts):
    (tmp_path / "link.jsonl").symlink_to(texts)
    for other in ("texts.jsonl", "link.jsonl"):
        with pytest.raises(ConvertError, match=rf"{other} is named for 'en' and for 'ar'; a file is of one language"):
            convert(tmp_path / "s.zarr", {"en": texts, "ar": tmp_path / other})
    assert not (tmp_path / "s.zarr").exists()


@pytest.mark.parametrize("store", ["in/s.zarr", "in/sub/deep/s.zarr", "link/s.zarr"])
def test_a_store_in_its_own_input_is_refused_on_the_first_run(tmp_path, store):
    write_lines(tmp_path / "in/sub/a.jsonl", ["a"])
    (tmp_path / "link").symlink_to(tmp_path / "in")
    before = files_of(tmp_path)

    with pytest.raises(ConvertError, match=r"the store .* would lie in .*/in, which is its input; choose another"):
        convert(tmp_path / store, {"en": tmp_path / "in"})
    assert files_of(tmp_path) == before
    convert(tmp_path / "in.zarr", {"en": tmp_path / "in"})


def test_input_in_the_store_is_refused(tmp_path, texts):
    convert(tmp_path / "s.zarr", {"en": texts})

    with pytest.raises(ConvertError, match=r"the input .*zarr\.json lies in the store .*s\.zarr; choose another place"):
        convert(tmp_path / "s.zarr", {"ar": tmp_path / "s.zarr/zarr.json"})


@pytest.mark.parametrize("replace", [False, True])
def test_a_split_that_is_being_written_is_refused_at_once(tmp_path, texts, monkeypatch, replace):
    """And not said to want --replace; nor is another language that the first has completed meanwhile."""
    from flatmix.convert import plan

    convert(tmp_path / "s.zarr", {"ar": texts})
    monkeypatch.setattr(plan, "_count", None)  # what comes after the look at the store
    busy = r"s\.zarr: en/train is being written by another process; wait until it is done"
    with SplitWriter(tmp_path / "s.zarr", "en", "train") as writer:
        for sources in ({"en": texts}, {"ar": texts, "en": texts}):
            with pytest.raises(ConvertError, match=busy):
                convert(tmp_path / "s.zarr", sources, replace=replace)
        writer.finish()
    with SplitWriter(tmp_path / "s.zarr", "en", "train", replace=True), pytest.raises(ConvertError, match=busy):
        convert(tmp_path / "s.zarr", {"en": texts}, replace=replace)
