"""Which files a pattern names, in which order, and under which names they are kept."""

import os
from pathlib import Path

import pytest

from flatmix.convert.sources import find_source
from flatmix.errors import ConvertError


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
    assert find_source("en", [one]).names == expected
    assert find_source("en", [two]).names == expected
    assert find_source("en", [one]).data == find_source("en", [two]).data


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

    assert find_source("en", [tmp_path / pattern]).names == ("a.jsonl", "b.jsonl", "d/c.jsonl", "x/c.jsonl")


def test_a_glob_is_sorted_and_several_patterns_keep_their_order(tmp_path):
    make_files(tmp_path, "x/b.jsonl", "x/a.jsonl", "w.txt", "x/notes.md")

    source = find_source("en", [tmp_path / "x" / "*.jsonl", tmp_path / "w.txt"])

    assert source.names == ("x/a.jsonl", "x/b.jsonl", "w.txt")
    assert source.data == "*.jsonl, w.txt"


def test_names_do_not_tell_where_the_input_lies(tmp_path):
    make_files(tmp_path / "deep" / "down", "en/a.jsonl", "more/b.jsonl")

    source = find_source("en", [tmp_path / "deep/down/en", tmp_path / "deep/down/more/b.jsonl"])

    assert source.names == ("en/a.jsonl", "more/b.jsonl")
    assert source.data == "*, b.jsonl"


def test_hidden_files_are_passed_over(tmp_path):
    make_files(tmp_path, ".DS_Store", ".cache/x.jsonl", "a.jsonl")

    assert find_source("en", [tmp_path]).names == ("a.jsonl",)


def test_a_hidden_folder_or_file_that_is_named_is_taken(tmp_path):
    make_files(tmp_path, ".data/a.jsonl", ".data/.b.jsonl", ".c.jsonl", "d.jsonl")

    assert find_source("en", [tmp_path / ".data"]).names == ("a.jsonl",)
    assert find_source("en", [tmp_path / ".*.jsonl"]).names == (".c.jsonl",)
    assert find_source("en", [tmp_path / "*.jsonl"]).names == ("d.jsonl",)
    with pytest.raises(ConvertError, match="no file is there to convert"):
        find_source("en", [tmp_path / "*/*.jsonl"])


def test_a_folder_that_a_glob_matches_stands_for_all_files_in_it(tmp_path):
    make_files(tmp_path, "in/a.jsonl", "in/sub/b.jsonl", "in/sub/deep/c.jsonl", "in/x.jsonl/d.jsonl")
    everything = ("a.jsonl", "sub/b.jsonl", "sub/deep/c.jsonl", "x.jsonl/d.jsonl")

    for pattern in ("in", "in/*", "in/**", "in/**/*", "**", "*/**/*", "in/**/**"):
        assert find_source("en", [tmp_path / pattern]).names == everything
    assert find_source("en", [tmp_path / "in/*.jsonl"]).names == ("a.jsonl", "x.jsonl/d.jsonl")
    assert find_source("en", [tmp_path / "in/**/c.jsonl"]).names == ("c.jsonl",)
    assert find_source("en", [tmp_path / "in/s?b/*.jsonl"]).names == ("b.jsonl",)
    assert find_source("en", [tmp_path / "*/a.jsonl"]).names == ("a.jsonl",)
    assert find_source("en", [tmp_path / "*/a.jsonl"]).folders == ()
    assert find_source("en", [tmp_path / "in/s*"]).folders == (str(tmp_path / "in/sub"),)


def test_links_to_files_and_folders_are_followed(tmp_path):
    make_files(tmp_path, "in/a.jsonl", "far/b.jsonl", "far/sub/c.jsonl", "other.jsonl")
    (tmp_path / "in/more").symlink_to(tmp_path / "far")
    (tmp_path / "in/z.jsonl").symlink_to("../other.jsonl")

    for pattern in ("in", "in/*", "in/**/*.jsonl"):
        source = find_source("en", [tmp_path / pattern])
        assert source.names == ("a.jsonl", "more/b.jsonl", "more/sub/c.jsonl", "z.jsonl")
        assert source.real[1:] == tuple(
            str(tmp_path / name) for name in ("far/b.jsonl", "far/sub/c.jsonl", "other.jsonl")
        )


