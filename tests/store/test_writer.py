import errno
import hashlib
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from helpers import documents_of, files_of, read, write_split
from hypothesis import given, settings
from hypothesis import strategies as st
from typeguard import suppress_type_checks

from flatmix.errors import ConvertError, ReadError, StoreError
from flatmix.store import format as layout
from flatmix.store import open_store, writer
from flatmix.store.writer import SplitWriter

DOCUMENTS = [[5, 6], [], [7], [8, 9, 10]]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of 16 values, four to a shard."""
    monkeypatch.setattr(layout, "CHUNK", 16)
    monkeypatch.setattr(layout, "SHARD", 64)


def test_the_worked_example_of_the_format(tmp_path: Path) -> None:
    split = write_split(tmp_path / "s", DOCUMENTS)

    assert read(split.reader(), 0, 6).tolist() == [11, 12, 15, 17, 18, 20]
    assert split.seq_starts(0, 5).tolist() == [0, 2, 2, 3, 6]
    assert (split.max_token_id, split.tokens, split.documents) == (10, 6, 4)


def test_the_files_of_a_store_are_pinned(tmp_path: Path) -> None:
    """A change of any of this is a change of the format."""
    tokenizer = {"name": "bytes", "sha256": "0" * 64, "vocabulary": 256, "added": []}
    with SplitWriter(tmp_path / "s", "en", "train", tokenizer=tokenizer) as opened:
        for ids in DOCUMENTS:
            opened.add(ids, utf8_bytes=len(ids))
        opened.finish()
    files = files_of(tmp_path / "s")
    tokens = hashlib.sha256(np.array([11, 12, 15, 17, 18, 20], "<u4")).digest()
    starts = hashlib.sha256(np.array([0, 2, 2, 3, 6], "<u8")).digest()

    assert sorted(files) == [
        "en/train/encoded_tokens/c/0",
        "en/train/encoded_tokens/zarr.json",
        "en/train/piece_digests/c/0/0",
        "en/train/piece_digests/zarr.json",
        "en/train/seq_starts/c/0",
        "en/train/seq_starts/zarr.json",
        "en/train/zarr.json",
        "en/zarr.json",
        "zarr.json",
    ]
    assert json.loads(files["zarr.json"]) == _group({"flatmix": {"format": 1}})
    assert json.loads(files["en/zarr.json"]) == _group({})
    attributes = {
        "max_token_id": 10,
        "flatmix": {
            "format": 1,
            "complete": True,
            "tokens": 6,
            "documents": 4,
            "utf8_bytes": 6,
            "tokenizer": tokenizer,
            "digest": hashlib.sha256(tokens + starts).hexdigest(),
            "source": None,
        },
    }
    assert json.loads(files["en/train/zarr.json"]) == _group(attributes)
    assert json.loads(files["en/train/encoded_tokens/zarr.json"]) == _array([6], "uint32", 4, [2**14])
    assert json.loads(files["en/train/seq_starts/zarr.json"]) == _array([5], "uint64", 8, [2**14])
    assert json.loads(files["en/train/piece_digests/zarr.json"]) == _array([2, 32], "uint8", 1, [512, 32])
    assert _only_chunk(files["en/train/piece_digests/c/0/0"], "u1")[:64].tobytes() == tokens + starts
    values = _only_chunk(files["en/train/encoded_tokens/c/0"], "<u4")
    assert (len(values), values[:7].tolist()) == (2**14, [11, 12, 15, 17, 18, 20, 0])
    values = _only_chunk(files["en/train/seq_starts/c/0"], "<u8")
    assert (len(values), values[:6].tolist()) == (2**14, [0, 2, 2, 3, 6, 0])


def _group(attributes: dict[str, Any]) -> dict[str, Any]:
    return {"zarr_format": 3, "node_type": "group", "attributes": attributes}


def _array(shape: list[int], dtype: str, size: int, chunk: list[int]) -> dict[str, Any]:
    to_bytes = {"name": "bytes", "configuration": {"endian": "little"}}
    blosc = {"typesize": size, "cname": "lz4", "clevel": 5, "shuffle": "bitshuffle", "blocksize": 0}
    sharding = {
        "chunk_shape": chunk,
        "codecs": [
            to_bytes if size > 1 else {"name": "bytes"},
            {"name": "blosc", "configuration": blosc},
            {"name": "crc32c"},
        ],
        "index_codecs": [to_bytes, {"name": "crc32c"}],
        "index_location": "end",
    }
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": dtype,
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": chunk}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": 0,
        "codecs": [{"name": "sharding_indexed", "configuration": sharding}],
        "attributes": {},
        "storage_transformers": [],
    }


def _only_chunk(shard: bytes, dtype: str) -> np.ndarray:
    """Takes a shard of one chunk apart by hand: the chunk, its crc32c, an index of one entry, and its crc32c."""
    import google_crc32c
    from numcodecs.blosc import Blosc

    offset, size = np.frombuffer(shard[-20:-4], "<u8").tolist()
    chunk = shard[offset : offset + size]
    assert google_crc32c.value(shard[-20:-4]).to_bytes(4, "little") == shard[-4:]
    assert google_crc32c.value(chunk[:-4]).to_bytes(4, "little") == chunk[-4:]
    assert len(shard) == size + 20
    return np.frombuffer(Blosc().decode(chunk[:-4]), dtype)


@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 63, 64, 65, 127, 128, 129])
@pytest.mark.usefixtures("small")
def test_shards_are_clipped_to_whole_chunks_and_all_are_there(tmp_path: Path, length: int) -> None:
    split = write_split(tmp_path / "s", [list(range(length))])
    metadata = split.arrays["encoded_tokens"]
    shards = sorted(file.name for file in Path(split.path, "encoded_tokens").glob("c/*"))

    assert metadata.chunk == 16
    assert metadata.shard == min(64, max(16, -(-length // 16) * 16))
    assert [str(shard) for shard in range(-(-length // 64))] == shards
    assert [list(range(length))] == documents_of(split)


@pytest.mark.usefixtures("small")
def test_chunks_of_zeros_are_written(tmp_path: Path) -> None:
    """Token 0 in the middle of a document is stored as 0, which is the fill value."""
    split = write_split(tmp_path / "s", [[0] * 200])

    assert read(split.reader(), 0, 200).tolist() == [1] + [0] * 199
    index = np.frombuffer(Path(split.path, "encoded_tokens/c/1").read_bytes()[-68:-4], "<u8").reshape(4, 2)
    assert (index != 2**64 - 1).all()  # what stands for a chunk that is not there


@pytest.mark.usefixtures("small")
def test_equal_documents_give_equal_files_however_they_are_added(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    lengths = rng.integers(0, 12, 150)
    ids = rng.integers(0, 2**31, lengths.sum())
    ends = np.cumsum(lengths)
    write_split(tmp_path / "one by one", np.split(ids, ends[:-1]))
    for size in (1, 7, 150):
        with SplitWriter(tmp_path / f"by {size}", "en", "train") as opened:
            for first in range(0, 150, size):
                part = lengths[first : first + size]
                stop = ends[min(first + size, 150) - 1]
                opened.add_many(ids[stop - part.sum() : stop], part)
            opened.finish()

        assert files_of(tmp_path / "one by one") == files_of(tmp_path / f"by {size}")


IDS = st.integers(0, 2**31 - 1) | st.integers(0, 3)


@given(documents=st.lists(st.lists(IDS, max_size=40), max_size=8), batch=st.integers(1, 9))
@settings(max_examples=15, deadline=None)
def test_documents_come_back_as_they_were(documents: list[list[int]], batch: int) -> None:
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "CHUNK", 8)
        patch.setattr(layout, "SHARD", 32)
        with SplitWriter(folder, "en", "train") as opened:
            for first in range(0, len(documents), batch):
                part = documents[first : first + batch]
                flat = [token for ids in part for token in ids]
                opened.add_many(np.array(flat, np.int64), np.array([len(ids) for ids in part]))
            split = opened.finish()

        assert documents == documents_of(split)
        assert split.max_token_id == max([0, *(token for ids in documents for token in ids)])


def test_ids_of_the_whole_range_come_back_exactly(tmp_path: Path) -> None:
    ids = [0, 65535, 65536, 262143, 2147483647]
    split = write_split(tmp_path / "s", [ids])

    assert [ids] == documents_of(split)
    assert split.max_token_id == 2147483647
    group = json.loads(Path(split.path, "zarr.json").read_text())
    assert group["attributes"]["max_token_id"] == 2147483647


@pytest.mark.parametrize("bad", [2147483648, -1])
def test_an_id_out_of_range_is_refused_with_its_document_and_nothing_after_it_is_written(
    tmp_path: Path, bad: int
) -> None:
    opened = SplitWriter(tmp_path / "s", "en", "train")
    opened.add([1, 2])
    opened.add([])
    with pytest.raises(ValueError, match=rf"document 2 of language 'en', split 'train' .* has the id {bad}; ") as first:
        opened.add([3, bad])
    for act in (lambda: opened.add([4]), lambda: opened.add_many(np.array([4]), np.array([1])), opened.finish):
        with pytest.raises(ConvertError, match="has failed, and writes nothing more") as later:
            act()
        assert later.value.__cause__ is first.value

    with pytest.raises(StoreError, match="was not completed: its writer stopped before the end; convert it again"):
        open_store(tmp_path / "s")["en"]["train"]


@pytest.mark.parametrize("documents", [[], [[]], [[], [], []]])
def test_splits_without_tokens_can_be_written_and_opened(tmp_path: Path, documents: list[list[int]]) -> None:
    split = write_split(tmp_path / "s", documents, record_sources=True)

    assert (split.tokens, split.documents, split.max_token_id) == (0, len(documents), 0)
    assert documents == documents_of(split)
    assert split.piece_digests().shape == (1, 32)
    files, records = split.sources(0, len(documents))
    assert len(files) == len(records) == len(documents)


@pytest.mark.parametrize(
    ("sizes", "total"), [([], 0), ([3, 0, 4], 7), ([3, None, 4], None), ([None], None), ([np.int64(2)], 2)]
)
def test_text_bytes_are_added_up_or_unknown(tmp_path: Path, sizes: list[int | None], total: int | None) -> None:
    with SplitWriter(tmp_path / "s", "en", "train") as opened:
        for size in sizes:
            opened.add_many(np.array([1]), np.array([1]), size if size is None else int(size))

        assert opened.finish().utf8_bytes == total


@pytest.mark.parametrize("size", [-1, True])
def test_text_bytes_that_are_no_count_are_refused(tmp_path: Path, size: int) -> None:
    with pytest.raises(ValueError, match=f"utf8_bytes must be a number of bytes or None, not {size}"):
        SplitWriter(tmp_path / "s", "en", "train").add([1], utf8_bytes=size)


def test_recording_sources_needs_them(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="source_file is missing: this writer records the sources of language 'en'"):
        SplitWriter(tmp_path / "s", "en", "train", record_sources=True).add_many(np.array([1]), np.array([1]))


@pytest.mark.usefixtures("small")
def test_a_full_disk_leaves_an_incomplete_split_and_ends_the_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = []
    real = writer.write_shard

    def write_shard(folder: Path, start: int, values: np.ndarray, zarr_format: int) -> None:
        calls.append(start)
        if len(calls) == 3:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(folder, start, values, zarr_format)

    monkeypatch.setattr(writer, "write_shard", write_shard)
    opened = SplitWriter(tmp_path, "en", "train")
    for _ in range(19):  # 190 tokens, and a shard has 64
        opened.add(list(range(10)))
    with pytest.raises(OSError, match="No space left on device") as caught, opened:
        opened.add(list(range(10)))

    assert caught.value.errno == errno.ENOSPC
    assert str(tmp_path / "en/train") in str(caught.value)
    assert "language 'en', split 'train' of store" in str(caught.value)
    with pytest.raises(ConvertError, match="has failed"):
        opened.finish()
    assert calls == [0, 64, 128]
    assert open_store(tmp_path).status("en", "train") == "incomplete"


def test_a_failing_write_of_the_attributes_leaves_an_incomplete_split(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_attributes(group: Any, attributes: dict[str, Any]) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(writer, "write_attributes", write_attributes)
    with SplitWriter(tmp_path, "en", "train") as opened:
        opened.add([1, 2, 3])
        with pytest.raises(
            OSError, match=r"Input/output error; language 'en', split 'train' of store .* is left incomplete"
        ):
            opened.finish()
    assert open_store(tmp_path).status("en", "train") == "incomplete"


@pytest.mark.parametrize("array", ["encoded_tokens", "seq_starts", "source_file", "source_record"])
def test_what_does_not_read_back_is_not_marked_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, array: str
) -> None:
    real = writer.write_shard

    def write_shard(folder: Path, start: int, values: np.ndarray, zarr_format: int) -> None:
        real(folder, start, values + 2 if folder.name == array else values, zarr_format)

    monkeypatch.setattr(writer, "write_shard", write_shard)
    opened = SplitWriter(tmp_path, "en", "train", record_sources=True)
    opened.add([1, 2, 3])
    with pytest.raises(
        StoreError, match=rf"{array} of language 'en', split 'train' .* does not read back as it was written"
    ):
        opened.finish()
    assert open_store(tmp_path).status("en", "train") == "incomplete"


def test_a_shard_that_vanishes_while_writing_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "write_shard", lambda *_: None)
    opened = SplitWriter(tmp_path, "en", "train")
    opened.add([1, 2, 3])

    with pytest.raises(ReadError, match=r"encoded_tokens of language 'en'.* is missing or damaged"):
        opened.finish()
    assert open_store(tmp_path).status("en", "train") == "incomplete"


def test_the_mark_of_completion_is_the_last_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before: list[dict[str, bytes]] = []
    real = writer.write_attributes

    def write_attributes(group: Any, attributes: dict[str, Any]) -> None:
        before.append(files_of(tmp_path))
        real(group, attributes)

    monkeypatch.setattr(writer, "write_attributes", write_attributes)
    write_split(tmp_path, DOCUMENTS)
    after = files_of(tmp_path)

    assert len(before) == 1
    assert [name for name in after if after[name] != before[0].get(name)] == ["en/train/zarr.json"]


def test_leaving_a_writer_early_leaves_the_split_incomplete(tmp_path: Path) -> None:
    opened = SplitWriter(tmp_path, "en", "train")
    opened.add([1])
    with pytest.raises(KeyError), opened:
        raise KeyError("elsewhere")
    with SplitWriter(tmp_path, "ar", "train"):
        pass

    for language in ("en", "ar"):
        assert open_store(tmp_path).status(language, "train") == "incomplete"
    with pytest.raises(ConvertError, match=r"the writer of language 'en', split 'train' of store .* is closed"):
        opened.add([2])


def test_a_writer_that_has_finished_takes_nothing_more(tmp_path: Path) -> None:
    with SplitWriter(tmp_path, "en", "train") as opened:
        opened.add([1])
        opened.finish()
        for act in (lambda: opened.add([2]), opened.finish):
            with pytest.raises(ConvertError, match="is closed"):
                act()

    assert open_store(tmp_path).status("en", "train") == "complete"


def test_the_digest_is_that_of_the_content_whatever_the_chunks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = write_split(tmp_path / "one", DOCUMENTS)
    monkeypatch.setattr(layout, "CHUNK", 2)
    monkeypatch.setattr(layout, "SHARD", 4)
    other = write_split(tmp_path / "other", DOCUMENTS)

    assert one.digest == other.digest
    assert one.digest != write_split(tmp_path / "third", [[5, 6], [7], [], [8, 9, 10]]).digest


def zipf_documents() -> list[np.ndarray]:
    """60,000 tokens of 100 documents, ids below 32,000: some four chunks in Zarr v3."""
    rng = np.random.default_rng(7)
    share = 1 / (np.arange(32_000) + 2.7)
    return np.split(rng.choice(32_000, 60_000, p=share / share.sum()), np.sort(rng.integers(0, 60_000, 99)))


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_small_split_holds_the_same_in_less_room(tmp_path: Path, zarr_format: int) -> None:
    documents = zipf_documents()
    settings = {"zarr_format": zarr_format, "record_sources": True}
    fast = write_split(tmp_path / "fast", documents, **settings)
    small = write_split(tmp_path / "small", documents, **settings, compression="small")

    assert [ids.tolist() for ids in documents] == documents_of(small)
    assert small.digest == fast.digest
    sizes = [sum(map(len, files_of(Path(split.path, "encoded_tokens")).values())) for split in (fast, small)]
    assert 0.7 < sizes[1] / sizes[0] < 0.9


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zarr_itself_reads_a_small_split(tmp_path: Path, zarr_format: int) -> None:
    documents = zipf_documents()
    split = write_split(tmp_path, documents, zarr_format=zarr_format, compression="small")
    encoded = zarr.open_array(Path(split.path, "encoded_tokens"), mode="r")[:]

    np.testing.assert_array_equal(read(split.reader(), 0, split.tokens), encoded)
    np.testing.assert_array_equal(np.concatenate(documents), encoded >> 1)


def test_how_a_split_is_compressed_is_said_by_its_arrays_only(tmp_path: Path) -> None:
    write_split(tmp_path / "fast", DOCUMENTS)
    write_split(tmp_path / "small", DOCUMENTS, compression="small")
    fast, small = files_of(tmp_path / "fast"), files_of(tmp_path / "small")

    assert sorted(fast) == sorted(small)
    arrays = ("encoded_tokens/", "seq_starts/", "piece_digests/")
    assert [name for name in fast if fast[name] != small[name] and not any(part in name for part in arrays)] == []


def test_a_damaged_chunk_of_a_small_split_is_found(tmp_path: Path) -> None:
    split = write_split(tmp_path, [list(range(5000))], compression="small")
    file = Path(split.path, "encoded_tokens/c/0")
    data = bytearray(file.read_bytes())
    data[100] ^= 1
    file.write_bytes(data)

    with pytest.raises(ReadError, match=r"encoded_tokens of language 'en'.* chunk 0 .* is missing or damaged"):
        read(split.reader(), 0, 5000)


@pytest.mark.parametrize("name", ["smallest", "", "Small", 5])
def test_an_unknown_compression_is_refused_with_the_two_names(tmp_path: Path, name: Any) -> None:
    for write in (layout.check_compression, lambda name: SplitWriter(tmp_path / "s", "en", "train", compression=name)):
        with (
            suppress_type_checks(),
            pytest.raises(ValueError, match=f"compression must be 'fast' or 'small', not {name!r}"),
        ):
            write(name)

    assert list(tmp_path.iterdir()) == []


def test_no_path_or_date_is_in_a_store(tmp_path: Path) -> None:
    write_split(tmp_path / "s", DOCUMENTS)

    for name, content in files_of(tmp_path / "s").items():
        assert str(tmp_path).encode() not in content, name
