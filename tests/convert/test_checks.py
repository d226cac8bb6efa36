"""What stands against a conversion at the place it would write to is said before anything is made, and nothing is."""

import os
from pathlib import Path

import pytest
from converted import files_of, read_documents, save_words, utf8, write_lines

from flatmix.convert import SourceSpec, convert
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
    before = files_of(tmp_path)

    with pytest.raises(ConvertError, match="has en/train already; give another --split, or --replace"):
        convert(tmp_path / "s.zarr", {"ar": texts, "en": write_lines(tmp_path / "new.jsonl", ["new"])})
    assert files_of(tmp_path) == before | {"new.jsonl": (tmp_path / "new.jsonl").read_bytes()}

    convert(tmp_path / "s.zarr", {"en": tmp_path / "new.jsonl"}, replace=True)
    assert read_documents(tmp_path / "s.zarr", "en") == utf8("new")


def test_a_split_that_is_to_be_held_out_may_be_there_as_little(tmp_path, texts):
    convert(tmp_path / "s.zarr", {"en/dev": texts})

    with pytest.raises(ConvertError, match="has en/dev already"):
        convert(tmp_path / "s.zarr", {"en": texts}, hold_out={"dev": 0.1})


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
    before = files_of(tmp_path)

    sources = {name: write_lines(tmp_path / f"{name}.jsonl", ["a"]) for name in ("de", "ar", "en")}
    with pytest.raises(ConvertError, match="is there and is not ours"):
        convert(tmp_path / "s.zarr", sources, "validation", replace=True)

    assert files_of(tmp_path) == before | {f"{name}.jsonl": path.read_bytes() for name, path in sources.items()}


def test_an_empty_folder_is_taken(tmp_path, texts):
    (tmp_path / "s.zarr").mkdir()

    convert(tmp_path / "s.zarr", {"en": texts})

    assert read_documents(tmp_path / "s.zarr", "en") == utf8("a", "b")


def test_a_place_that_can_be_no_store_is_refused(tmp_path, texts):
    with pytest.raises(ConvertError, match=r"texts\.jsonl is a file, and the store is a folder"):
        convert(texts, {"en": write_lines(tmp_path / "other.jsonl", ["a"])})
    with pytest.raises(ConvertError, match=r"texts\.jsonl is a file"):
        convert(texts / "s.zarr", {"en": tmp_path / "other.jsonl"})
    with pytest.raises(ValueError, match="only local folders"):
        convert("s3://bucket/s.zarr", {"en": texts})


def test_a_folder_without_the_right_to_write_is_refused(tmp_path, texts, monkeypatch):
    """Root has the right everywhere, so the system's answer is replaced."""
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path).name != "locked")
    (tmp_path / "locked").mkdir(mode=0o500)

    with pytest.raises(ConvertError, match="locked cannot be written to"):
        convert(tmp_path / "locked/s.zarr", {"en": texts})
    assert list((tmp_path / "locked").iterdir()) == []


def test_a_store_holds_the_tokens_of_one_tokenizer(tmp_path, texts):
    words = save_words(tmp_path)
    convert(tmp_path / "s.zarr", {"en": texts}, tokenizer=words)
    before = files_of(tmp_path)

    for options in ({"tokenizer": "bytes"}, {"tokenizer": words, "end_token": 5}):
        with pytest.raises(ConvertError, match=r"en/train was made with words\.json \(sha256 .*, this conversion uses"):
            convert(tmp_path / "s.zarr", {"ar": texts}, **options)
        with pytest.raises(ConvertError, match=r"en/train was made with"):
            convert(tmp_path / "s.zarr", {"en": texts}, "validation", **options)
    assert files_of(tmp_path) == before

    copy = tmp_path / "copy.json"
    copy.write_bytes(words.read_bytes())
    convert(tmp_path / "s.zarr", {"ar": texts}, tokenizer=copy)


@pytest.mark.parametrize("there", [2, 3])
def test_a_store_is_of_one_version_of_zarr(tmp_path, texts, there):
    convert(tmp_path / "s.zarr", {"en": texts}, zarr_format=there)
    before = files_of(tmp_path)

    for language, replace in (("sw", False), ("en", True)):
        with pytest.raises(
            ConvertError, match=rf"s\.zarr is of Zarr v{there}, and a store is of one .*: ask for --zarr-format {there}"
        ):
            convert(tmp_path / "s.zarr", {language: texts}, replace=replace, zarr_format=5 - there)

    assert files_of(tmp_path) == before


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


