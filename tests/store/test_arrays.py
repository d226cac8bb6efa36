import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from helpers import documents_of, edit_json, write_split
from numcodecs import BZ2, LZ4, Blosc, GZip, Zlib, Zstd
from older_stores import older_store

from flatmix.errors import StoreError
from flatmix.store import open_store

Change = Callable[[dict[str, Any]], Any]

DOCUMENTS = [[5, 6], [], [7], [8, 9, 10]]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same documents in a store of each version of Zarr, and in an older one of each."""
    path = tmp_path_factory.mktemp("whole")
    for version in (2, 3):
        write_split(path / f"v{version}", DOCUMENTS, zarr_format=version)
        older_store(path / f"older{version}", {"train": DOCUMENTS}, version)
    return path


@pytest.fixture
def stores(whole: Path, tmp_path: Path) -> Path:
    """Copies to damage."""
    return shutil.copytree(whole, tmp_path / "s")


def sharding(array: dict[str, Any]) -> dict[str, Any]:
    return array["codecs"][0]["configuration"]


def refusal(store: Path, language: str | None = None) -> str:
    with pytest.raises(StoreError) as caught:
        open_store(store, language)["en"]["train"]
    assert f"language 'en', split 'train' of store {store}" in str(caught.value)
    return str(caught.value)


V3: list[tuple[str, Change, str]] = [
    ("encoded_tokens", lambda a: a.update(data_type="int32"), "encoded_tokens has the data type 'int32', not 'uint32'"),
    ("seq_starts", lambda a: a.update(data_type="uint32"), "seq_starts has the data type 'uint32', not 'uint64'"),
    ("encoded_tokens", lambda a: a.update(shape=[7]), "has the shape [7], and the attributes say [6]"),
    ("encoded_tokens", lambda a: a.update(shape=[6, 1]), "has the shape [6, 1]"),
    ("encoded_tokens", lambda a: a.update(shape=[6.0]), "has the shape [6.0]"),
    ("encoded_tokens", lambda a: a.pop("shape"), "has the shape None"),
    ("seq_starts", lambda a: a.update(shape=[4]), "has the shape [4], and the attributes say [5]"),
    ("piece_digests", lambda a: a.update(shape=[3, 32]), "has the shape [3, 32], and the attributes say [2, 32]"),
    ("encoded_tokens", lambda a: a.update(zarr_format=2), "encoded_tokens is not a Zarr v3 array"),
    ("encoded_tokens", lambda a: a.update(node_type="group"), "encoded_tokens is not a Zarr v3 array"),
    ("encoded_tokens", lambda a: a.pop("node_type"), "encoded_tokens is not a Zarr v3 array"),
    ("encoded_tokens", lambda a: a.update(codecs=[{"name": "pickle"}]), "the codec 'pickle'"),
    ("seq_starts", lambda a: sharding(a)["codecs"].append({"name": "pickle"}), "the codec 'pickle'"),
    ("seq_starts", lambda a: sharding(a)["index_codecs"].append("numcodecs.pickle"), "the codec 'numcodecs.pickle'"),
    (
        "seq_starts",
        lambda a: sharding(a)["codecs"].append({"name": "sharding_indexed"}),
        "the codec 'sharding_indexed'",
    ),
    (
        "seq_starts",
        lambda a: a["codecs"].insert(0, {"name": "numcodecs.delta", "configuration": {"dtype": "<i8"}}),
        "the codec 'numcodecs.delta'",
    ),
    ("encoded_tokens", lambda a: a.update(codecs=[]), "the codecs []"),
    ("encoded_tokens", lambda a: a.update(codecs=["sharding_indexed"]), "without a configuration"),
    ("encoded_tokens", lambda a: a.update(chunk_grid={"name": "rectilinear"}), "is not a regular one"),
    ("encoded_tokens", lambda a: a["chunk_grid"]["configuration"].update(chunk_shape=[0]), "is not a regular one"),
    (
        "encoded_tokens",
        lambda a: sharding(a).update(chunk_shape=[5]),
        "has chunks of the shape [5] in shards of [16384]",
    ),
]


@pytest.mark.parametrize(("array", "change", "message"), V3)
def test_an_array_that_is_not_what_the_format_says_is_refused(
    stores: Path, array: str, change: Change, message: str
) -> None:
    edit_json(stores / "v3/en/train" / array, change)

    assert message in refusal(stores / "v3")


DELTA = {"id": "delta", "dtype": "<i8", "astype": "<i8"}
V2: list[tuple[str, Change, str]] = [
    ("encoded_tokens", lambda a: a.update(dtype=">u4"), "encoded_tokens has the data type '>u4', not '<u4'"),
    ("seq_starts", lambda a: a.update(dtype="<i8"), "seq_starts has the data type '<i8', not '<u8'"),
    ("piece_digests", lambda a: a.update(dtype="<u4"), "piece_digests has the data type '<u4', not '|u1'"),
    ("encoded_tokens", lambda a: a.update(dtype=[["a", "<u4"]]), "has the data type [['a', '<u4']]"),
    ("encoded_tokens", lambda a: a.update(shape=[7]), "has the shape [7], and the attributes say [6]"),
    ("encoded_tokens", lambda a: a.update(zarr_format=3), "encoded_tokens is not a Zarr v2 array"),
    ("encoded_tokens", lambda a: a.update(chunks=[0]), "has chunks of the shape [0], not one of 1 dimensions"),
    ("encoded_tokens", lambda a: a.update(chunks=[4, 1]), "has chunks of the shape [4, 1]"),
    ("encoded_tokens", lambda a: a.pop("chunks"), "has chunks of the shape None"),
    ("encoded_tokens", lambda a: a.update(order="F"), "has the order 'F', and only 'C' is read here"),
    ("encoded_tokens", lambda a: a.update(compressor={"id": "pickle"}), "the compressor 'pickle'; only blosc, zlib, "),
    ("seq_starts", lambda a: a.update(compressor={"id": "lz4"}), "the compressor 'lz4'"),
    ("seq_starts", lambda a: a.update(compressor="blosc2"), "the compressor 'blosc2'"),
    ("seq_starts", lambda a: a.update(compressor={}), "the compressor None"),
    ("encoded_tokens", lambda a: a.update(filters=[DELTA]), "encoded_tokens uses the filter 'delta', which is not"),
    ("seq_starts", lambda a: a.update(filters=[DELTA]), "seq_starts uses the filter 'delta', which is not decoded"),
    ("seq_starts", lambda a: a.update(filters=["pickle"]), "seq_starts uses the filter 'pickle'"),
    ("seq_starts", lambda a: a.update(filters={"id": "crc32"}), "seq_starts uses the filter 'crc32'"),
]


@pytest.mark.parametrize(("array", "change", "message"), V2)
def test_an_array_of_zarr_v2_that_is_not_what_the_format_says_is_refused(
    stores: Path, array: str, change: Change, message: str
) -> None:
    edit_json(stores / "v2/en/train" / array, change, ".zarray")

    assert message in refusal(stores / "v2")


OLDER_V2: list[tuple[str, Change, str]] = [
    ("encoded_tokens", lambda a: a.update(filters=[DELTA]), "encoded_tokens uses the filter 'delta', which is not"),
    ("encoded_tokens", lambda a: a.update(shape=[6, 1]), "has the shape [6, 1], not one axis"),
    ("encoded_tokens", lambda a: a.update(shape=[-6]), "has the shape [-6], not one axis"),
    ("encoded_tokens", lambda a: a.update(dtype="<i4"), "has the data type '<i4', not '<u4'"),
    ("seq_starts", lambda a: a["filters"].append({"id": "pickle"}), "seq_starts uses the filter 'delta'"),
    ("seq_starts", lambda a: a["filters"][0].update(dtype="<i4"), "seq_starts uses the filter 'delta'"),
    ("seq_starts", lambda a: a["filters"][0].update(astype="<i4"), "seq_starts uses the filter 'delta'"),
    ("seq_starts", lambda a: a["filters"][0].update(id="pickle"), "seq_starts uses the filter 'pickle'"),
    ("seq_starts", lambda a: a.update(shape=[0]), "seq_starts has 0 entries for 6 tokens"),
    ("seq_starts", lambda a: a.update(shape=[1]), "seq_starts has 1 entries for 6 tokens"),
]


@pytest.mark.parametrize(("array", "change", "message"), OLDER_V2)
def test_an_array_of_an_older_store_that_is_not_as_it_should_be_is_refused(
    stores: Path, array: str, change: Change, message: str
) -> None:
    edit_json(stores / "older2/train" / array, change, ".zarray")

    assert message in refusal(stores / "older2", "en")


OLDER_V3: list[tuple[str, Change, str]] = [
    ("seq_starts", lambda a: a["codecs"].insert(1, a["codecs"][0]), "uses the codec 'numcodecs.delta'"),
    ("seq_starts", lambda a: a["codecs"][0]["configuration"].update(dtype="<f8"), "uses the codec 'numcodecs.delta'"),
    ("seq_starts", lambda a: a["codecs"][0].update(configuration=[]), "uses the codec 'numcodecs.delta'"),
    ("seq_starts", lambda a: a["codecs"].__setitem__(0, "numcodecs.delta"), "uses the codec 'numcodecs.delta'"),
    ("seq_starts", lambda a: a.update(codecs=a["codecs"][:1]), "has the codecs [], which is not a list of them"),
    ("encoded_tokens", lambda a: a["codecs"].insert(0, {"name": "numcodecs.delta"}), "the codec 'numcodecs.delta'"),
]


@pytest.mark.parametrize(("array", "change", "message"), OLDER_V3)
def test_an_array_of_an_older_store_in_zarr_v3_that_is_not_as_it_should_be_is_refused(
    stores: Path, array: str, change: Change, message: str
) -> None:
    edit_json(stores / "older3/train" / array, change)

    assert message in refusal(stores / "older3", "en")


def test_the_other_codecs_on_the_list_are_read(stores: Path) -> None:
    """The identity of a split does not depend on its codecs, so a copy written with others opens too."""
    before = open_store(stores / "v3")["en"]["train"].digest
    for codec in (zarr.codecs.ZstdCodec(), zarr.codecs.GzipCodec()):
        values = np.array([11, 12, 15, 17, 18, 20], np.uint32)
        folder = stores / "v3/en/train/encoded_tokens"
        zarr.create_array(folder, data=values, chunks=(4,), compressors=[codec], overwrite=True)
        split = open_store(stores / "v3")["en"]["train"]
        assert documents_of(split) == DOCUMENTS
        assert before == split.digest
        assert split.arrays["encoded_tokens"].shard is None


@pytest.mark.parametrize("compressor", [Blosc("zstd"), Zlib(), GZip(), BZ2(), Zstd(), None], ids=repr)
def test_the_compressors_on_the_list_for_zarr_v2_are_read(tmp_path: Path, compressor: Any) -> None:
    path = older_store(tmp_path / "s", {"train": DOCUMENTS}, compressor=compressor)

    assert documents_of(open_store(path, "en")["en"]["train"]) == DOCUMENTS


def test_a_compressor_that_only_zarr_knows_is_refused_by_name(tmp_path: Path) -> None:
    path = older_store(tmp_path / "s", {"train": DOCUMENTS}, compressor=LZ4())

    message = refusal(path, "en")

    assert "uses the compressor 'lz4'; only blosc, zlib, gzip, bz2, zstd and none are decoded here" in message


def test_keys_that_zarr_v2_ignores_do_no_harm(stores: Path) -> None:
    """And a key that stores of the first years lack is not missed."""
    for array in ("encoded_tokens", "seq_starts"):
        edit_json(stores / "older2/train" / array, lambda a: a.update(extra={"x": 1}), ".zarray")
        edit_json(stores / "older2/train" / array, lambda a: a.pop("dimension_separator"), ".zarray")

    assert documents_of(open_store(stores / "older2", "en")["en"]["train"]) == DOCUMENTS
