"""Files at addresses: an S3 of our own for what a network does, and the file system in memory for the rest."""

import gzip
import sys
from collections.abc import Iterator

import pytest
from s3 import put, s3_server

from flatmix.convert import places
from flatmix.convert.find import ReadOptions, Source, find_source, stamp_now
from flatmix.convert.inputs import Fields, Input
from flatmix.convert.lines import cut, read_records
from flatmix.errors import ConvertError, ReadError


@pytest.fixture(scope="module")
def s3() -> Iterator[None]:
    with s3_server():
        lines = b'{"text": "one"}\n{"text": "two"}\n'
        put(
            {
                "in/b.jsonl": lines,
                "in/a.jsonl.gz": gzip.compress(lines),
                "in/sub/c.txt": b"all",
                "in/.hidden/d.jsonl": lines,
                "in/sub/.e.jsonl": lines,
                "in/sub/": b"",
                "store/zarr.json": b"{}",
                "other/notes.md": b"",
            }
        )
        yield


@pytest.fixture
def memory() -> Iterator[None]:
    """The file system memory://, with nothing in it."""
    import fsspec

    fsspec.filesystem("memory").store.clear()
    yield
    fsspec.filesystem("memory").store.clear()


def put_in_memory(files: dict[str, bytes]) -> None:
    import fsspec

    for name, content in files.items():
        fsspec.filesystem("memory").pipe_file(f"/{name}", content)


def find(*patterns: str) -> Source:
    return find_source("en", "train", patterns, Fields())


def names(*patterns: str) -> list[str]:
    return [one.name for one in find(*patterns).inputs]


def texts(found: Input, size: int = 2**40) -> list[str | None]:
    stretches = cut(found, size)
    return [record.text for start, stop, _ in stretches for record in read_records(found, start, stop, Fields(), 0)]


@pytest.mark.parametrize("pattern", ["in", "in/", "in/**", "in/*", "i*"])
def test_a_folder_of_s3_stands_for_all_files_in_it_but_the_hidden(s3, pattern):
    source = find(f"s3://corpus/{pattern}")

    assert [one.name for one in source.inputs] == ["a.jsonl.gz", "b.jsonl", "sub/c.txt"]
    assert [one.kind for one in source.inputs] == ["json-lines", "json-lines", "text"]
    assert [one.path for one in source.inputs][2] == "s3://corpus/in/sub/c.txt"
    assert [one.size for one in source.inputs][1:] == [32, 3]
    assert source.folders == ()


@pytest.mark.parametrize(
    ("pattern", "expected", "data"),
    [
        ("in/*.jsonl", ["b.jsonl"], "*.jsonl"),
        ("in/**/*.txt", ["c.txt"], "**/*.txt"),
        ("in/[ab].jsonl*", ["a.jsonl.gz", "b.jsonl"], "[ab].jsonl*"),
        ("in/b.jsonl", ["b.jsonl"], "b.jsonl"),
        ("in/.hidden", ["d.jsonl"], "*"),
        ("in/sub/.*.jsonl", [".e.jsonl"], ".*.jsonl"),
        ("in", ["a.jsonl.gz", "b.jsonl", "sub/c.txt"], "*"),
    ],
)
def test_patterns_of_s3_are_those_of_folders_here(s3, pattern, expected, data):
    assert names(f"s3://corpus/{pattern}") == expected
    assert find(f"s3://corpus/{pattern}").data == data


def test_files_of_s3_are_read_compressed_or_not_and_in_any_stretches(s3):
    compressed, plain, text = find("s3://corpus/in").inputs

    assert texts(compressed) == ["one", "two"]
    for size in (1, 5, 16, 17, 100):
        assert texts(plain, size) == ["one", "two"]
    assert texts(text) == ["all"]


def test_a_listing_tells_all_that_is_needed_of_its_files(s3, monkeypatch):
    """So a folder of many files costs no request for each."""
    import fsspec

    asked = []
    files = fsspec.filesystem("s3")
    call = files._call_s3
    monkeypatch.setattr(
        files, "_call_s3", lambda method, *rest, **more: asked.append(method) or call(method, *rest, **more)
    )

    inputs = find("s3://corpus/in/**/*.*").inputs

    assert len(inputs) == 3
    assert set(asked) == {"list_objects_v2"}
    assert [stamp_now(one) for one in inputs] == [one.stamp for one in inputs]
    assert asked.count("head_object") == 3


def test_a_stretch_of_a_large_file_is_fetched_and_not_all_of_it(s3, monkeypatch):
    from s3fs.core import S3File

    line = b'{"text": "%s"}\n' % (b"x" * 987)
    put({"large/a.jsonl": line * 8000})
    (found,) = find("s3://corpus/large").inputs
    fetched = []
    fetch = S3File._fetch_range
    monkeypatch.setattr(S3File, "_fetch_range", lambda self, i, j: fetched.append((i, j)) or fetch(self, i, j))
    monkeypatch.setattr(places, "READ_AHEAD", 2**20)

    records = list(read_records(found, 4_000_000, 4_500_000, Fields(), 0))

    assert len(records) == 500
    assert min(i for i, _ in fetched) == 3_999_999
    assert max(j for _, j in fetched) < 8_000_000


def test_a_file_of_s3_that_changes_has_another_stamp(s3):
    put({"new/a.jsonl": b'{"text": "a"}'})
    (found,) = find("s3://corpus/new").inputs
    put({"new/a.jsonl": b'{"text": "b"}'})

    assert stamp_now(found) != found.stamp
    put({"new/a.jsonl": b'{"text"'})
    with pytest.raises(ReadError, match=r"s3://corpus/new/a\.jsonl had 13 bytes .*it was cut"):
        texts(found)


