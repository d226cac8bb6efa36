"""Documents that are held out: the same ones whoever converts them, never on both sides, and as many as asked for."""

import json

import numpy as np
import pytest
from converted import TINY, files_of, read_documents, read_sources, utf8, write_lines
from hypothesis import given
from hypothesis import strategies as st
from token_files import raw_file

from flatmix.convert import convert
from flatmix.convert.hold_out import check_hold_out, split_of
from flatmix.errors import ConvertError
from flatmix.store import open_store

SHARES = {"validation": 0.2, "test": 0.1}
SPLITS = ("train", "validation", "test")


def test_each_document_is_in_one_split_whoever_converts_it(tmp_path):
    texts = [f"document {number}" for number in range(100)]
    write_lines(tmp_path / "en.jsonl", texts)

    summary = convert(tmp_path / "whole.zarr", {"en": tmp_path / "en.jsonl"}, hold_out=SHARES, workers=1)
    for workers in (1, 2, 4):
        store = tmp_path / f"{workers}.zarr"
        convert(store, {"en": tmp_path / "en.jsonl"}, hold_out=SHARES, workers=workers, sizes=TINY)

        assert files_of(store) == files_of(tmp_path / "whole.zarr")
    records: list[int] = []
    for split in SPLITS:
        numbers = [record for _, record in read_sources(tmp_path / "whole.zarr", "en", split)]
        assert numbers == sorted(numbers)
        assert read_documents(tmp_path / "whole.zarr", "en", split) == utf8(*[texts[number] for number in numbers])
        assert len(numbers) > 3
        records += numbers
    assert sorted(records) == list(range(100))
    assert {one.split: one.documents for one in summary.languages}["train"] > 50
    assert open_store(tmp_path / "whole.zarr")["en"]["test"].source["options"]["hold_out"] == SHARES


def test_equal_documents_are_on_the_same_side(tmp_path):
    texts = [f"document {number % 20}" for number in range(100)]
    write_lines(tmp_path / "en.jsonl", texts)
    write_lines(tmp_path / "ar.jsonl", texts[:20])

    convert(
        tmp_path / "s.zarr",
        {"en": tmp_path / "en.jsonl", "ar": tmp_path / "ar.jsonl"},
        hold_out={"validation": 0.4},
        sizes=TINY,
    )

    sides = {
        (language, split): set(map(bytes, read_documents(tmp_path / "s.zarr", language, split)))
        for language in ("en", "ar")
        for split in ("train", "validation")
    }
    assert not sides["en", "train"] & sides["en", "validation"]
    assert sides["ar", "train"] == sides["en", "train"]
    assert sides["ar", "validation"] == sides["en", "validation"]
    assert len(sides["en", "train"] | sides["en", "validation"]) == 20


def test_documents_of_tokens_are_held_out_by_their_ids(tmp_path):
    documents = [[*divmod(number, 7), 9] for number in range(1, 60)]
    file = raw_file(tmp_path / "en.bin", [token for document in documents for token in document])
    tokens = {"type": "uint16", "document_end": 9}

    convert(tmp_path / "whole.zarr", {"en": file}, tokens=tokens, hold_out={"dev": 0.3})
    convert(tmp_path / "tiny.zarr", {"en": file}, tokens=tokens, hold_out={"dev": 0.3}, sizes=TINY, workers=2)

    found: list[tuple[int, list[int]]] = []
    for split in ("train", "dev"):
        numbers = [record for _, record in read_sources(tmp_path / "whole.zarr", "en", split)]
        held = read_documents(tmp_path / "whole.zarr", "en", split)
        assert 5 < len(held) < 55
        found += zip(numbers, held, strict=True)
    assert sorted(found) == list(enumerate(documents))
    assert files_of(tmp_path / "tiny.zarr") == files_of(tmp_path / "whole.zarr")


def test_a_split_that_nothing_was_held_out_for_is_not_made(tmp_path):
    write_lines(tmp_path / "en.jsonl", ["a", "b"])

    convert(tmp_path / "s.zarr", {"en": tmp_path / "en.jsonl"}, hold_out={"dev": 1e-9})

    assert open_store(tmp_path / "s.zarr")["en"].splits == ("train",)


def test_shares_are_what_was_asked_for():
    """Within four standard deviations, for documents that differ only in a number."""
    texts = [json.dumps({"number": number}) for number in range(10_000)]

    sides = [split_of(text, "train", SHARES) for text in texts]

    for split, share in {"train": 0.7, **SHARES}.items():
        assert abs(sides.count(split) - 10_000 * share) < 4 * (10_000 * share * (1 - share)) ** 0.5


def test_the_rule_does_not_change_from_version_to_version():
    """A store that is added to must hold out what it held out before; BLAKE2b of nothing begins with e4a6a057."""
    shares = {"dev": 0.9}

    assert split_of("", "train", {"dev": 0xE4A6 / 2**16}) == "train"
    assert split_of("", "train", {"dev": 0xE4A7 / 2**16}) == "dev"
    assert split_of("", "train", {}) == "train"
    assert split_of(np.array([0x6261], np.uint32), "train", shares) == split_of("ab\0\0", "train", shares)


@given(text=st.text(), share=st.floats(0.01, 0.4))
def test_what_is_held_out_stays_so_when_a_share_grows_or_another_follows(text, share):
    before = split_of(text, "train", {"dev": share})

    if before == "dev":
        assert split_of(text, "train", {"dev": share + 0.1}) == "dev"
        assert split_of(text, "train", {"dev": share, "test": 0.5}) == "dev"
    else:
        assert split_of(text, "train", {"dev": share / 2}) == "train"


def test_shares_are_kept_as_numbers_with_a_point():
    assert check_hold_out({"dev": 0.25, "test": 0.5}) == {"dev": 0.25, "test": 0.5}
    assert check_hold_out({}) == {}
    with pytest.raises(ConvertError, match="hold out dev=True: a share of the documents lies between 0 and 1"):
        check_hold_out({"dev": True})
