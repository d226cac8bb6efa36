from pathlib import Path

import numpy as np
import pytest
from helpers import edit_json, write_split

from flatmix.errors import ReadError, StoreError
from flatmix.store import open_store
from flatmix.store.folders import create_array
from flatmix.store.writer import SplitWriter

DOCUMENTS = [[5, 6], [], [7], [8, 9, 10]]


def test_a_split_knows_what_its_attributes_say(tmp_path: Path) -> None:
    tokenizer = {"name": "bytes", "sha256": "0" * 64, "vocabulary": 256, "added": []}
    source = {"data": "d", "files": ["a.jsonl"], "options": {}}
    with SplitWriter(tmp_path / "s", "en", "train", tokenizer=tokenizer, source=source) as writer:
        for ids in DOCUMENTS:
            writer.add(ids, utf8_bytes=3 * len(ids))
        written = writer.finish()
    split = open_store(tmp_path / "s")["en"]["train"]

    assert written == split
    assert hash(written) == hash(split)
    assert (split.tokens, split.documents, split.max_token_id, split.utf8_bytes) == (6, 4, 10, 18)
    assert (split.language, split.name) == ("en", "train")
    assert (split.tokenizer, split.source) == (tokenizer, source)
    assert split.path == str(tmp_path / "s/en/train")
    assert split.digest in repr(split)


def test_seq_starts_are_read_by_span(tmp_path: Path) -> None:
    split = write_split(tmp_path / "s", DOCUMENTS)

    assert split.seq_starts(0, 5).tolist() == [0, 2, 2, 3, 6]
    assert split.seq_starts(2, 4).tolist() == [2, 3]
    assert split.seq_starts(5, 5).tolist() == []
    assert split.seq_starts(0, 5).dtype == np.uint64
    for span in ((0, 6), (-1, 2), (3, 2), (0, 10**15)):
        with pytest.raises(IndexError, match=r"is not a span of \[0, 5\) in seq_starts of language 'en'"):
            split.seq_starts(*span)


@pytest.mark.parametrize(
    ("starts", "span"),
    [
        ([1, 2, 2, 3, 6], (0, 2)),
        ([0, 2, 1, 3, 6], (1, 3)),
        ([0, 2, 2, 3, 5], (2, 5)),
        ([0, 2, 2, 7, 6], (3, 4)),
        ([0, 2, 2, 2**64 - 1, 6], (2, 4)),
    ],
)
def test_seq_starts_that_cannot_be_true_are_not_handed_out(
    tmp_path: Path, starts: list[int], span: tuple[int, int]
) -> None:
    import shutil

    split = write_split(tmp_path / "s", DOCUMENTS)
    shutil.rmtree(Path(split.path, "seq_starts"))
    create_array(Path(split.path, "seq_starts"), (5,), np.dtype("uint64"))[:] = np.array(starts, np.uint64)

    with pytest.raises(ReadError, match="do not rise from 0 to the 6 tokens"):
        open_store(tmp_path / "s")["en"]["train"].seq_starts(*span)


def test_sources_are_kept_on_request(tmp_path: Path) -> None:
    with SplitWriter(tmp_path / "s", "en", "train", record_sources=True) as writer:
        writer.add([1], source_file=3, source_record=2**40)
        writer.add_many(np.array([2, 3]), np.array([0, 2]), source_file=[4, 5], source_record=np.array([6, 7]))
        split = writer.finish()
    files, records = split.sources(0, 3)

    assert files.tolist() == [3, 4, 5]
    assert records.tolist() == [2**40, 6, 7]
    assert (files.dtype, records.dtype) == (np.uint32, np.uint64)
    assert write_split(tmp_path / "s", DOCUMENTS, "ar").sources(0, 4) is None


def test_one_source_array_without_the_other_is_refused(tmp_path: Path) -> None:
    import shutil

    split = write_split(tmp_path / "s", DOCUMENTS, record_sources=True)
    shutil.rmtree(Path(split.path, "source_record"))

    with pytest.raises(StoreError, match="holds no source_record"):
        open_store(tmp_path / "s")["en"]["train"]


def test_a_broken_seq_starts_names_array_and_entries(tmp_path: Path) -> None:
    split = write_split(tmp_path / "s", DOCUMENTS)
    Path(split.path, "seq_starts/c/0").unlink()

    with pytest.raises(
        ReadError, match=r"seq_starts of language 'en'.*chunk 0 \(in shard 0\), which holds the entries \[0, 5\)"
    ):
        split.seq_starts(0, 5)


def test_size_on_disk_is_that_of_all_files(tmp_path: Path) -> None:
    split = write_split(tmp_path / "s", DOCUMENTS)
    before = split.size_on_disk()
    shard = Path(split.path, "encoded_tokens/c/0")
    shard.write_bytes(shard.read_bytes() + b"12345")

    assert split.size_on_disk() == before + 5
    assert 3000 < before < 10_000  # a small language stays a few small files


def test_metadata_that_only_the_reader_library_can_refuse_is_a_store_error(tmp_path: Path) -> None:
    write_split(tmp_path / "s", DOCUMENTS)
    edit_json(tmp_path / "s/en/train/encoded_tokens", lambda array: array.update(storage_transformers=[{"name": "x"}]))
    split = open_store(tmp_path / "s")["en"]["train"]

    with pytest.raises(
        StoreError, match=r"encoded_tokens of language 'en', split 'train' of store .* cannot be opened: "
    ):
        split.reader()
