"""Writing what was planned: what goes wrong on the way leaves a split that readers refuse."""

from pathlib import Path

import pytest
from converted import write_lines

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
