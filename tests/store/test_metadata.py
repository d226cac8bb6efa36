import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers import edit_json, write_split

from flatmix.errors import StoreError
from flatmix.store import open_store

Change = Callable[[dict[str, Any]], Any]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "s"
    write_split(path, [[5, 6], [], [7], [8, 9, 10]])
    return path


@pytest.fixture
def store(whole: Path, tmp_path: Path) -> Path:
    """A copy to damage."""
    return shutil.copytree(whole, tmp_path / "s")


def sharding(array: dict[str, Any]) -> dict[str, Any]:
    return array["codecs"][0]["configuration"]


def attributes(group: dict[str, Any]) -> dict[str, Any]:
    return group["attributes"]["flatmix"]


def refusal(store: Path) -> str:
    with pytest.raises(StoreError) as caught:
        open_store(store)["en"]["train"]
    return str(caught.value)


ARRAYS: list[tuple[str, Change, str]] = [
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
    ("encoded_tokens", lambda a: a.update(codecs=[{"name": "pickle"}]), "the codec 'pickle'"),
    ("seq_starts", lambda a: sharding(a)["codecs"].append({"name": "pickle"}), "the codec 'pickle'"),
    ("seq_starts", lambda a: sharding(a)["index_codecs"].append("numcodecs.pickle"), "the codec 'numcodecs.pickle'"),
    (
        "seq_starts",
        lambda a: sharding(a)["codecs"].append({"name": "sharding_indexed"}),
        "the codec 'sharding_indexed'",
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


@pytest.mark.parametrize(("array", "change", "message"), ARRAYS)
def test_an_array_that_is_not_what_the_format_says_is_refused(
    store: Path, array: str, change: Change, message: str
) -> None:
    edit_json(store / "en/train" / array, change)

    assert message in refusal(store)
    assert f"language 'en', split 'train' of store {store}" in refusal(store)


ATTRIBUTES: list[tuple[Change, str]] = [
    (
        lambda g: attributes(g).update(complete=False),
        "was not completed: its writer stopped before the end; convert it",
    ),
    (lambda g: attributes(g).update(complete="true"), "$.complete"),
    (lambda g: attributes(g).pop("complete"), "complete"),
    (lambda g: attributes(g).update(format=2), "has the format 2, and this version of flatmix reads format 1"),
    (lambda g: attributes(g).update(format=True), "has the format True"),
    (lambda g: attributes(g).update(tokens=-1), "$.tokens"),
    (lambda g: attributes(g).update(tokens=6.5), "$.tokens"),
    (lambda g: attributes(g).update(tokens=True), "$.tokens"),
    (lambda g: attributes(g).update(tokens=2**63), "$.tokens"),
    (lambda g: attributes(g).update(documents=0), "count 6 tokens in no documents"),
    (lambda g: attributes(g).update(documents=5), "seq_starts has the shape [5], and the attributes say [6]"),
    (lambda g: attributes(g).update(digest="abc"), "$.digest"),
    (lambda g: attributes(g).update(digest="A" * 64), "$.digest"),
    (lambda g: attributes(g).update(tokenizer="bytes"), "$.tokenizer"),
    (lambda g: attributes(g).update(utf8_bytes="9"), "$.utf8_bytes"),
    (lambda g: g["attributes"].update(max_token_id=2**31), "max_token_id is 2147483648"),
    (lambda g: g["attributes"].update(max_token_id=10.0), "max_token_id is 10.0"),
    (lambda g: g["attributes"].pop("max_token_id"), "max_token_id is None"),
    (lambda g: g["attributes"].update(flatmix=[1]), "its attribute 'flatmix' is [1], not an object"),
    (lambda g: g["attributes"].pop("flatmix"), "holds no attribute 'flatmix'"),
    (lambda g: g.update(attributes=3), "holds no attribute 'flatmix'"),
    (lambda g: g.update(node_type="array"), "has no split 'train'"),
]


@pytest.mark.parametrize(("change", "message"), ATTRIBUTES)
def test_attributes_that_are_not_what_the_format_says_are_refused(store: Path, change: Change, message: str) -> None:
    edit_json(store / "en/train", change)

    assert message in refusal(store)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[]", b"null", b'{"a": 1} x', b"\xff\xfe{}", b'{"a": NaN}', b"[" * 100_000],
)
def test_metadata_that_is_no_json_object_is_refused_with_its_file(store: Path, content: bytes) -> None:
    file = store / "en/train/seq_starts/zarr.json"
    file.write_bytes(content)

    assert f"{file} is damaged: it is not a JSON object" in refusal(store)


def test_metadata_of_any_size_is_not_read(store: Path) -> None:
    with (store / "en/train/zarr.json").open("r+b") as stream:
        stream.truncate(2**40)  # a sparse file

    assert "has 1099511627776 bytes, and metadata of a store has at most 16777216" in refusal(store)


def test_consolidated_metadata_is_neither_written_nor_trusted(store: Path) -> None:
    assert "consolidated_metadata" not in json.loads((store / "zarr.json").read_text())

    stale = {"kind": "inline", "must_understand": False, "metadata": {"xx": {"node_type": "group", "zarr_format": 3}}}
    edit_json(store, lambda group: group.update(consolidated_metadata=stale))

    assert open_store(store).languages == ("en",)


def test_the_other_codecs_on_the_list_are_read(store: Path) -> None:
    """The identity of a split does not depend on its codecs, so a copy written with others opens too."""
    import numpy as np
    import zarr
    from helpers import documents_of

    before = open_store(store)["en"]["train"].digest
    for compressor in ("zstd", "gzip"):
        codec = {"zstd": zarr.codecs.ZstdCodec, "gzip": zarr.codecs.GzipCodec}[compressor]()
        values = np.array([11, 12, 15, 17, 18, 20], np.uint32)
        zarr.create_array(
            store / "en/train/encoded_tokens", data=values, chunks=(4,), compressors=[codec], overwrite=True
        )
        split = open_store(store)["en"]["train"]
        assert documents_of(split) == [[5, 6], [], [7], [8, 9, 10]]
        assert before == split.digest
