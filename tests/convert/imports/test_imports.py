"""Which kind a path is, and the way to its reader."""

import json
from pathlib import Path

import msgspec
import pytest
from older_stores import older_store
from token_files import find, llmc_file, megatron_files, raw_file, read

from flatmix.convert import imports
from flatmix.convert.inputs import Input
from flatmix.errors import ConvertError


def test_kinds_are_told_by_content_and_names(tmp_path: Path) -> None:
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards" / "index.json").write_text('{"a.bin": 1}')
    megatron_files(tmp_path / "m", [[[1]]])
    (tmp_path / "old.idx").write_bytes(b"TNTIDX\0\0" + bytes(20))
    (tmp_path / "eval.bin").write_bytes((20240522).to_bytes(4, "little") + bytes(1020))
    older_store(tmp_path / "old.zarr", {"train": [[1]]})
    kinds = {
        raw_file(tmp_path / "train.bin", [1, 2]): "nanogpt",
        llmc_file(tmp_path / "c.bin", [1]): "llm.c",
        str(tmp_path / "eval.bin"): "llm.c",
        str(tmp_path / "shards"): "shards",
        raw_file(tmp_path / "shards" / "a.bin", [1]): "shards",
        raw_file(tmp_path / "shards" / "b.bin", [1]): "nanogpt",
        str(tmp_path / "m.bin"): "megatron",
        str(tmp_path / "m.idx"): "megatron",
        str(tmp_path / "m"): "megatron",
        str(tmp_path / "old.idx"): "megatron",
        str(tmp_path / "old.zarr"): "flat-tokens",
        str(tmp_path / "old.zarr" / "train"): "flat-tokens",
    }

    assert {path: imports.detect(path) for path in kinds} == kinds
    assert set(kinds.values()) == set(imports.KINDS)


@pytest.mark.parametrize("index", ['{"a.jsonl": "x"}', "[1]", "{", '{"weight_map": {}}'])
def test_other_things_are_no_tokens(tmp_path: Path, index: str) -> None:
    (tmp_path / "index.json").write_text(index)
    (tmp_path / "a.jsonl").write_text('{"text": "a"}\n')
    (tmp_path / "b.idx").write_bytes(b"other")
    (tmp_path / "b").write_bytes(b"other")

    names = ["", "index.json", "a.jsonl", "b.idx", "b", "none", "none.bin", "none.idx", "index.json/a"]
    assert {name: imports.detect(str(tmp_path / name)) for name in names} == dict.fromkeys(names)
    assert imports.detect("s3://bucket/train.bin") is None


def test_paths_become_absolute_and_inputs_are_plain_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    raw_file(tmp_path / "a.bin", [1, 0])
    megatron_files(tmp_path / "m", [[[1]]])
    older_store(tmp_path / "old.zarr", {"train": [[1]]})
    monkeypatch.chdir(tmp_path)

    inputs = [
        *find("a.bin", "nanogpt", type="uint16", document_end=0),
        *find("m", "megatron"),
        *find("old.zarr", "flat-tokens"),
    ]

    assert [found.path for found in inputs] == [str(tmp_path / name) for name in ("a.bin", "m.bin", "old.zarr")]
    again = msgspec.json.decode(json.dumps(msgspec.to_builtins(inputs)), type=list[Input])
    assert again == inputs
    monkeypatch.chdir("/")
    assert [read(found) for found in again] == [[[1, 0]], [[1]], [[1]]]


def test_another_kind_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConvertError, match=r"there is no kind of tokens 'npy'; there are nanogpt, llm\.c, shards, "):
        find(tmp_path, "npy")
    with pytest.raises(ConvertError, match="is read as 'nanogpt', and the format given is 'shards'"):
        find(tmp_path, "nanogpt", format="shards")
