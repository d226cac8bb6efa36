import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers import giant_store, read, write_split

from flatmix.errors import ReadError
from flatmix.store import Split, open_store
from flatmix.store import format as layout
from flatmix.store.writer import SplitWriter

TOKENS = 1000  # in chunks of 64 and shards of 256: four shards, the last one with 232 tokens in four chunks


@pytest.fixture
def split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Split:
    monkeypatch.setattr(layout, "CHUNK", 64)
    monkeypatch.setattr(layout, "SHARD", 256)
    with SplitWriter(tmp_path / "s", "en", "train") as writer:
        writer.add_many(np.arange(TOKENS), np.array([TOKENS]))
        return writer.finish()


def encoded(start: int, stop: int) -> np.ndarray:
    values = 2 * np.arange(start, stop, dtype=np.uint32)
    values[values == 0] = 1
    return values


def shard_file(split: Split, shard: int, array: str = "encoded_tokens") -> Path:
    return Path(split.path, array, "c", str(shard))


def test_every_span_is_what_was_written(split: Split) -> None:
    reader = split.reader()
    edges = [0, 1, 63, 64, 65, 255, 256, 257, 511, 513, 768, 999, 1000]
    for start in edges:
        for stop in (edge for edge in edges if edge >= start):
            np.testing.assert_array_equal(encoded(start, stop), read(reader, start, stop))


def test_many_reads_may_be_under_way_at_once(split: Split) -> None:
    reader = split.reader(threads=1)
    outs = [np.zeros(10, np.uint32) for _ in range(99)]
    futures = [reader.read(10 * row, 10 * row + 10, out) for row, out in enumerate(outs)]
    for future in futures:
        assert future.result(timeout=30) is None

    np.testing.assert_array_equal(encoded(0, 990), np.concatenate(outs))


def test_a_read_writes_into_part_of_memory_and_nowhere_else(split: Split) -> None:
    out = np.full((3, 8), 7, np.uint32)
    split.reader().read(60, 68, out[1]).result()

    np.testing.assert_array_equal(encoded(60, 68), out[1])
    assert [7] * 8 == out[0].tolist() == out[2].tolist()


@pytest.mark.parametrize("span", [(-1, 5), (5, 4), (990, 1001), (1001, 1001), (2**40, 2**40 + 1)])
def test_a_span_outside_the_split_is_an_index_error(split: Split, span: tuple[int, int]) -> None:
    out = np.zeros(max(0, span[1] - span[0]), np.uint32)
    with pytest.raises(
        IndexError, match=rf"\[{span[0]}, {span[1]}\) is not a span of \[0, 1000\) in encoded_tokens of"
    ):
        split.reader().read(*span, out)


@pytest.mark.parametrize(
    "out",
    [np.zeros(7, np.uint32), np.zeros(8, np.int32), np.zeros(8, np.uint64), np.zeros((1, 8), np.uint32)],
)
def test_memory_of_another_shape_or_type_is_refused(split: Split, out: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"\[0, 8\) needs memory of uint32\[8\], not "):
        split.reader().read(0, 8, out)


def test_memory_that_cannot_be_written_to_in_place_is_refused(split: Split) -> None:
    constant = np.zeros(8, np.uint32)
    constant.flags.writeable = False
    for out in (constant, np.zeros(16, np.uint32)[::2]):
        with pytest.raises(ValueError, match="must be C-contiguous and writeable"):
            split.reader().read(0, 8, out)


@pytest.mark.parametrize("threads", [0, -1, True])
def test_a_number_of_threads_that_is_none_is_refused(split: Split, threads: int) -> None:
    with pytest.raises(ValueError, match="threads must be None or an integer of at least 1"):
        split.reader(threads)


def cut(file: Path, size: int) -> None:
    with file.open("r+b") as stream:
        stream.truncate(size)


def flip(file: Path, byte: int) -> None:
    content = bytearray(file.read_bytes())
    content[byte] ^= 1
    file.write_bytes(content)


