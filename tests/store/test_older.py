"""Stores from before format 1, and what stands in for the proof that they lack."""

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from helpers import documents_of, edit_json, read, write_split
from numcodecs import Delta
from older_stores import older_store

from flatmix.errors import ReadError, StoreError
from flatmix.store import Split, open_store
from flatmix.store.older import undo_delta

DOCUMENTS = [[5, 6], [], [7], [8, 9, 10]]
# Tokens in chunks of 4: 24 of them are six chunks; document starts in chunks of 3.
LONG = [[1, 2, 3], [4] * 6, [], [5, 6], [7], [8] * 11, [9]]
KINDS = [(2, True), (2, False), (3, True), (3, False)]


def opened(path: Path, split: str = "train") -> Split:
    return open_store(path, "en")["en"][split]


def array_file(zarr_format: int) -> str:
    return ".zarray" if zarr_format == 2 else "zarr.json"


def chunk_file(path: Path, array: str, chunk: int, zarr_format: int) -> Path:
    return path / "train" / array / (str(chunk) if zarr_format == 2 else f"c/{chunk}")


@pytest.mark.parametrize(("zarr_format", "delta"), KINDS)
def test_an_older_store_opens_as_a_store_of_one_language(tmp_path: Path, zarr_format: int, delta: bool) -> None:
    path = older_store(tmp_path / "s", {"validation": [[3, 1]], "train": DOCUMENTS}, zarr_format, delta)
    store = open_store(path, language="sw")
    train, validation = store["sw"]["train"], store["sw"]["validation"]

    assert (store.languages, store.zarr_format, store["sw"].splits) == (("sw",), zarr_format, ("train", "validation"))
    assert list(store.open(["sw"], "train").values()) == [train]
    assert read(train.reader(), 0, 6).tolist() == [11, 12, 15, 17, 18, 20]
    assert train.seq_starts(0, 5).tolist() == [0, 2, 2, 3, 6]
    assert (train.tokens, train.documents, train.max_token_id) == (6, 4, 10)
    assert (documents_of(train), documents_of(validation)) == (DOCUMENTS, [[3, 1]])
    assert (train.language, train.name, train.path) == ("sw", "train", str(path / "train"))
    assert train.size_on_disk() == sum(f.stat().st_size for f in (path / "train").rglob("*") if f.is_file())


def test_what_an_older_store_does_not_say_is_unknown(tmp_path: Path) -> None:
    split = opened(older_store(tmp_path / "s", {"train": DOCUMENTS}))

    assert (split.utf8_bytes, split.tokenizer, split.source, split.sources(0, 4)) == (None, None, None, None)
    assert split.weak
    with pytest.raises(StoreError, match=r"split 'train' of store .* has no piece_digests: older stores cannot prove"):
        split.piece_digests()


@pytest.mark.parametrize("starts_chunk", [2, 3, 8, 100])
@pytest.mark.parametrize(("zarr_format", "delta"), KINDS)
def test_document_starts_are_read_by_span(tmp_path: Path, zarr_format: int, delta: bool, starts_chunk: int) -> None:
    split = opened(older_store(tmp_path / "s", {"train": LONG}, zarr_format, delta, starts_chunk=starts_chunk))
    starts = [0, 3, 9, 9, 11, 12, 23, 24]

    for start in range(9):
        for stop in range(start, 9):
            found = split.seq_starts(start, stop)
            assert (starts[start:stop], found.dtype) == (found.tolist(), np.uint64)
    with pytest.raises(IndexError, match=r"\[7, 9\) is not a span of \[0, 8\) in seq_starts of language 'en'"):
        split.seq_starts(7, 9)


