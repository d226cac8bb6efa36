"""Older flat-tokens stores: every document as it was, the empty ones too, and damage found."""

from pathlib import Path

import numpy as np
import pytest
import zarr
from older_stores import older_store
from stores import standard_store
from token_files import find, read

from flatmix.convert import imports
from flatmix.convert.imports import documents, older
from flatmix.errors import ConvertError, ReadError

TRAIN = [[], [1, 2, 3], [], [], [4], [5, 6, 7, 8, 9, 10, 11], [12, 13], [], [2**31 - 1]]
SPLITS = {"train": TRAIN, "validation": [[1], [2]]}


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.parametrize("delta", [True, False])
def test_documents_are_those_of_the_store_whatever_the_stretches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, zarr_format: int, delta: bool
) -> None:
    monkeypatch.setattr(documents, "RUN", 4)
    monkeypatch.setattr(older, "_BLOCK", 4)
    path = older_store(tmp_path / "old.zarr", SPLITS, zarr_format, delta)

    [found] = find(path, "flat-tokens")

    assert (found.path, found.name, found.kind, found.size) == (str(path), "old.zarr/train", "flat-tokens", 14 * 4)
    for size in (1, 12, 20, 1000):
        assert read(found, size) == TRAIN
    for skip in (1, 3, 8, 9, 10):
        assert read(found, skip=skip) == TRAIN[skip:]


def test_the_end_of_a_run_counts_bytes_from_the_start_of_the_stretch(tmp_path: Path) -> None:
    [found] = find(older_store(tmp_path / "old.zarr", SPLITS), "flat-tokens")

    [run] = imports.read_tokens(found, 4, 8, 1)

    assert run.lengths.tolist() == [7, 2, 0]
    assert run.end == 4 * 10


def test_the_split_is_the_one_asked_for_or_whose_folder_is_named(tmp_path: Path) -> None:
    path = older_store(tmp_path / "old.zarr", SPLITS)

    [found] = find(path, "flat-tokens", split="validation")

    assert (found.name, read(found)) == ("old.zarr/validation", SPLITS["validation"])
    assert find(path / "validation", "flat-tokens") == [found]
    with pytest.raises(ConvertError, match=r"old\.zarr has no split 'test'; its splits are train, validation"):
        find(path, "flat-tokens", split="test")


def test_only_empty_documents_and_none_at_all_are_kept(tmp_path: Path) -> None:
    path = older_store(tmp_path / "old.zarr", {"train": [[], []], "validation": []})

    assert read(*find(path, "flat-tokens")) == [[], []]
    assert read(*find(path, "flat-tokens", split="validation")) == []


def test_the_stamp_changes_with_the_files(tmp_path: Path) -> None:
    one = find(older_store(tmp_path / "a.zarr", SPLITS), "flat-tokens")[0].stamp
    other = find(older_store(tmp_path / "b.zarr", {"train": [*TRAIN[:-1], [14]]}), "flat-tokens")[0].stamp

    assert one != other
    assert one == find(tmp_path / "a.zarr", "flat-tokens")[0].stamp


@pytest.mark.parametrize(
    ("place", "value", "text"),
    [
        (4, 2 * 5, r"document 5 .* has no start bit at its first token \(token 4\)"),
        (6, 2 * 7 + 1, r"document 5 .* has a start bit within \(token 6\)"),
        (0, 2 * 1, r"document 1 .* has no start bit at its first token \(token 0\)"),
    ],
)
def test_start_bits_that_contradict_name_the_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: int, value: int, text: str
) -> None:
    monkeypatch.setattr(documents, "RUN", 4)
    path = older_store(tmp_path / "old.zarr", SPLITS)
    [found] = find(path, "flat-tokens")
    zarr.open_group(path)["train"]["encoded_tokens"][place] = value

    for size in (1, 1000):
        with pytest.raises(ReadError, match=f"{text}, and seq_starts says otherwise"):
            read(found, size)


def test_document_starts_that_fall_are_an_error(tmp_path: Path) -> None:
    path = older_store(tmp_path / "old.zarr", SPLITS, delta=False)
    [found] = find(path, "flat-tokens")
    zarr.open_group(path)["train"]["seq_starts"][3] = np.uint64(9)

    with pytest.raises(ReadError, match="do not rise from 0 to the 14 tokens"):
        read(found)


def test_a_missing_chunk_is_an_error_and_so_are_other_counts(tmp_path: Path) -> None:
    path = older_store(tmp_path / "old.zarr", SPLITS)
    [found] = find(path, "flat-tokens")

    (path / "train" / "encoded_tokens" / "1").unlink()
    with pytest.raises(ReadError, match="encoded_tokens"):
        read(found)
    array = zarr.open_group(path)["train"]["encoded_tokens"]
    array.append(np.array([2], np.uint32))
    with pytest.raises(ConvertError, match=r"old\.zarr/train at .* changed while it was read; begin anew"):
        read(found)


def test_a_store_of_format_1_is_refused_in_words(tmp_path: Path) -> None:
    path = Path(standard_store(tmp_path / "new.zarr"))
    language = sorted(entry.name for entry in path.iterdir() if entry.is_dir())[0]

    for place in (path, path / language, path / language / "train"):
        assert older.is_store(str(place))
        with pytest.raises(ConvertError, match=r"is of format 1, which needs no conversion: copy the folders"):
            find(place, "flat-tokens")


def test_what_is_no_store_is_refused(tmp_path: Path) -> None:
    zarr.open_group(tmp_path / "other.zarr", mode="w").create_group("train")

    for place in (tmp_path, tmp_path / "none", tmp_path / "other.zarr"):
        with pytest.raises(ConvertError, match="holds no flat-tokens store"):
            find(place, "flat-tokens")


def test_what_the_store_says_is_not_to_be_given(tmp_path: Path) -> None:
    path = older_store(tmp_path / "old.zarr", SPLITS)

    with pytest.raises(ConvertError, match="knows where its documents begin; leave out document_start"):
        find(path, "flat-tokens", document_start=0)
    with pytest.raises(ConvertError, match="holds uint32, and the type given is uint16"):
        find(path, "flat-tokens", type="uint16")