def test_names_that_differ_only_in_case_are_refused(tmp_path, texts):
    other = write_lines(tmp_path / "other.jsonl", ["a"])
    with pytest.raises(ConvertError, match="languages 'EN' and 'en' differ only in case"):
        convert(tmp_path / "s.zarr", {"en": texts, "EN": other})
    assert not (tmp_path / "s.zarr").exists()

    convert(tmp_path / "s.zarr", {"en": texts})
    with pytest.raises(ConvertError, match="languages 'EN' and 'en'"):
        convert(tmp_path / "s.zarr", {"EN": texts})
    with pytest.raises(ConvertError, match="splits 'Train' and 'train'"):
        convert(tmp_path / "s.zarr", {"en": texts}, "Train")


def test_names_that_differ_only_in_case_are_refused_in_records_and_in_one_call(tmp_path, texts):
    mixed = write_lines(tmp_path / "mixed.jsonl", ["a"], lang="en")
    with mixed.open("a") as more:
        more.write('{"text": "b", "lang": "EN"}\n')

    with pytest.raises(ConvertError, match="languages 'EN' and 'en'"):
        convert(tmp_path / "s.zarr", mixed, language_field="lang")
    with pytest.raises(ConvertError, match="splits 'Train' and 'train'"):
        convert(tmp_path / "t.zarr", {"en": texts, "en/Train": write_lines(tmp_path / "other.jsonl", ["a"])})
    with pytest.raises(ConvertError, match="splits 'Train' and 'train'"):
        convert(tmp_path / "t.zarr", {"en": texts}, hold_out={"Train": 0.5})

    assert not (tmp_path / "s.zarr").exists()
    assert not (tmp_path / "t.zarr").exists()


def test_a_file_of_two_languages_is_refused(tmp_path, texts):
    (tmp_path / "link.jsonl").symlink_to(texts)
    for other in ("texts.jsonl", "link.jsonl"):
        with pytest.raises(ConvertError, match=rf"{other} is named for en/train and for ar/train; a file is of one la"):
            convert(tmp_path / "s.zarr", {"en": texts, "ar": tmp_path / other})
    with pytest.raises(ConvertError, match=r"texts\.jsonl is named for en/train and for en/dev"):
        convert(tmp_path / "s.zarr", {"en": texts, "en/dev": texts})
    by_field = [SourceSpec(data=str(texts), language_field="lang"), SourceSpec(data=str(texts), language="en")]
    with pytest.raises(ConvertError, match=r"texts\.jsonl is named for \*/train and for en/train"):
        convert(tmp_path / "s.zarr", by_field)
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
    import flatmix.convert

    convert(tmp_path / "s.zarr", {"ar": texts})
    monkeypatch.setattr(flatmix.convert, "open_staging", None)  # what comes after the look at the store
    other = write_lines(tmp_path / "other.jsonl", ["a"])
    busy = r"s\.zarr: en/train is being written by another process; wait until it is done"
    with SplitWriter(tmp_path / "s.zarr", "en", "train") as writer:
        for sources in ({"en": texts}, {"ar": texts, "en": other}):
            with pytest.raises(ConvertError, match=busy):
                convert(tmp_path / "s.zarr", sources, replace=replace)
        writer.finish()
    with SplitWriter(tmp_path / "s.zarr", "en", "train", replace=True), pytest.raises(ConvertError, match=busy):
        convert(tmp_path / "s.zarr", {"en": texts}, replace=replace)


@pytest.mark.parametrize("pattern", ["in/*", "in/**", "*/s.z*", "**/*.zarr/**"])
def test_a_store_that_a_glob_would_match_is_refused_the_first_time(tmp_path, monkeypatch, pattern):
    monkeypatch.chdir(tmp_path)
    for name in ("in/a.jsonl", "in/s.zz.jsonl", "in/b.zarr/c.jsonl"):
        write_lines(Path(name), ["text"])

    with pytest.raises(ConvertError, match=r"the store in/s\.zarr would lie in .*, which is its input; choose another"):
        convert("in/s.zarr", {"en": pattern})
    assert not Path("in/s.zarr").exists()

    convert("in/s.zarr", {"en": "in/*.jsonl"})
    convert("s.zarr", {"en": "in/*.jsonl"})


@pytest.mark.parametrize("pattern", ["in", "in/*"])
def test_a_place_for_staging_among_the_input_is_refused_the_first_time(tmp_path, monkeypatch, pattern):
    monkeypatch.chdir(tmp_path)
    write_lines(Path("in/a.jsonl"), ["text"])

    with pytest.raises(ConvertError, match=r"what is staged in in would lie in .*, which is its input; choose another"):
        convert("s.zarr", {"en": pattern}, staging="in")
    assert not Path("s.zarr").exists()
