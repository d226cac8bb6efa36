"""What a pattern names, in which order, with which reader, and under which names it is kept."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from older_stores import older_store
from token_files import llmc_file, megatron_files, raw_file

from flatmix.convert.find import ReadOptions, Source, find_source, stamp_now
from flatmix.convert.inputs import Fields, Input
from flatmix.errors import ConvertError, ReadError


def find(patterns: list[Any], language: str | None = "en", options: Any = ReadOptions()) -> Source:  # noqa: B008
    return find_source(language, "train", patterns, Fields(language=None if language else "lang"), options)


def names(patterns: list[Any]) -> tuple[str, ...]:
    return tuple(one.name for one in find(patterns).inputs)


def paths(patterns: list[Any]) -> tuple[str, ...]:
    return tuple(one.path for one in find(patterns).inputs)


def make_files(folder: Path, *names: str) -> Path:
    for name in names:
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    return folder


def test_files_of_a_folder_are_sorted_by_name_whatever_the_order_they_were_made_in(tmp_path):
    one = make_files(tmp_path / "one", "b.jsonl", "a.jsonl", "sub/d.jsonl", "c.jsonl")
    two = make_files(tmp_path / "two", "c.jsonl", "sub/d.jsonl", "a.jsonl", "b.jsonl")

    expected = ("a.jsonl", "b.jsonl", "c.jsonl", "sub/d.jsonl")
    assert names([one]) == expected
    assert names([two]) == expected
    assert find([one]).data == find([two]).data


@pytest.mark.parametrize("pattern", [".", "*", "**/*.jsonl"])
def test_order_does_not_follow_the_listing(tmp_path, monkeypatch, pattern):
    """Even where the file system lists names backwards."""
    make_files(tmp_path, "b.jsonl", "a.jsonl", "x/c.jsonl", "d/c.jsonl")
    walk, listdir = os.walk, os.listdir

    def backwards(*arguments, **options):
        for path, folders, names in walk(*arguments, **options):
            folders.sort(reverse=True)
            yield path, folders, sorted(names, reverse=True)

    monkeypatch.setattr(os, "walk", backwards)
    monkeypatch.setattr(os, "listdir", lambda folder: sorted(listdir(folder), reverse=True))

    assert names([tmp_path / pattern]) == ("a.jsonl", "b.jsonl", "d/c.jsonl", "x/c.jsonl")


def test_a_glob_is_sorted_and_several_patterns_keep_their_order(tmp_path):
    make_files(tmp_path, "x/b.jsonl", "x/a.jsonl", "w.txt", "x/notes.md")

    source = find([tmp_path / "x" / "*.jsonl", tmp_path / "w.txt"])

    assert tuple(one.name for one in source.inputs) == ("x/a.jsonl", "x/b.jsonl", "w.txt")
    assert source.data == "*.jsonl, w.txt"


def test_names_do_not_tell_where_the_input_lies(tmp_path):
    make_files(tmp_path / "deep" / "down", "en/a.jsonl", "more/b.jsonl")

    source = find([tmp_path / "deep/down/en", tmp_path / "deep/down/more/b.jsonl"])

    assert tuple(one.name for one in source.inputs) == ("en/a.jsonl", "more/b.jsonl")
    assert source.data == "*, b.jsonl"


def test_hidden_files_are_passed_over(tmp_path):
    make_files(tmp_path, ".DS_Store", ".cache/x.jsonl", "a.jsonl")

    assert names([tmp_path]) == ("a.jsonl",)


def test_a_hidden_folder_or_file_that_is_named_is_taken(tmp_path):
    make_files(tmp_path, ".data/a.jsonl", ".data/.b.jsonl", ".c.jsonl", "d.jsonl")

    assert names([tmp_path / ".data"]) == ("a.jsonl",)
    assert names([tmp_path / ".*.jsonl"]) == (".c.jsonl",)
    assert names([tmp_path / "*.jsonl"]) == ("d.jsonl",)
    with pytest.raises(ConvertError, match="no file is there to convert"):
        find([tmp_path / "*/*.jsonl"])


def test_a_folder_that_a_glob_matches_stands_for_all_files_in_it(tmp_path):
    make_files(tmp_path, "in/a.jsonl", "in/sub/b.jsonl", "in/sub/deep/c.jsonl", "in/x.jsonl/d.jsonl")
    everything = ("a.jsonl", "sub/b.jsonl", "sub/deep/c.jsonl", "x.jsonl/d.jsonl")

    for pattern in ("in", "in/*", "in/**", "in/**/*", "**", "*/**/*", "in/**/**"):
        assert names([tmp_path / pattern]) == everything
    assert names([tmp_path / "in/*.jsonl"]) == ("a.jsonl", "x.jsonl/d.jsonl")
    assert names([tmp_path / "in/**/c.jsonl"]) == ("c.jsonl",)
    assert names([tmp_path / "in/s?b/*.jsonl"]) == ("b.jsonl",)
    assert names([tmp_path / "*/a.jsonl"]) == ("a.jsonl",)
    assert find([tmp_path / "*/a.jsonl"]).folders == ()
    assert find([tmp_path / "in/s*"]).folders == (str(tmp_path / "in/sub"),)


def test_links_to_files_and_folders_are_followed(tmp_path):
    make_files(tmp_path, "in/a.jsonl", "far/b.jsonl", "far/sub/c.jsonl", "other.jsonl")
    (tmp_path / "in/more").symlink_to(tmp_path / "far")
    (tmp_path / "in/z.jsonl").symlink_to("../other.jsonl")

    for pattern in ("in", "in/*", "in/**/*.jsonl"):
        expected = ("a.jsonl", "more/b.jsonl", "more/sub/c.jsonl", "z.jsonl")
        assert names([tmp_path / pattern]) == expected
        assert paths([tmp_path / pattern]) == tuple(str(tmp_path / "in" / name) for name in expected)


@pytest.mark.parametrize(("link", "target"), [("in/sub/up", ".."), ("in/z", "sub"), ("in/sub/self", ".")])
@pytest.mark.parametrize("pattern", ["in", "*", "in/**/*.jsonl"])
def test_a_folder_that_links_lead_to_again_is_refused(tmp_path, pattern, link, target):
    make_files(tmp_path, "in/a.jsonl", "in/sub/b.jsonl")
    (tmp_path / link).symlink_to(target)

    with pytest.raises(
        ConvertError, match=rf"{link} and .* are the same folder, so its documents would be there twice"
    ):
        find([tmp_path / pattern])


@pytest.mark.parametrize("link", ["in/b.jsonl", "in/sub", "in/sub2/c.jsonl"])
@pytest.mark.parametrize("pattern", ["in", "in/*", "in/**", "*/*/*.jsonl"])
def test_a_link_to_nothing_is_refused(tmp_path, link, pattern):
    make_files(tmp_path, "in/a.jsonl", "in/sub2/d.jsonl")
    (tmp_path / link).symlink_to("gone")

    with pytest.raises(ConvertError, match=rf"{link} is a link to nothing, or to what cannot be reached"):
        find([tmp_path / pattern])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_what_is_neither_a_file_nor_a_folder_is_refused(tmp_path):
    make_files(tmp_path, "a.jsonl")
    os.mkfifo(tmp_path / "b.jsonl")

    for pattern in (".", "*.jsonl", "b.jsonl"):
        with pytest.raises(ConvertError, match=r"b\.jsonl is no file, or cannot be reached; move it out of the input"):
            find([tmp_path / pattern])


@pytest.mark.parametrize("pattern", ["in", "in/*", "in/**/*.jsonl", "in/*/*.jsonl"])
def test_a_folder_that_cannot_be_listed_is_an_error(tmp_path, monkeypatch, pattern):
    """As one without the right to read, which root always has."""
    make_files(tmp_path, "in/a.jsonl", "in/locked/b.jsonl", "in/open/c.jsonl")

    for name in ("scandir", "listdir"):
        real = getattr(os, name)

        def refusing(folder, real=real):
            if os.fspath(folder).endswith("locked"):
                raise PermissionError(13, "Permission denied", os.fspath(folder))
            return real(folder)

        monkeypatch.setattr(os, name, refusing)

    with pytest.raises(PermissionError, match=r"Permission denied: .*locked"):
        find([tmp_path / pattern])


def test_a_store_among_the_input_is_named_as_such(tmp_path):
    from flatmix.store.folders import create_store

    make_files(tmp_path, "in/a.jsonl")
    create_store(tmp_path / "in/3.zarr")
    for pattern in ("in", "in/*", "in/**/*.json"):
        with pytest.raises(ConvertError, match=r"3\.zarr is a Zarr group, such as a store, and no input; move it out"):
            find([tmp_path / pattern])
    create_store(tmp_path / "in/2.zarr", zarr_format=2)
    with pytest.raises(ConvertError, match=r"2\.zarr is a Zarr group"):
        find([tmp_path / "in/2*"])


def test_a_file_whose_name_looks_like_a_glob_is_that_file(tmp_path):
    make_files(tmp_path, "a[1].jsonl", "a1.jsonl")

    assert names([tmp_path / "a[1].jsonl"]) == ("a[1].jsonl",)


def test_a_relative_path_is_taken_from_the_working_folder(tmp_path, monkeypatch):
    make_files(tmp_path, "data/a.jsonl")
    monkeypatch.chdir(tmp_path)

    assert paths(["data"]) == (str(tmp_path / "data/a.jsonl"),)
    assert names(["data/*.jsonl"]) == ("a.jsonl",)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("nothing", r"nothing: there is no such file or folder"),
        ("*.jsonl", r"\*\.jsonl: no file is there to convert"),
        ("empty", r"empty: no file is there to convert"),
    ],
)
def test_a_pattern_without_files_is_refused(tmp_path, pattern, message):
    (tmp_path / "empty").mkdir()

    with pytest.raises(ConvertError, match=message):
        find([tmp_path / pattern])


def test_other_kinds_of_file_are_refused_with_the_kinds_that_can_be_read(tmp_path):
    make_files(tmp_path, "a/a.jsonl", "a/README", "words.bz2")

    with pytest.raises(ConvertError, match=r"README: files of kind \(none\) cannot be converted"):
        find([tmp_path / "a"])
    with pytest.raises(ConvertError, match=r"words\.bz2: files of kind \.bz2 .*\.jsonl, .*\.txt.* \.gz .*\.parquet"):
        find([tmp_path / "words.bz2"])


def test_a_file_named_twice_is_refused(tmp_path):
    make_files(tmp_path, "a.jsonl")

    with pytest.raises(ConvertError, match=r"a\.jsonl is named twice for 'en'"):
        find([tmp_path, tmp_path / "*.jsonl"])


def test_plain_text_cannot_name_its_language(tmp_path):
    make_files(tmp_path, "a.txt")

    with pytest.raises(ConvertError, match=r"a\.txt: plain text has no field that names its language"):
        find([tmp_path], None)


@pytest.mark.skipif(os.name != "posix", reason="only there can a name be no text")
def test_a_name_that_is_not_utf8_is_refused(tmp_path):
    make_files(tmp_path, os.fsdecode(b"\xff.jsonl"))

    with pytest.raises(ConvertError, match="is not UTF-8"):
        find([tmp_path])


@pytest.mark.parametrize(
    ("name", "kind", "compression"),
    [
        ("a.jsonl", "json-lines", None),
        ("a.json", "json-lines", None),
        ("a.NDJSON", "json-lines", None),
        ("a.jsonl.gz", "json-lines", "gz"),
        ("a.json.zst", "json-lines", "zst"),
        ("a.txt", "text", None),
        ("a.TXT.GZ", "text", "gz"),
        ("a.txt.zst", "text", "zst"),
    ],
)
def test_a_name_tells_the_kind_and_the_compression(tmp_path, name, kind, compression):
    (tmp_path / name).write_text("0123456789")

    (found,) = find([tmp_path]).inputs

    assert (found.kind, found.options, found.size) == (kind, {"compression": compression}, 10)


def test_a_stamp_changes_with_the_file(tmp_path):
    file = make_files(tmp_path, "a.jsonl") / "a.jsonl"
    (found,) = find([file]).inputs

    assert stamp_now(found) == found.stamp
    os.utime(file, ns=(1, 1))
    assert stamp_now(found) != found.stamp
    file.unlink()
    with pytest.raises(ReadError, match=r"a\.jsonl cannot be reached: No such file or directory"):
        stamp_now(found)


def test_a_url_of_a_file_is_its_path(tmp_path):
    make_files(tmp_path, "a.jsonl")

    assert paths([f"file://{tmp_path}/*.jsonl"]) == (str(tmp_path / "a.jsonl"),)


def test_a_parquet_file_is_found_among_others(tmp_path):
    import pyarrow
    from pyarrow import parquet

    make_files(tmp_path, "in/a.jsonl", "in/sub/c.txt")
    parquet.write_table(pyarrow.table({"text": ["one", "two"]}), tmp_path / "in/sub/b.parquet")

    inputs = find([tmp_path / "in"]).inputs

    assert [(one.name, one.kind) for one in inputs] == [
        ("a.jsonl", "json-lines"),
        ("sub/b.parquet", "parquet"),
        ("sub/c.txt", "text"),
    ]
    assert stamp_now(inputs[1]) == inputs[1].stamp


@pytest.mark.parametrize("pattern", ["saved", "sav*", "saved/"])
def test_a_saved_data_set_is_one_input_and_its_files_are_none(tmp_path, pattern):
    import datasets

    datasets.Dataset.from_dict({"text": ["one", "two"]}).save_to_disk(tmp_path / "saved")

    source = find([tmp_path / pattern])

    assert [(one.kind, one.path, one.name) for one in source.inputs] == [("saved", str(tmp_path / "saved"), "saved")]
    assert source.folders == (str(tmp_path / "saved"),)
    assert [stamp_now(one) for one in source.inputs] == [source.inputs[0].stamp]


def test_a_data_set_of_the_hub_is_asked_for_by_name(monkeypatch):
    """The hub is a fake here: only what is asked of it counts."""
    from flatmix.convert import hub

    asked = []

    def fake(spec: str, split: str, fields: Fields, download: bool) -> list[Input]:
        asked.append((spec, split, fields, download))
        return [Input(path="x/y", name="x/y/train", kind="hub-stream", size=0, stamp="s")]

    monkeypatch.setattr(hub, "find_hub", fake)

    source = find(["hf:x/y"], options=ReadOptions(download=True))

    assert asked == [("hf:x/y", "train", Fields(), True)]
    assert (source.data, source.inputs[0].name) == ("hf:x/y", "x/y/train")
    assert stamp_now(source.inputs[0]) == "s"


TOKENS = {"document_end": 0}


def test_files_of_tokens_are_told_by_their_content(tmp_path):
    (tmp_path / "in/sub").mkdir(parents=True)
    llmc_file(tmp_path / "in/a.bin", [1, 0])
    megatron_files(tmp_path / "in/sub/b", [[[1, 2]]])

    source = find([tmp_path / "in/a.bin"], options=ReadOptions(tokens=TOKENS))
    assert [(one.name, one.kind) for one in source.inputs] == [("a.bin", "llm.c")]
    for pattern in ("in/sub", "in/sub/*", "in/sub/b.bin", "in/sub/b.idx", "in/sub/b", "*/sub"):
        (found,) = find([tmp_path / pattern]).inputs
        assert (found.name, found.kind, stamp_now(found)) == ("b.bin", "megatron", found.stamp)


def test_both_halves_of_a_megatron_file_may_be_named(tmp_path):
    """As a shell does that expands b.* itself."""
    megatron_files(tmp_path / "b", [[[1, 2]]])

    assert names([tmp_path / "b.bin", tmp_path / "b.idx"]) == ("b.bin",)
    with pytest.raises(ConvertError, match=r"b\.bin is named twice for 'en'"):
        find([tmp_path / "b.bin", tmp_path / "b"])


def test_a_format_that_is_named_holds_for_files_without_a_mark(tmp_path):
    (tmp_path / "in").mkdir()
    raw_file(tmp_path / "in/a.u16", [1, 0])
    raw_file(tmp_path / "in/b.u16", [2, 0])
    tokens = {"format": "nanogpt", "type": "uint16", **TOKENS}

    inputs = find([tmp_path / "in"], options=ReadOptions(tokens=tokens)).inputs

    assert [(one.name, one.kind) for one in inputs] == [("a.u16", "nanogpt"), ("b.u16", "nanogpt")]
    with pytest.raises(ConvertError, match=r"a\.u16: files of kind \.u16 cannot be converted"):
        find([tmp_path / "in"])
    with pytest.raises(ConvertError, match=r"a\.u16 is no file of tokens"):
        find([tmp_path / "in"], options=ReadOptions(tokens=TOKENS))


@pytest.mark.parametrize(
    "patterns", [["in"], ["in/*"], ["."], ["in/index.json", "in/s0", "in/s1"], ["in/s0", "in/index.json"]]
)
def test_shards_are_those_of_their_index_wherever_it_is_named(tmp_path, patterns):
    (tmp_path / "in").mkdir()
    for name in ("s0", "s1", "spare"):
        raw_file(tmp_path / "in" / name, [1, 0])
    (tmp_path / "in/index.json").write_text(json.dumps({"s0": 2, "s1": 2}))

    source = find([tmp_path / pattern for pattern in patterns], options=ReadOptions(tokens=TOKENS))

    assert [(one.name, one.kind) for one in source.inputs] == [("s0", "shards"), ("s1", "shards")]


def test_an_older_store_is_taken_where_it_is_named_itself_only(tmp_path):
    older_store(tmp_path / "in/old.zarr", {"train": [[1, 2]], "validation": [[3]]})

    (found,) = find([tmp_path / "in/old.zarr"]).inputs
    assert (found.kind, found.name, stamp_now(found)) == ("flat-tokens", "old.zarr/train", found.stamp)
    (found,) = find_source("en", "validation", [tmp_path / "in/old.zarr"], Fields()).inputs
    assert found.name == "old.zarr/validation"
    for pattern in ("in", "in/*"):
        with pytest.raises(ConvertError, match=r"old\.zarr is a Zarr group"):
            find([tmp_path / pattern])


def test_a_store_of_this_format_is_to_be_copied(standard):
    with pytest.raises(ConvertError, match="is of format 1, which needs no conversion"):
        find([standard])


def test_text_and_tokens_exclude_each_other(tmp_path):
    make_files(tmp_path, "a.jsonl")
    megatron_files(tmp_path / "b", [[[1, 2]]])

    with pytest.raises(ConvertError, match=r"a\.jsonl is text and .*b\.bin is tokens already"):
        find([tmp_path])


def test_tokens_cannot_name_their_language(tmp_path):
    megatron_files(tmp_path / "b", [[[1, 2]]])

    with pytest.raises(ConvertError, match=r"b\.bin: tokens have no field that names their language"):
        find([tmp_path], None)


def test_files_of_several_patterns_keep_their_sequence_among_other_inputs(tmp_path, monkeypatch):
    from flatmix.convert import hub

    make_files(tmp_path, "b.jsonl", "a.jsonl")
    stream = Input(path="x", name="x/train", kind="hub-stream", size=0)
    monkeypatch.setattr(hub, "find_hub", lambda *_: [stream])

    assert names([tmp_path / "b.jsonl", "hf:x", tmp_path / "a.jsonl"]) == ("b.jsonl", "x/train", "a.jsonl")