DAMAGE: dict[str, tuple[Callable[[Path], object], int]] = {
    "deleted": (lambda file: file.unlink(), 4),
    "cut to 5 bytes": (lambda file: cut(file, 5), 4),
    "cut to nothing": (lambda file: cut(file, 0), 4),
    "cut by one byte": (lambda file: cut(file, file.stat().st_size - 1), 4),
    "a bit of the first chunk flipped": (lambda file: flip(file, 40), 4),
    "a bit of the index flipped": (lambda file: flip(file, -30), 4),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_chunk_is_an_error_that_names_it_and_never_zeros(split: Split, damage: str) -> None:
    file = shard_file(split, 1)
    whole = file.read_bytes()
    reader = split.reader()
    change, chunk = DAMAGE[damage]
    change(file)

    for _ in range(2):
        out = np.full(400, 7, np.uint32)
        future = reader.read(100, 500, out)
        with pytest.raises(ReadError) as caught:
            future.result(timeout=30)
        message = str(caught.value)
        assert f"encoded_tokens of language 'en', split 'train' of store {split.store_path}" in message
        assert f"chunk {chunk} (in shard 1), which holds the tokens [{64 * chunk}, {64 * chunk + 64})" in message
        assert caught.value.__cause__ is not None
        with pytest.raises(ReadError):
            future.result()

    np.testing.assert_array_equal(encoded(0, 256), read(reader, 0, 256))  # the other shards are not affected
    file.write_bytes(whole)
    np.testing.assert_array_equal(encoded(100, 500), read(reader, 100, 500))  # nor is a reader, once the file is back


def test_the_first_damaged_chunk_is_the_one_named(split: Split) -> None:
    shard = shard_file(split, 2)
    index = np.frombuffer(shard.read_bytes()[-68:-4], "<u8").reshape(4, 2)  # (offset, bytes) of each chunk
    for chunk in (3, 1):
        flip(shard, int(index[chunk, 0]) + 20)

    with pytest.raises(ReadError, match=r"chunk 9 \(in shard 2\), which holds the tokens \[576, 640\)"):
        read(split.reader(), 0, TOKENS)
    with pytest.raises(ReadError, match=r"chunk 11 \(in shard 2\), which holds the tokens \[704, 768\)"):
        read(split.reader(), 700, 705)
    np.testing.assert_array_equal(encoded(640, 704), read(split.reader(), 640, 704))


def test_a_flipped_bit_anywhere_in_a_shard_is_found(split: Split) -> None:
    file = shard_file(split, 3)
    whole = file.read_bytes()
    for byte in range(0, len(whole), 7):
        flip(file, byte)
        with pytest.raises(ReadError, match="is missing or damaged"):
            read(split.reader(), 768, TOKENS)
        file.write_bytes(whole)


def test_a_chunk_left_out_of_the_index_is_damage(split: Split) -> None:
    """A writer may leave out chunks of zeros, and readers then fill them in; this store's writer never does."""
    import google_crc32c

    file = shard_file(split, 0)
    content = bytearray(file.read_bytes())
    content[-68:-52] = b"\xff" * 16
    content[-4:] = google_crc32c.value(bytes(content[-68:-4])).to_bytes(4, "little")
    file.write_bytes(content)

    with pytest.raises(ReadError, match=r"chunk 0 \(in shard 0\), which holds the tokens \[0, 64\), is missing"):
        read(split.reader(), 10, 20)


def test_a_read_that_fails_only_once_says_so(split: Split) -> None:
    file = shard_file(split, 1)
    whole = file.read_bytes()
    file.unlink()
    future = split.reader().read(300, 310, np.zeros(10, np.uint32))
    future._futures.done() or future._futures.exception()
    file.write_bytes(whole)

    with pytest.raises(ReadError, match=r"the tokens \[300, 310\) could not be read, though each chunk can be now: "):
        future.result()


def test_tokens_beyond_32_bits_are_addressed(tmp_path: Path) -> None:
    giant_store(tmp_path / "giant")
    giant = open_store(tmp_path / "giant")["en"]["train"]
    reader = giant.reader()

    assert giant.tokens == 257 * 2**24 > 2**32
    ids = read(reader, 2**32 - 3, 2**32 + 3)
    assert ids.tolist() == [2**25 - 6, 2**25 - 4, 2**25 - 2, 1, 2, 4]
    assert read(reader, giant.tokens - 1, giant.tokens).tolist() == [2**25 - 2]
    assert giant.seq_starts(256, 258).tolist() == [256 * 2**24, 257 * 2**24]
    with pytest.raises(IndexError, match=r"\[4311744512, 4311744513\) is not a span of \[0, 4311744512\)"):
        read(reader, giant.tokens, giant.tokens + 1)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_what_was_checked_on_opening_is_what_is_read_by(tmp_path: Path, zarr_format: int) -> None:
    """Metadata that was changed since then, here lost, is not looked at again."""
    split = write_split(tmp_path / "s", [[5, 6], [7]], zarr_format=zarr_format)
    Path(split.path, "encoded_tokens", "zarr.json" if zarr_format == 3 else ".zarray").unlink()

    assert read(split.reader(), 0, 3).tolist() == [11, 12, 15]


def test_rows_read_alone_do_not_fetch_the_shard_index_again(split: Split) -> None:
    import tensorstore as ts

    def requests() -> int:
        (metric,) = ts.experimental_collect_matching_metrics("/tensorstore/kvstore/file/batch_read")
        return int(metric["values"][0]["value"])

    reader = split.reader()
    read(reader, 0, 0)
    read(split.reader(), 0, 1)  # the metric exists from the first read on
    before = requests()
    for chunk in range(16):
        read(reader, 64 * chunk, 64 * chunk + 10)

    assert requests() - before == 16 + 4  # the chunks and one index for each shard


def test_a_forked_process_gets_an_error_instead_of_being_aborted(split: Split) -> None:
    code = f"""
        import os
        import numpy as np
        from flatmix.errors import ReadError
        from flatmix.store import open_store

        split = open_store({split.store_path!r})["en"]["train"]
        if os.fork() == 0:
            split.reader().read(0, 4, out := np.zeros(4, np.uint32)).result()
            print("before:", out, flush=True)
            os._exit(0)
        assert os.wait()[1] == 0
        reader = split.reader()
        reader.read(0, 4, out := np.zeros(4, np.uint32)).result()
        if os.fork() == 0:
            for act in (lambda: reader.read(0, 4, out), split.reader):
                try:
                    act()
                except ReadError as error:
                    print("after:", error, flush=True)
            os._exit(0)
        assert os.wait()[1] == 0
    """
    run = [sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)]
    done = subprocess.run(run, capture_output=True, text=True, timeout=60)

    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "before: [1 2 4 6]"
    assert len(lines) == 3
    assert all("this process was forked from one that had read a store" in line for line in lines[1:])


