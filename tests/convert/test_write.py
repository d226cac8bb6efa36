"""Writing what was planned: what goes wrong on the way leaves a split that readers refuse."""

from pathlib import Path

import pytest
from converted import files_of, read_documents, save_words, utf8, write_lines

from flatmix.convert import convert
from flatmix.errors import ConvertError, StoreError
from flatmix.store import open_store


def change_after_check(file: Path, line: str):
    """A progress callback that adds `line` to `file` once everything has been checked."""

    def progress(stage: str, done: int, total: int) -> None:
        if stage == "checking" and done == total:
            with file.open("a") as more:
                more.write(line)

    return progress


@pytest.mark.parametrize(
    ("line", "skip_bad"),
    [('{"text": "more", "lang": "en"}\n', False), ('{"text": "new", "lang": "ar"}\n', False), ("{}\n", True)],
)
@pytest.mark.parametrize("by_field", [False, True])
def test_input_that_changes_during_the_conversion_is_an_error(tmp_path, line, skip_bad, by_field):
    file = write_lines(tmp_path / "a.jsonl", ["a"] * 3, lang="en")
    sources = file if by_field else {"en": file}

    with pytest.raises(ConvertError, match=r"a\.jsonl changed between the check and the conversion"):
        convert(
            tmp_path / "s.zarr",
            sources,
            language_field="lang" if by_field else None,
            skip_bad=skip_bad,
            progress=change_after_check(file, line),
        )

    with pytest.raises(StoreError, match="was not completed"):
        open_store(tmp_path / "s.zarr")["en"]["train"]


def test_a_failed_write_ends_the_conversion_and_leaves_the_split_incomplete(tmp_path, monkeypatch):
    from flatmix.store import writer

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writer, "write_shard", full)

    with pytest.raises(OSError, match=r"No space left on device; language 'en', split 'train'"):
        convert(tmp_path / "s.zarr", {"en": write_lines(tmp_path / "a.jsonl", ["a"])})

    monkeypatch.undo()
    with pytest.raises(StoreError, match="was not completed"):
        open_store(tmp_path / "s.zarr")["en"]["train"]


def test_languages_before_a_failing_one_are_complete(tmp_path):
    """They are written one by one, so that what is done is done."""
    first = write_lines(tmp_path / "a.jsonl", ["a"])
    second = write_lines(tmp_path / "b.jsonl", ["b"])

    with pytest.raises(ConvertError, match=r"b\.jsonl changed"):
        convert(tmp_path / "s.zarr", {"en": first, "ar": second}, progress=change_after_check(second, '{"text": ""}\n'))

    assert open_store(tmp_path / "s.zarr")["en"]["train"].documents == 1
    assert open_store(tmp_path / "s.zarr").status("ar", "train") == "incomplete"


@pytest.mark.parametrize("batch_documents", [1, 3, 100])
@pytest.mark.parametrize("kind", ["jsonl", "txt"])
def test_a_text_that_the_tokenizer_fails_on_is_named_and_the_old_split_stays(tmp_path, kind, batch_documents):
    model = {"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "[UNK]"}
    words = save_words(tmp_path, model=model, added_tokens=[], post_processor=None)
    write_lines(tmp_path / "in/1.jsonl", ["a b", "b a"])
    convert(tmp_path / "s.zarr", {"en": tmp_path / "in"}, tokenizer=words)
    before = files_of(tmp_path / "s.zarr")
    if kind == "jsonl":
        write_lines(tmp_path / "in/2.jsonl", ["a", "b", "a c"])
    else:
        (tmp_path / "in/2.txt").write_text("a c")
    place = r"in/2\.jsonl, line 3" if kind == "jsonl" else r"in/2\.txt"

    for store, replace in (("s.zarr", True), ("new.zarr", False)):
        with pytest.raises(ConvertError, match=rf"{place}: tokenizer .*words\.json fails on the text: .*UNK"):
            convert(
                tmp_path / store,
                {"en": tmp_path / "in"},
                tokenizer=words,
                replace=replace,
                batch_documents=batch_documents,
            )
    assert files_of(tmp_path / "s.zarr") == before
    assert open_store(tmp_path / "new.zarr").status("en", "train") == "incomplete"


def test_an_error_on_the_way_leaves_the_splits_that_were_to_be_replaced(tmp_path):
    """Those that were done before it are replaced."""
    first, second = (write_lines(tmp_path / f"{name}.jsonl", [name]) for name in "ab")
    convert(tmp_path / "s.zarr", {"en": first, "ar": second})
    before = files_of(tmp_path / "s.zarr/ar")
    write_lines(first, ["new"])

    with pytest.raises(ConvertError, match=r"b\.jsonl changed between the check and the conversion"):
        convert(
            tmp_path / "s.zarr",
            {"en": first, "ar": second},
            replace=True,
            progress=change_after_check(second, '{"text": ""}\n'),
        )
    assert read_documents(tmp_path / "s.zarr", "en") == utf8("new")
    assert files_of(tmp_path / "s.zarr/ar") == before
