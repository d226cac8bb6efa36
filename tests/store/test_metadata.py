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


def attributes(group: dict[str, Any]) -> dict[str, Any]:
    return group["attributes"]["flatmix"]


def refusal(store: Path) -> str:
    with pytest.raises(StoreError) as caught:
        open_store(store)["en"]["train"]
    return str(caught.value)


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


@pytest.mark.parametrize("place", [".", "en", "en/train", "en/train/encoded_tokens"])
def test_a_folder_in_the_place_of_metadata_is_refused_with_its_name(store: Path, place: str) -> None:
    file = store / place / "zarr.json"
    file.unlink()
    file.mkdir()

    assert f"{file} is damaged: it is a folder" in refusal(store)


def test_metadata_of_any_size_is_not_read(store: Path) -> None:
    with (store / "en/train/zarr.json").open("r+b") as stream:
        stream.truncate(2**40)  # a sparse file

    assert "has 1099511627776 bytes, and metadata of a store has at most 16777216" in refusal(store)


def test_consolidated_metadata_is_neither_written_nor_trusted(store: Path) -> None:
    assert "consolidated_metadata" not in json.loads((store / "zarr.json").read_text())

    stale = {"kind": "inline", "must_understand": False, "metadata": {"xx": {"node_type": "group", "zarr_format": 3}}}
    edit_json(store, lambda group: group.update(consolidated_metadata=stale))

    assert open_store(store).languages == ("en",)


def test_the_group_of_zarr_v3_counts_where_there_are_both(store: Path) -> None:
    """As for zarr itself; what is left of the other one may be of any age."""
    (store / ".zgroup").write_text('{"zarr_format": 2}')
    (store / ".zattrs").write_text("{}")

    assert open_store(store).zarr_format == 3


@pytest.mark.parametrize(("name", "content"), [(".zgroup", "[]"), (".zattrs", "{"), (".zattrs", "")])
def test_damaged_metadata_of_zarr_v2_is_refused_with_its_file(tmp_path: Path, name: str, content: str) -> None:
    write_split(tmp_path / "s", [[1]], zarr_format=2)
    file = tmp_path / "s/en/train" / name
    file.write_text(content)

    assert f"{file} is damaged: it is not a JSON object" in refusal(tmp_path / "s")


@pytest.mark.parametrize("content", ['{"zarr_format": 3}', "{}"])
def test_what_is_no_group_of_zarr_v2_is_not_taken_for_one(tmp_path: Path, content: str) -> None:
    write_split(tmp_path / "s", [[1]], zarr_format=2)
    (tmp_path / "s/en/train/.zgroup").write_text(content)

    assert "has no split 'train'; it has no splits at all" in refusal(tmp_path / "s")
