"""Where documents come from: files, folders and saved data sets, and what is said of those that cannot be used."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from converted import save_words, utf8, write_lines

from flatmix import HuggingFaceDataParams, ReadError, TokenBatchParams
from flatmix.errors import ConvertError
from flatmix.loader.dataset import Passed, describe, encoded_documents
from flatmix.loader.huggingface import HuggingFaceDataLoader

TEXTS = ["the cat", "sat", "", "on the पर", "mat"]


def documents(params: HuggingFaceDataParams, split: str = "train") -> list[list[int]]:
    """The ids of each document that is not empty, after a look at its start bit."""
    found = []
    for tokens in encoded_documents(params, split, Passed()):
        assert tokens.dtype == np.uint32
        assert (tokens & 1).tolist() == [1] + [0] * (len(tokens) - 1)
        found.append((tokens >> 1).tolist())
    return found


def jsonl(folder: Path, *lines: str | bytes) -> Path:
    file = folder / "texts.jsonl"
    file.write_bytes(b"".join((line if isinstance(line, bytes) else line.encode()) + b"\n" for line in lines))
    return file


def saved(folder: Path, kind: str) -> Path:
    """TEXTS as `datasets` saves them: alone, with their split's name, by split, or to give tables."""
    import datasets

    datasets.disable_progress_bars()
    split = datasets.NamedSplit("dev") if kind == "named" else None
    data = datasets.Dataset.from_dict({"text": TEXTS, "n": list(range(len(TEXTS)))}, split=split)
    if kind == "formatted":
        data = data.with_format("pandas")
    if kind == "splits":
        data = datasets.DatasetDict({"train": data.select([0]), "dev": data})
    data.save_to_disk(folder / "saved")
    return folder / "saved"


def test_json_lines_with_other_fields_and_a_list_of_files(tmp_path: Path):
    files = [write_lines(tmp_path / "b.jsonl", TEXTS[:3], n=1), write_lines(tmp_path / "a.jsonl", TEXTS[3:], n=2)]
    expected = [ids for ids in utf8(*TEXTS) if ids]
    assert documents(HuggingFaceDataParams("json", data_files=files)) == expected
    assert documents(HuggingFaceDataParams("json", data_files={"dev": str(files[1]), "train": files[:1]}), "dev") == (
        utf8(*TEXTS[3:])
    )


def test_text_files_and_further_options(tmp_path: Path):
    """A line is a document, or, as an option of the library says, a file is."""
    file = tmp_path / "texts.txt"
    file.write_text("\n".join(TEXTS), encoding="utf-8")
    by_line = HuggingFaceDataParams("text", data_files=file)
    by_file = HuggingFaceDataParams("text", data_files=file, options={"sample_by": "document"})
    assert documents(by_line) == [ids for ids in utf8(*TEXTS) if ids]
    assert documents(by_file) == utf8("\n".join(TEXTS))


def test_a_folder_of_files(tmp_path: Path):
    write_lines(tmp_path / "set" / "train.jsonl", TEXTS)
    write_lines(tmp_path / "set" / "test.jsonl", ["other"])
    assert documents(HuggingFaceDataParams(tmp_path / "set"), "test") == utf8("other")
    assert documents(HuggingFaceDataParams(tmp_path / "set")) == [ids for ids in utf8(*TEXTS) if ids]


@pytest.mark.parametrize(
    ("kind", "split", "other", "has"),
    [
        ("plain", "train", "test", "'train'"),
        ("named", "dev", "train", "'dev'"),
        ("formatted", "train", "test", "'train'"),
        ("splits", "dev", "test", "'train', 'dev'"),
    ],
)
def test_a_saved_data_set_and_its_splits(tmp_path: Path, kind: str, split: str, other: str, has: str):
    params = HuggingFaceDataParams(saved(tmp_path, kind))
    assert documents(params, split) == [ids for ids in utf8(*TEXTS) if ids]
    with pytest.raises(ConvertError, match=rf"saved', split '{other}' is not there: the saved data set has {has}$"):
        documents(params, other)


def test_a_saved_data_set_takes_no_settings_of_others(tmp_path: Path):
    folder = saved(tmp_path, "plain")
    for settings in ({"name": "en"}, {"data_files": ["a.jsonl"]}, {"options": {"revision": "main"}}):
        ((name, _),) = settings.items()
        with pytest.raises(ValueError, match=rf"{name} is .*, and .*saved is a saved data set: leave it out"):
            documents(HuggingFaceDataParams(folder, **settings))


def test_the_cache_lies_where_the_options_say(tmp_path: Path):
    file = write_lines(tmp_path / "a.jsonl", TEXTS)
    documents(HuggingFaceDataParams("json", data_files=file, options={"cache_dir": str(tmp_path / "cache")}))
    assert (tmp_path / "cache").is_dir()


def test_what_has_passed_is_counted_empty_documents_too(tmp_path: Path):
    passed = Passed()
    params = HuggingFaceDataParams("json", data_files=write_lines(tmp_path / "a.jsonl", TEXTS))
    list(encoded_documents(params, "train", passed))
    assert (passed.documents, passed.tokens) == (5, sum(len(text.encode()) for text in TEXTS))


# What cannot be used