def test_what_is_not_there_or_no_input_is_refused(s3):
    for address in ("s3://corpus/gone", "s3://corpus/*.jsonl", "s3://nowhere/in", "s3://corpus/in/sub/.e*x"):
        with pytest.raises(ConvertError, match="no file is there to convert"):
            find(address)
    with pytest.raises(ConvertError, match=r"s3://corpus/store/zarr\.json is of a Zarr group"):
        find("s3://corpus/store")
    with pytest.raises(ConvertError, match=r"s3://corpus/other/notes\.md: files of kind \.md cannot be converted"):
        find("s3://corpus/other")
    with pytest.raises(ConvertError, match=r"b\.jsonl is named twice for 'en'"):
        find("s3://corpus/in/b.jsonl", "s3a://corpus/in/*.jsonl")


def test_a_file_that_went_away_is_an_error_with_its_address(s3):
    found = Input(path="s3://corpus/gone.jsonl", name="gone.jsonl", kind="json-lines", size=9)

    with pytest.raises(ReadError, match=r"s3://corpus/gone\.jsonl cannot be opened: .*FileNotFoundError|No such file"):
        texts(found)
    with pytest.raises(ReadError, match=r"s3://corpus/gone\.jsonl cannot be reached"):
        stamp_now(found)


def test_a_server_that_does_not_answer_is_an_error_with_the_address_and_the_cause():
    with pytest.raises(ReadError, match=r"http://127\.0\.0\.1:9/a\.jsonl cannot be listed: .*onnect"):
        find("http://127.0.0.1:9/a.jsonl")


def test_names_and_data_of_a_file_of_the_web_tell_no_secret(memory, monkeypatch):
    """The listing is a fake: what a query holds is what counts."""
    from flatmix.convert import find as find_module

    address = "https://host/data/a.jsonl.gz?token=secret"
    monkeypatch.setattr(find_module, "list_addresses", lambda one: ({one: (7, "7-x")}, "a.jsonl.gz"))

    (found,) = find(address).inputs

    assert (found.path, found.name, found.kind) == (address, "a.jsonl.gz", "json-lines")
    assert found.options == {"compression": "gz"}


def test_settings_of_tokens_are_not_for_addresses(memory):
    put_in_memory({"a.jsonl": b"{}"})

    with pytest.raises(ConvertError, match=r"a\.jsonl is no file of tokens on this machine; leave out the settings"):
        find_source("en", "train", ["memory://a.jsonl"], Fields(), ReadOptions(tokens={"document_end": 0}))


def test_any_file_system_that_fsspec_knows_is_read(memory):
    put_in_memory({"in/b.jsonl": b'{"text": "b"}\n', "in/sub/a.jsonl": b'{"text": "a"}\n', "in/.c.jsonl": b""})

    source = find("memory://in")

    assert [one.name for one in source.inputs] == ["b.jsonl", "sub/a.jsonl"]
    assert [texts(one) for one in source.inputs] == [["b"], ["a"]]
    assert [stamp_now(one) for one in source.inputs] == [one.stamp for one in source.inputs]
    assert names("memory://in/b.jsonl") == ["b.jsonl"]
    assert find("memory://in/b.jsonl").data == "b.jsonl"


def test_names_are_relative_for_files_here_and_elsewhere_apart(memory, tmp_path):
    put_in_memory({"in/far/b.jsonl": b"{}", "in/c.jsonl": b"{}"})
    (tmp_path / "a.jsonl").write_text("{}")

    assert names(str(tmp_path), "memory://in") == ["a.jsonl", "c.jsonl", "far/b.jsonl"]


def test_a_size_that_is_not_known_is_no_error(memory):
    """As of pages that a server makes when they are asked for."""
    put_in_memory({"a.jsonl": b'{"text": "a"}\n{"text": "b"}'})
    found = Input(path="memory://a.jsonl", name="a.jsonl", kind="json-lines", size=0)

    assert cut(found, 4) == [(0, None, 0)]
    assert texts(found) == ["a", "b"]


def test_a_failure_on_the_way_is_an_error_with_the_place(memory, monkeypatch):
    """Whatever the package raises that opens such addresses."""
    from fsspec.implementations.memory import MemoryFile

    put_in_memory({"a.jsonl": b'{"text": "a"}\n'})
    (found,) = find("memory://a.jsonl").inputs

    def fail(*_: object) -> int:
        raise RuntimeError("connection lost")

    monkeypatch.setattr(MemoryFile, "readinto", fail, raising=False)

    with pytest.raises(ReadError, match=r"memory:///a\.jsonl cannot be read from byte 0 on: RuntimeError: connection"):
        texts(found)


@pytest.mark.parametrize(
    ("address", "module", "package"),
    [("s3://a/b", "s3fs", "s3fs"), ("gs://a/b", "gcsfs", "gcsfs"), ("s3://a/b", "fsspec.core", "fsspec")],
)
def test_a_package_that_is_missing_is_named(monkeypatch, address, module, package):
    from fsspec.registry import _registry

    monkeypatch.delitem(_registry, address.partition(":")[0], raising=False)  # it may have been used before
    monkeypatch.setitem(sys.modules, module, None)

    with pytest.raises(ConvertError, match=rf"^{address}: the package .* is not there; pip install {package}$"):
        find(address)


def test_addresses_that_cannot_be_are_refused():
    with pytest.raises(ConvertError, match=r"^carrier://a/b is no address that can be opened: Protocol not known"):
        find("carrier://a/b")
    with pytest.raises(ConvertError, match="what lies within another file cannot be converted; unpack it"):
        find("zip://a.jsonl::s3://corpus/a.zip")