def test_undoing_differences_is_what_numcodecs_does() -> None:
    rng = np.random.default_rng(1)
    for length in range(12):
        for chunk in range(1, 13):
            values = rng.integers(0, 2**64, length, np.uint64)
            parts = [Delta(dtype="i8").encode(values[at : at + chunk].view("i8")) for at in range(0, length, chunk)]
            stored = np.concatenate([np.empty(0, np.uint64), *(part.view(np.uint64) for part in parts)])

            undo_delta(stored, chunk)

            assert stored.tolist() == values.tolist()


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_opening_and_reading_tokens_touches_no_document_starts(tmp_path: Path, zarr_format: int) -> None:
    path = older_store(tmp_path / "s", {"train": DOCUMENTS}, zarr_format)
    for chunk in (0, 1):
        chunk_file(path, "seq_starts", chunk, zarr_format).unlink()
    split = opened(path)

    assert (split.documents, read(split.reader(), 2, 4).tolist()) == (4, [15, 17])
    with pytest.raises(ReadError, match=r"seq_starts of .* chunk 1, which holds the entries \[3, 5\), is missing"):
        split.seq_starts(4, 5)


def test_reading_an_older_store_does_not_load_zarr(tmp_path: Path) -> None:
    path = older_store(tmp_path / "s", {"train": DOCUMENTS})
    code = f"""
import sys
from flatmix.store import open_store
split = open_store({str(path)!r}, "en")["en"]["train"]
print(split.seq_starts(0, 5).tolist(), "zarr" in sys.modules, "numcodecs" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)

    assert done.stdout == "[0, 2, 2, 3, 6] False False\n"


def cut(file: Path, size: int) -> None:
    os.truncate(file, size)


DAMAGE: dict[str, Callable[[Path], None]] = {
    "deleted": lambda file: file.unlink(),
    "cut to nothing": lambda file: cut(file, 0),
    "cut to 5 bytes": lambda file: cut(file, 5),
    "cut by one byte": lambda file: cut(file, file.stat().st_size - 1),
    "longer": lambda file: cut(file, file.stat().st_size + 4),
}


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize(("zarr_format", "delta"), KINDS)
def test_a_damaged_chunk_is_an_error_that_names_it_and_never_zeros(
    tmp_path: Path, zarr_format: int, delta: bool, damage: str
) -> None:
    path = older_store(tmp_path / "s", {"train": LONG}, zarr_format, delta)
    split = opened(path)
    reader = split.reader()
    for array, chunk in (("encoded_tokens", 2), ("seq_starts", 1)):
        DAMAGE[damage](chunk_file(path, array, chunk, zarr_format))

    with pytest.raises(ReadError) as caught:
        read(reader, 6, 20)
    assert (
        f"encoded_tokens of language 'en', split 'train' of store {path}: chunk 2, which holds the tokens [8, 12), "
        in (str(caught.value))
    )
    with pytest.raises(ReadError, match=r"seq_starts of .*: chunk 1, which holds the entries \[3, 6\), is missing or"):
        split.seq_starts(2, 5)
    assert read(reader, 12, 24).tolist() == [17, *[16] * 10, 19]
    assert split.seq_starts(0, 3).tolist() == [0, 3, 9]


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_damaged_first_chunk_is_found_on_opening(tmp_path: Path, zarr_format: int) -> None:
    path = older_store(tmp_path / "s", {"train": DOCUMENTS}, zarr_format)
    chunk_file(path, "encoded_tokens", 0, zarr_format).unlink()

    with pytest.raises(ReadError, match=r"chunk 0, which holds the tokens \[0, 4\), is missing or damaged"):
        opened(path)
    assert "chunk 0, which holds the tokens [0, 4), is missing" in open_store(path, "en").status("en", "train")


@pytest.mark.parametrize(("zarr_format", "delta"), KINDS)
@pytest.mark.parametrize("documents", [[], [[]], [[], [], []]])
def test_older_splits_without_tokens_open(
    tmp_path: Path, zarr_format: int, delta: bool, documents: list[list[int]]
) -> None:
    """Their chunks were never written, or left out as they hold zeros; nothing is missing."""
    split = opened(older_store(tmp_path / "s", {"train": documents}, zarr_format, delta))

    assert (split.tokens, split.documents, documents_of(split)) == (0, len(documents), documents)
    assert split.digest.startswith("weak-")
    with pytest.raises(IndexError):
        split.seq_starts(0, len(documents) + 2)


def test_starts_that_do_not_end_with_the_tokens_are_not_handed_out(tmp_path: Path) -> None:
    """As when the process that appended to both arrays was killed between the two."""
    path = older_store(tmp_path / "s", {"train": DOCUMENTS})
    edit_json(path / "train/seq_starts", lambda a: a.update(shape=[4]), ".zarray")
    split = opened(path)

    with pytest.raises(ReadError, match="do not rise from 0 to the 6 tokens"):
        split.seq_starts(0, 4)


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_the_language_of_an_older_store_must_be_named(tmp_path: Path, zarr_format: int) -> None:
    path = older_store(tmp_path / "s", {"train": DOCUMENTS}, zarr_format)

    with pytest.raises(StoreError, match=f"{path} is an older store, of one language, which it does not name: say "):
        open_store(path)
    with pytest.raises(ValueError, match="'train' cannot name a language"):
        open_store(path, "train")
    with pytest.raises(StoreError, match=f"no language 'sw' in store {path}; its languages are 'en'"):
        open_store(path, "en")["sw"]
    with pytest.raises(StoreError, match=r"language 'en' of store .* has no split 'test'; its splits are 'train'"):
        open_store(path, "en")["en"]["test"]


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_store_of_format_1_takes_no_language(tmp_path: Path, zarr_format: int) -> None:
    write_split(tmp_path / "s", DOCUMENTS, zarr_format=zarr_format)

    with pytest.raises(
        StoreError, match=r"language='en': stores older than format 1 are given the name .*leave it out"
    ):
        open_store(tmp_path / "s", "en")
    with pytest.raises(StoreError, match=f"{tmp_path / 's/en'} is not a flat-tokens store"):
        open_store(tmp_path / "s/en", "en")


def test_a_split_of_format_1_beside_older_ones_is_refused(tmp_path: Path) -> None:
    path = older_store(tmp_path / "s", {"train": DOCUMENTS}, 3)
    write_split(tmp_path / "new", DOCUMENTS)
    shutil.copytree(tmp_path / "new/en/train", path / "validation")

    with pytest.raises(StoreError, match=r"split 'validation' of store .* is of format 1, and no part of an older"):
        opened(path, "validation")


@pytest.mark.parametrize("largest", [None, -1, 2**31, 1.0, True])
def test_a_largest_id_that_is_none_is_refused(tmp_path: Path, largest: object) -> None:
    path = older_store(tmp_path / "s", {"train": DOCUMENTS})
    edit_json(path / "train", lambda attributes: attributes.update(max_token_id=largest), ".zattrs")

    with pytest.raises(StoreError, match=f"max_token_id is {largest}, not an integer from 0 to 2147483647"):
        opened(path)


def test_an_array_that_is_missing_is_named(tmp_path: Path) -> None:
    path = older_store(tmp_path / "s", {"train": DOCUMENTS})
    shutil.rmtree(path / "train/seq_starts")

    with pytest.raises(StoreError, match=r"language 'en', split 'train' of store .* holds no seq_starts"):
        opened(path)


@pytest.mark.parametrize(("zarr_format", "delta"), KINDS)
def test_the_weak_digest_is_of_counts_and_the_first_and_last_chunk(
    tmp_path: Path, zarr_format: int, delta: bool
) -> None:
    split = opened(older_store(tmp_path / "s", {"train": DOCUMENTS}, zarr_format, delta))
    first, last = np.array([11, 12, 15, 17], "<u4"), np.array([18, 20], "<u4")
    parts = [np.array([6, 4, 10], "<u8").tobytes(), *(hashlib.sha256(part).digest() for part in (first, last))]

    assert split.digest == "weak-" + hashlib.sha256(b"".join(parts)).hexdigest()
    assert split.identity == split.digest[:21]


def test_the_identity_of_a_split_of_format_1_is_the_first_16_digits_of_its_digest(tmp_path: Path) -> None:
    split = write_split(tmp_path / "s", DOCUMENTS)

    assert (split.weak, split.identity) == (False, split.digest[:16])


def test_one_chunk_is_hashed_once(tmp_path: Path) -> None:
    split = opened(older_store(tmp_path / "s", {"train": DOCUMENTS}, chunk=6))
    values = np.array([11, 12, 15, 17, 18, 20], "<u4")
    parts = np.array([6, 4, 10], "<u8").tobytes() + hashlib.sha256(values).digest()

    assert split.digest == "weak-" + hashlib.sha256(parts).hexdigest()


CHANGES: dict[str, list[list[int]]] = {
    "the first chunk": [[2, 2, 3], *LONG[1:]],
    "the last chunk": [*LONG[:-1], [8]],
    "a document more": [*LONG, []],
    "a token more": [*LONG[:-1], [9, 9]],
    "two documents in one": [LONG[0], LONG[1], [5, 6], *LONG[4:]],
    "the largest id": [*LONG[:5], [8] * 5 + [10] + [8] * 5, LONG[6]],
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_weak_identity_changes_with(tmp_path: Path, change: str) -> None:
    before = opened(older_store(tmp_path / "one", {"train": LONG}))
    after = opened(older_store(tmp_path / "other", {"train": CHANGES[change]}))

    assert before.identity[:16] != after.identity[:16]  # whoever keeps 16 characters keeps some of it, too


def test_the_weak_identity_does_not_see_a_change_in_the_middle(tmp_path: Path) -> None:
    """This is what is weak in it; the digest of format 1 sees every change."""
    middle = [*LONG[:5], [8] * 5 + [7] + [8] * 5, LONG[6]]
    before, after = (older_store(tmp_path / name, {"train": all}) for name, all in (("one", LONG), ("other", middle)))

    assert documents_of(opened(before)) != documents_of(opened(after))
    assert opened(before).digest == opened(after).digest
    assert write_split(tmp_path / "new", LONG).digest != write_split(tmp_path / "new", middle, "sw").digest


def requests() -> int:
    """Files that TensorStore has read so far."""
    import tensorstore as ts

    (metric,) = ts.experimental_collect_matching_metrics("/tensorstore/kvstore/file/batch_read")
    return int(metric["values"][0]["value"])


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_opening_costs_the_same_whatever_the_size(tmp_path: Path, zarr_format: int) -> None:
    """A store of 2^40 tokens of which only the first and the last chunk are there: no other can have been read."""
    chunk, tokens = 1024, 2**40 + 5
    documents = [list(range(2 * chunk)), [7]]
    path = older_store(tmp_path / "s", {"train": documents}, zarr_format, chunk=chunk)
    opened(path)  # the count exists from the first read on
    before = requests()
    small = opened(path)
    middle = requests()
    shape = {"shape": [tokens]}
    edit_json(path / "train/encoded_tokens", lambda a: a.update(shape), array_file(zarr_format))
    edit_json(path / "train/seq_starts", lambda a: a.update(shape=[2**33]), array_file(zarr_format))
    os.link(
        chunk_file(path, "encoded_tokens", 0, zarr_format),
        chunk_file(path, "encoded_tokens", tokens // chunk, zarr_format),
    )
    giant = opened(path)

    assert requests() - middle == middle - before == 2
    assert (giant.tokens, giant.documents) == (tokens, 2**33 - 1)
    assert giant.identity != small.identity
    assert read(giant.reader(), tokens - 5, tokens).tolist() == [1, 2, 4, 6, 8]
    with pytest.raises(ReadError, match=r"chunk 1073741823, which holds the tokens \[1099511626752, 1099511627776\)"):
        read(giant.reader(), 2**40 - 3, 2**40 + 3)


def test_a_loader_gives_the_rows_of_an_older_store(tmp_path: Path) -> None:
    """The windows of the format's example: a start bit is where a document begins, whatever a window begins with."""
    from stores import loader

    path = older_store(tmp_path / "s", {"train": DOCUMENTS})
    settings = {"language": "en", "sequences_per_read_block": 1, "read_blocks_per_shuffle_buffer": 1}
    rows = {}
    for stride in (3, 1):
        with loader(path, {"en": 1.0}, len=3, batch=4, stride=stride, **settings) as own:
            batch = own.load_host(0)
            rows[stride] = {
                tuple(ids): tuple(flags)
                for ids, flags in zip(batch.targets.tolist(), batch.is_seq_start.tolist(), strict=True)
            }

    assert rows[3] == {(5, 6, 7): (True, False, True), (8, 9, 10): (True, False, False)}
    assert rows[1] == {
        (5, 6, 7): (True, False, True),
        (6, 7, 8): (False, True, True),
        (7, 8, 9): (True, True, False),
        (8, 9, 10): (True, False, False),
    }
