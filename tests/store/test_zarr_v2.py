"""Format 1 written in Zarr v2: the same content, for readers that know no other."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from helpers import documents_of, edit_json, files_of, read, write_split
from numcodecs.blosc import Blosc

from flatmix.errors import ConvertError, ReadError, StoreError
from flatmix.store import folders, open_store, writer
from flatmix.store import format as layout
from flatmix.store.writer import SplitWriter

DOCUMENTS = [[5, 6], [], [7], [8, 9, 10]]


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of 16 values."""
    monkeypatch.setattr(layout, "CHUNK_V2", 16)


def blosc_array(shape: list[int], chunks: list[int], dtype: str) -> dict[str, Any]:
    return {
        "zarr_format": 2,
        "shape": shape,
        "chunks": chunks,
        "dtype": dtype,
        "compressor": {"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 2, "blocksize": 0},
        "fill_value": 0,
        "order": "C",
        "filters": None,
        "dimension_separator": ".",
    }


def test_the_files_of_a_store_are_pinned(tmp_path: Path) -> None:
    """A change of any of this is a change of the format."""
    split = write_split(tmp_path / "v2", DOCUMENTS, zarr_format=2)
    files = files_of(tmp_path / "v2")
    train = {name.removeprefix("en/train/"): content for name, content in files.items() if name.startswith("en/train/")}

    assert set(files) - {f"en/train/{name}" for name in train} == {".zattrs", ".zgroup", "en/.zattrs", "en/.zgroup"}
    assert sorted(train) == [
        ".zattrs",
        ".zgroup",
        "encoded_tokens/.zarray",
        "encoded_tokens/.zattrs",
        "encoded_tokens/0",
        "piece_digests/.zarray",
        "piece_digests/.zattrs",
        "piece_digests/0.0",
        "seq_starts/.zarray",
        "seq_starts/.zattrs",
        "seq_starts/0",
    ]
    assert json.loads(files[".zattrs"]) == {"flatmix": {"format": 1}}
    assert json.loads(train["encoded_tokens/.zarray"]) == blosc_array([6], [6], "<u4")
    assert json.loads(train["seq_starts/.zarray"]) == blosc_array([5], [5], "<u8")
    assert json.loads(train["piece_digests/.zarray"]) == blosc_array([2, 32], [2, 32], "|u1")
    assert np.frombuffer(Blosc().decode(train["encoded_tokens/0"]), "<u4").tolist() == [11, 12, 15, 17, 18, 20]
    assert np.frombuffer(Blosc().decode(train["seq_starts/0"]), "<u8").tolist() == [0, 2, 2, 3, 6]
    assert Blosc().decode(train["piece_digests/0.0"]) == split.piece_digests().tobytes()
    write_split(tmp_path / "v3", DOCUMENTS)
    v3 = json.loads((tmp_path / "v3/en/train/zarr.json").read_text())
    assert json.loads(train[".zattrs"]) == v3["attributes"]


def test_it_opens_as_the_same_split(tmp_path: Path) -> None:
    settings = {"record_sources": True, "source": {"data": "é", "files": [], "options": {}}}
    new, old = (write_split(tmp_path / f"v{v}", DOCUMENTS, zarr_format=v, **settings) for v in (3, 2))
    store = open_store(tmp_path / "v2")

    assert (store.zarr_format, store.languages, store["en"].splits) == (2, ("en",), ("train",))
    assert store["en"]["train"] == old
    assert documents_of(old) == DOCUMENTS
    for name in ("tokens", "documents", "max_token_id", "utf8_bytes", "digest", "identity", "source", "weak"):
        assert getattr(new, name) == getattr(old, name), name
    assert [part.tolist() for part in old.sources(0, 4)] == [[0] * 4, [0] * 4]
    assert new.piece_digests().tolist() == old.piece_digests().tolist()


def test_a_reader_of_the_older_format_reads_a_language(tmp_path: Path) -> None:
    """It knows these names, and nothing of flatmix."""
    write_split(tmp_path / "s", DOCUMENTS, zarr_format=2)
    write_split(tmp_path / "s", [[1]], split="validation", zarr_format=2)
    root = zarr.open_group(tmp_path / "s/en", mode="r", zarr_format=2)
    train = root["train"]

    assert train["encoded_tokens"][:].tolist() == [11, 12, 15, 17, 18, 20]
    assert train["seq_starts"][:].tolist() == [0, 2, 2, 3, 6]
    assert (train["encoded_tokens"].dtype, train["seq_starts"].dtype) == (np.uint32, np.uint64)
    assert (train.attrs["max_token_id"], root["validation"].attrs["max_token_id"]) == (10, 1)


@pytest.mark.parametrize("length", [0, 1, 15, 16, 17, 31, 32, 33])
@pytest.mark.usefixtures("small")
def test_chunks_are_clipped_to_the_array_and_all_are_there(tmp_path: Path, length: int) -> None:
    split = write_split(tmp_path / "s", [[0] * length], zarr_format=2)
    tokens = split.arrays["encoded_tokens"]
    chunks = sorted(file.name for file in Path(split.path, "encoded_tokens").glob("[0-9]*"))

    assert (tokens.chunk, tokens.shard) == (min(16, max(1, length)), None)
    assert chunks == [str(chunk) for chunk in range(-(-length // 16))]  # those of zeros too
    assert documents_of(split) == [[0] * length]


def test_chunks_have_4194304_values(tmp_path: Path) -> None:
    """And however many threads Blosc may use, equal documents give equal files."""
    ids = np.random.default_rng(5).integers(0, 2000, 2**22 + 9)
    for name in ("one", "other"):
        with SplitWriter(tmp_path / name, "en", "train", zarr_format=2) as opened:
            opened.add_many(ids, np.array([2**22 + 9]))
            split = opened.finish()

    assert (split.arrays["encoded_tokens"].chunk, split.arrays["seq_starts"].chunk) == (2**22, 2)
    assert files_of(tmp_path / "one") == files_of(tmp_path / "other")
    assert sorted(file.name for file in Path(split.path, "encoded_tokens").glob("[0-9]*")) == ["0", "1"]
    assert (read(split.reader(), 2**22 - 2, 2**22 + 2) >> 1).tolist() == ids[2**22 - 2 : 2**22 + 2].tolist()


@pytest.mark.usefixtures("small")
def test_equal_documents_give_equal_files_however_they_are_added(tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    lengths = rng.integers(0, 12, 30)
    ids = rng.integers(0, 2**31, lengths.sum())
    write_split(tmp_path / "one by one", np.split(ids, np.cumsum(lengths)[:-1]), zarr_format=2, replace=True)
    for again in (False, True):
        with SplitWriter(tmp_path / "at once", "en", "train", zarr_format=2, replace=again) as opened:
            opened.add_many(ids, lengths)
            opened.finish()

        assert files_of(tmp_path / "one by one") == files_of(tmp_path / "at once")


@pytest.mark.parametrize(("array", "unit"), [("encoded_tokens", "tokens"), ("seq_starts", "entries")])
@pytest.mark.parametrize("damage", ["deleted", "cut"])
@pytest.mark.usefixtures("small")
def test_a_damaged_chunk_is_an_error_that_names_it(tmp_path: Path, array: str, unit: str, damage: str) -> None:
    split = write_split(tmp_path / "s", [[0]] * 40, zarr_format=2)
    chunk = Path(split.path, array, "1")
    content = chunk.read_bytes()
    chunk.unlink()
    if damage == "cut":
        chunk.write_bytes(content[:-1])

    with pytest.raises(
        ReadError, match=rf"{array} of language 'en'.*: chunk 1, which holds the {unit} \[16, 32\), is "
    ):
        read(split.reader(), 3, 20) if array == "encoded_tokens" else split.seq_starts(3, 20)


def test_the_mark_of_completion_is_the_last_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before: list[dict[str, bytes]] = []
    real = writer.write_attributes

    def write_attributes(group: Any, attributes: dict[str, Any]) -> None:
        before.append(files_of(tmp_path))
        assert open_store(tmp_path).status("en", "train") == "incomplete"
        real(group, attributes)

    monkeypatch.setattr(writer, "write_attributes", write_attributes)
    write_split(tmp_path, DOCUMENTS, zarr_format=2)
    after = files_of(tmp_path)

    assert len(before) == 1
    assert [name for name in after if after[name] != before[0].get(name)] == ["en/train/.zattrs"]


@pytest.mark.parametrize("complete", [True, False])
def test_a_split_that_replaces_another_is_like_a_first_one(tmp_path: Path, complete: bool) -> None:
    with SplitWriter(tmp_path / "s", "en", "train", record_sources=True, zarr_format=2) as opened:
        opened.add([1, 2])
        if complete:
            opened.finish()
    write_split(tmp_path / "s", [[7, 8]], zarr_format=2, replace=True)
    write_split(tmp_path / "fresh", [[7, 8]], zarr_format=2)

    assert files_of(tmp_path / "fresh") == files_of(tmp_path / "s")
    with pytest.raises(StoreError, match="is there already; ask to replace it"):
        SplitWriter(tmp_path / "s", "en", "train", zarr_format=2)


def test_another_process_may_make_the_same_store_at_any_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A group that is there without its attributes would look to it like one that is not ours."""
    real, found = zarr.create_group, []

    def create_group(folder: Path, **settings: Any) -> zarr.Group:
        monkeypatch.setattr(zarr, "create_group", real)
        found.append(sorted(file.name for file in folder.iterdir()))
        folders.create_store(folder, 2)  # the other process is faster
        found.append(sorted(file.name for file in folder.iterdir()))
        return real(folder, **settings)

    monkeypatch.setattr(zarr, "create_group", create_group)
    folders.create_store(tmp_path / "s", 2)
    folders.create_store(tmp_path / "alone", 2)

    assert found == [[".zattrs"], [".zattrs", ".zgroup"]]
    assert files_of(tmp_path / "s") == files_of(tmp_path / "alone")
    assert open_store(tmp_path / "s").languages == ()


@pytest.mark.parametrize("there", [2, 3])
def test_a_store_has_one_version_of_zarr(tmp_path: Path, there: int) -> None:
    other = 5 - there
    write_split(tmp_path / "s", DOCUMENTS, zarr_format=there)
    before = files_of(tmp_path / "s")

    for language, split, replace in (("ar", "train", False), ("en", "validation", False), ("en", "train", True)):
        message = (
            f"{tmp_path / 's'} is of Zarr v{there}, and Zarr v{other} was asked for: a store is of one version; ask "
        )
        with pytest.raises(ConvertError, match=message):
            SplitWriter(tmp_path / "s", language, split, replace=replace, zarr_format=other)
    assert files_of(tmp_path / "s") == before


@pytest.mark.parametrize("replace", [False, True])
def test_a_group_of_the_other_version_inside_a_store_is_refused_and_not_touched(tmp_path: Path, replace: bool) -> None:
    write_split(tmp_path / "v2", DOCUMENTS, zarr_format=2)
    write_split(tmp_path / "v3", DOCUMENTS)
    (tmp_path / "v3/en").rename(tmp_path / "v2/ar")
    before = files_of(tmp_path / "v2")

    with pytest.raises(ConvertError, match=f"{tmp_path / 'v2/ar'} is of Zarr v3, and Zarr v2 was asked for"):
        SplitWriter(tmp_path / "v2", "ar", "train", replace=replace, zarr_format=2)
    assert files_of(tmp_path / "v2") == before
    assert open_store(tmp_path / "v2").languages == ("en",)
    with pytest.raises(StoreError, match="no language 'ar'"):
        open_store(tmp_path / "v2")["ar"]


@pytest.mark.parametrize("replace", [False, True])
def test_folders_that_are_not_ours_are_refused_and_not_touched(tmp_path: Path, replace: bool) -> None:
    zarr.create_group(tmp_path / "foreign", zarr_format=2)
    zarr.create_array(tmp_path / "array", shape=(3,), chunks=(3,), dtype="uint32", zarr_format=2)
    write_split(tmp_path / "s", [[1]], zarr_format=2)
    zarr.create_group(tmp_path / "s/en/other", zarr_format=2)
    before = files_of(tmp_path)

    for path, split, message in (
        ("foreign", "train", "is a Zarr group, but not a flat-tokens store"),
        ("array", "train", "is an output folder that is not ours: it holds '.zarray'"),
        ("s", "other", "is there already and is not a split of flatmix; it is left as it is"),
    ):
        with pytest.raises(ConvertError, match=message):
            SplitWriter(tmp_path / path, "en", split, replace=replace, zarr_format=2)
    assert files_of(tmp_path) == before


@pytest.mark.parametrize("zarr_format", [1, 4, True])
def test_another_version_is_refused_before_anything_is_made(tmp_path: Path, zarr_format: int) -> None:
    with pytest.raises(
        ValueError, match=f"zarr_format must be 3, or 2 for readers that know no other, not {zarr_format}"
    ):
        SplitWriter(tmp_path / "s", "en", "train", zarr_format=zarr_format)
    assert list(tmp_path.iterdir()) == []


def test_attributes_that_are_not_what_the_format_says_are_refused(tmp_path: Path) -> None:
    write_split(tmp_path / "s", DOCUMENTS, zarr_format=2)
    edit_json(tmp_path / "s/en/train", lambda attributes: attributes["flatmix"].update(tokens=7), ".zattrs")

    with pytest.raises(StoreError, match=r"encoded_tokens has the shape \[6\], and the attributes say \[7\]"):
        open_store(tmp_path / "s")["en"]["train"]