@pytest.mark.parametrize("line", ['{"text": null}', '{"n": 1}'])
def test_a_record_without_text_is_named_after_the_batches_before_it(tmp_path: Path, line: str):
    file = jsonl(tmp_path, '{"text": "one"}', '{"text": "two"}', line, '{"text": "four"}')
    own = HuggingFaceDataLoader("train", HuggingFaceDataParams("json", data_files=file), TokenBatchParams(3, 1))
    steps = own.steps()
    assert [bytes(next(steps).targets[0].astype("uint8")) for _ in range(2)] == [b"one", b"two"]
    words = (
        r"data set 'json' of '.*texts\.jsonl', split 'train', record 3: its field 'text' is null or missing, and text"
    )
    with pytest.raises(ConvertError, match=words):
        next(steps)
    for _ in range(2):  # to end without a word would look like the end of the data
        with pytest.raises(ConvertError, match=words):
            own.load(2)


@pytest.mark.parametrize(("line", "kind"), [('{"text": 5}', "int"), ('{"text": ["a"]}', "list")])
def test_a_field_that_holds_no_text_is_refused(tmp_path: Path, line: str, kind: str):
    params = HuggingFaceDataParams("json", data_files=jsonl(tmp_path, line))
    with pytest.raises(ConvertError, match=f"record 1: its field 'text' is of type {kind}, and text is needed"):
        documents(params)


@pytest.mark.parametrize("line", ['{"text": "x', '{"text": "\\ud800"}', "{]", b'{"text": "\xff"}'], ids=str)
def test_a_broken_line_is_told_with_the_data_set_and_the_record_reached(tmp_path: Path, line: str | bytes):
    """The library gives up a whole block of lines with a broken one in it; how much else depends on its version."""
    params = HuggingFaceDataParams("json", data_files=jsonl(tmp_path, '{"text": "one"}', line, '{"text": "three"}'))
    words = r"data set 'json' of '.*texts\.jsonl', split 'train': reading stopped after record [01]: \w+: ."
    with pytest.raises(ConvertError, match=words):
        documents(params)


def test_a_text_field_that_is_not_there_is_answered_with_those_that_are(tmp_path: Path):
    known = HuggingFaceDataParams("json", data_files=jsonl(tmp_path, '{"body": "one", "n": 1}'))
    with pytest.raises(ConvertError, match=r"there is no field 'text'; the fields are 'body', 'n' \(set text_field\)"):
        documents(known)
    assert documents(HuggingFaceDataParams("json", data_files=known.data_files, text_field="body")) == utf8("one")
    (tmp_path / "a.txt").write_text("one")
    late = HuggingFaceDataParams("text", data_files=tmp_path / "a.txt", text_field="body")
    with pytest.raises(ConvertError, match="split 'train', record 1: there is no field 'body'; the fields are 'text'"):
        documents(late)


REFUSED: dict[str, tuple[dict[str, Any], str, type[Exception], str]] = {
    "a missing file": (
        {"data_files": "none.jsonl"},
        "train",
        ReadError,
        "could not be opened: FileNotFoundError: .*none",
    ),
    "a split that is not there": ({}, "test", ConvertError, "split 'test' could not be opened: ValueError: .*'train'"),
    "an unknown option": ({"options": {"rows": 1}}, "train", ConvertError, "could not be opened: TypeError: .*rows"),
    "a name of the hub, offline": (
        {"path": "some/where", "name": "en", "data_files": None},
        "train",
        ReadError,
        r"data set 'some/where' \(en\), split 'train' could not be opened: ConnectionError: ",
    ),
    "no tokenizer": ({"tokenizer": "none.json"}, "train", ConvertError, "tokenizer none.json: there is no such file"),
    "a token that is not there": ({"begin_token": "<s>"}, "train", ConvertError, "the begin token '<s>' is not in the"),
    "a small vocabulary": (
        {"vocab_size": 255},
        "train",
        ValueError,
        "tokenizer bytes has ids up to 255, and vocab_size is 255: take at least 256",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_used_is_refused_when_the_loader_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
):
    monkeypatch.chdir(tmp_path)
    changes, split, kind, words = REFUSED[case]
    settings = {"path": "json", "data_files": str(jsonl(tmp_path, '{"text": "one"}')), **changes}
    with pytest.raises(kind, match=words):
        encoded_documents(HuggingFaceDataParams(**settings), split, Passed())


def test_a_vocabulary_that_is_just_large_enough_is_taken(tmp_path: Path):
    file = write_lines(tmp_path / "a.jsonl", ["a b"])
    params = HuggingFaceDataParams("json", save_words(tmp_path), data_files=file, vocab_size=6)
    assert documents(params) == [[2, 3]]


def test_without_the_library_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    params = HuggingFaceDataParams("json", data_files=jsonl(tmp_path, '{"text": "one"}'))
    with pytest.raises(ImportError, match=r"needs the library datasets \(pip install 'flatmix\[hf\]'\)"):
        HuggingFaceDataLoader("train", params, TokenBatchParams(1, 1))


def test_a_data_set_is_told_by_its_path_configuration_files_and_split():
    assert (
        describe(HuggingFaceDataParams("allenai/c4", name="en"), "train") == "data set 'allenai/c4' (en), split 'train'"
    )
    many = HuggingFaceDataParams("json", data_files=[f"{number:050}.jsonl" for number in range(100)])
    assert len(describe(many, "train")) < 250