@pytest.mark.parametrize(("link", "target"), [("in/sub/up", ".."), ("in/z", "sub"), ("in/sub/self", ".")])
@pytest.mark.parametrize("pattern", ["in", "*", "in/**/*.jsonl"])
def test_a_folder_that_links_lead_to_again_is_refused(tmp_path, pattern, link, target):
    make_files(tmp_path, "in/a.jsonl", "in/sub/b.jsonl")
    (tmp_path / link).symlink_to(target)

    with pytest.raises(
        ConvertError, match=rf"{link} and .* are the same folder, so its documents would be there twice"
    ):
        find_source("en", [tmp_path / pattern])


@pytest.mark.parametrize("link", ["in/b.jsonl", "in/sub", "in/sub2/c.jsonl"])
@pytest.mark.parametrize("pattern", ["in", "in/*", "in/**", "*/*/*.jsonl"])
def test_a_link_to_nothing_is_refused(tmp_path, link, pattern):
    make_files(tmp_path, "in/a.jsonl", "in/sub2/d.jsonl")
    (tmp_path / link).symlink_to("gone")

    with pytest.raises(ConvertError, match=rf"{link} is a link to nothing, or to what cannot be reached"):
        find_source("en", [tmp_path / pattern])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes with names here")
def test_what_is_neither_a_file_nor_a_folder_is_refused(tmp_path):
    make_files(tmp_path, "a.jsonl")
    os.mkfifo(tmp_path / "b.jsonl")

    for pattern in (".", "*.jsonl", "b.jsonl"):
        with pytest.raises(ConvertError, match=r"b\.jsonl is no file, or cannot be reached; move it out of the input"):
            find_source("en", [tmp_path / pattern])


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
        find_source("en", [tmp_path / pattern])


def test_a_store_among_the_input_is_named_as_such(tmp_path):
    from flatmix.store.folders import create_store

    make_files(tmp_path, "in/a.jsonl")
    create_store(tmp_path / "in/3.zarr")
    for pattern in ("in", "in/*", "in/**/*.json"):
        with pytest.raises(ConvertError, match=r"3\.zarr is a Zarr group, such as a store, and no input; move it out"):
            find_source("en", [tmp_path / pattern])
    create_store(tmp_path / "in/2.zarr", zarr_format=2)
    with pytest.raises(ConvertError, match=r"2\.zarr is a Zarr group"):
        find_source("en", [tmp_path / "in/2*"])


def test_a_file_whose_name_looks_like_a_glob_is_that_file(tmp_path):
    make_files(tmp_path, "a[1].jsonl", "a1.jsonl")

    assert find_source("en", [tmp_path / "a[1].jsonl"]).names == ("a[1].jsonl",)


def test_a_relative_path_is_taken_from_the_working_folder(tmp_path, monkeypatch):
    make_files(tmp_path, "data/a.jsonl")
    monkeypatch.chdir(tmp_path)

    assert find_source("en", ["data"]).files == (Path("data/a.jsonl"),)
    assert find_source("en", ["data/*.jsonl"]).names == ("a.jsonl",)


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
        find_source("en", [tmp_path / pattern])


def test_other_kinds_of_file_are_refused_with_the_kinds_that_can_be_read(tmp_path):
    make_files(tmp_path, "a/a.jsonl", "a/README", "part.parquet")

    with pytest.raises(ConvertError, match=r"README: files of kind \(none\) cannot be converted"):
        find_source("en", [tmp_path / "a"])
    with pytest.raises(ConvertError, match=r"part\.parquet: files of kind \.parquet .*\.jsonl, .*\.txt"):
        find_source("en", [tmp_path / "part.parquet"])


def test_a_file_named_twice_is_refused(tmp_path):
    make_files(tmp_path, "a.jsonl")

    with pytest.raises(ConvertError, match=r"a\.jsonl is named twice for 'en'"):
        find_source("en", [tmp_path, tmp_path / "*.jsonl"])


def test_plain_text_cannot_name_its_language(tmp_path):
    make_files(tmp_path, "a.txt")

    with pytest.raises(ConvertError, match=r"a\.txt: plain text has no field that names its language"):
        find_source(None, [tmp_path])


@pytest.mark.skipif(os.name != "posix", reason="only there can a name be no text")
def test_a_name_that_is_not_utf8_is_refused(tmp_path):
    make_files(tmp_path, os.fsdecode(b"\xff.jsonl"))

    with pytest.raises(ConvertError, match="is not UTF-8"):
        find_source("en", [tmp_path])