@pytest.mark.parametrize("zarr_format", [3, 2])
def test_a_split_that_is_replaced_while_it_is_open_is_never_mixed_with_the_new_one(
    tmp_path: Path, zarr_format: int
) -> None:
    def write(base: int) -> None:
        with SplitWriter(tmp_path / "s.zarr", "en", "train", zarr_format=zarr_format, replace=base > 0) as writer:
            writer.add(np.arange(base, base + 40_000))
            writer.finish()

    write(0)
    reader = open_store(tmp_path / "s.zarr")["en"]["train"].reader()
    opened = open_store(tmp_path / "s.zarr")["en"]["train"]
    out = np.empty(8, np.uint32)
    reader.read(0, 8, out).result()
    under_way = reader.read(20_000, 20_008, out)
    write(100)
    with pytest.raises(ReadError, match="replaced"):
        under_way.result()
    with pytest.raises(ReadError, match="replaced"):
        opened.reader().read(0, 8, out).result()
    for _ in range(2):
        with pytest.raises(
            ReadError, match=r"'en', split 'train' of store .* is gone or was replaced while it was open"
        ):
            reader.read(30_000, 30_008, out).result()
    open_store(tmp_path / "s.zarr")["en"]["train"].reader().read(30_000, 30_008, out).result()
    assert (out >> 1).tolist() == list(range(30_100, 30_108))


def test_a_copy_put_in_the_place_of_an_open_split_is_read_on(split: Split) -> None:
    reader, out = split.reader(), np.empty(8, np.uint32)
    metadata = Path(split.path, "zarr.json")
    content = metadata.read_bytes()
    metadata.unlink()
    with pytest.raises(ReadError, match="was replaced"):
        reader.read(0, 8, out).result()
    metadata.write_bytes(content)
    reader.read(0, 8, out).result()
