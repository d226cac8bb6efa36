"""What workers make of units: bad records with their places, tokens as they are, and the same whoever does the work."""

import gzip
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from converted import (
    TINY,
    Stopped,
    files_of,
    leave_unfinished,
    read_documents,
    read_sources,
    save_words,
    stop_at,
    utf8,
    write_lines,
)
from hypothesis import given
from hypothesis import strategies as st
from table_files import write_parquet
from token_files import llmc_file, megatron_files, raw_file, split_ids

from flatmix.convert import convert, pending
from flatmix.convert.imports import boundaries, documents
from flatmix.convert.inputs import Record
from flatmix.convert.job import Sizes
from flatmix.convert.staging import JOB
from flatmix.convert.work import batches, convert_unit
from flatmix.errors import ConvertError
from flatmix.store import open_store

TEXTS = [f"document {number}" for number in range(60)]


def write_with_bad(file: Path, count: int, *bad: int) -> Path:
    """Records of which those with the numbers `bad`, counted from 1 as lines are, have no text; every 7th is blank."""
    lines = ["{}" if line in bad else "" if line % 7 == 0 else f'{{"text": "{line}"}}' for line in range(1, count + 1)]
    content = "\n".join(lines).encode()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(gzip.compress(content) if file.suffix == ".gz" else content)
    return file


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("name", ["en.jsonl", "en.jsonl.gz"])
def test_a_strict_run_ends_at_a_bad_record_and_names_its_line_however_far_it_is(tmp_path, name, workers):
    file = write_with_bad(tmp_path / name, 400, 321)

    with pytest.raises(ConvertError, match=rf"{name}, line 321: .*; it ends the run, as --strict asks for") as refused:
        convert(tmp_path / "s.zarr", {"en": file}, strict=True, workers=workers, sizes=TINY)

    assert str(refused.value).startswith(f"{file}, line 321: Object missing required field `text`")
    assert not (tmp_path / "s.zarr").exists()
    summary = convert(tmp_path / "s.zarr", {"en": file}, sizes=TINY)  # which goes on without being strict
    assert summary.bad == 1
    assert summary.bad_examples[0].startswith(f"{file}, line 321: ")


def test_a_strict_run_names_the_row_of_a_table(tmp_path):
    texts = [None if row == 321 else f"row {row}" for row in range(400)]
    file = write_parquet(tmp_path / "en.parquet", {"text": texts}, group=50)

    with pytest.raises(ConvertError, match=r"en\.parquet, row 321 \(counted from 0\): its column 'text' is null"):
        convert(tmp_path / "s.zarr", {"en": file}, strict=True, workers=1, sizes=TINY)


def test_places_of_bad_records_are_the_same_however_the_work_was_divided(tmp_path):
    write_with_bad(tmp_path / "in/a.jsonl", 60, 5, 50)
    write_with_bad(tmp_path / "in/b.jsonl.gz", 60, 1, 59)
    write_with_bad(tmp_path / "in/c.jsonl", 60, 58)
    write_lines(tmp_path / "ar.jsonl", [None, "a"])
    sources = {"en": tmp_path / "in", "ar": tmp_path / "ar.jsonl"}
    expected = [("a.jsonl", 5), ("a.jsonl", 50), ("b.jsonl.gz", 1), ("b.jsonl.gz", 59), ("c.jsonl", 58)]

    whole = convert(tmp_path / "whole.zarr", sources, workers=1)

    places = [f"{tmp_path / 'in' / name}, line {line}: " for name, line in expected] + [
        f"{tmp_path}/ar.jsonl, line 1: "
    ]
    assert [example[: len(place)] for example, place in zip(whole.bad_examples, places, strict=True)] == places
    assert whole.bad == 6
    assert {one.language: one.bad for one in whole.languages} == {"en": 5, "ar": 1}
    for workers, sizes in ((1, TINY), (2, TINY), (1, Sizes(unit_bytes=137, part_documents=2, batch_documents=1))):
        store = tmp_path / f"{workers}-{sizes.unit_bytes}.zarr"
        summary = convert(store, sources, workers=workers, sizes=sizes)

        assert (summary.bad, summary.bad_examples) == (whole.bad, whole.bad_examples)
        assert files_of(store) == files_of(tmp_path / "whole.zarr")
    lines = [int(bytes(document)) for document in read_documents(tmp_path / "whole.zarr", "en")]
    sources_of = read_sources(tmp_path / "whole.zarr", "en")
    assert [record + 1 for _, record in sources_of] == lines


def test_the_first_places_of_very_many_bad_records_are_kept(tmp_path):
    file = write_with_bad(tmp_path / "en.jsonl", 400, *range(101, 300, 2))

    summary = convert(tmp_path / "s.zarr", {"en": file}, sizes=TINY, workers=2)

    lines = list(range(101, 300, 2))
    assert summary.bad == len(lines)
    assert [example.split(": ")[0] for example in summary.bad_examples] == [f"{file}, line {n}" for n in lines[:10]]


def test_bad_records_of_several_languages_are_counted_together(tmp_path):
    lines = ['{"text": "a", "lang": "en"}', '{"text": "b"}', '{"text": "c", "lang": "a/b"}', '{"lang": "en"}']
    (tmp_path / "mixed.jsonl").write_text("\n".join(lines))

    summary = convert(tmp_path / "s.zarr", tmp_path / "mixed.jsonl", language_field="lang")

    assert summary.bad == 3
    assert [one.bad for one in summary.languages] == [0]
    assert "line 3: 'a/b' cannot name a language" in summary.bad_examples[1]


@pytest.mark.parametrize("batch_documents", [1, 3, 100])
def test_a_text_that_the_tokenizer_fails_on_is_a_bad_record(tmp_path, batch_documents):
    model = {"type": "WordLevel", "vocab": {"a": 0, "b": 1}, "unk_token": "[UNK]"}
    words = save_words(tmp_path, model=model, added_tokens=[], post_processor=None)
    write_lines(tmp_path / "in/1.jsonl", ["a b", "b c a", "b", "c"])
    (tmp_path / "in/2.txt").write_text("a c")
    sizes = Sizes(batch_documents=batch_documents)

    summary = convert(tmp_path / "s.zarr", {"en": tmp_path / "in"}, tokenizer=words, sizes=sizes)

    assert read_documents(tmp_path / "s.zarr", "en") == [[0, 1], [1]]
    assert read_sources(tmp_path / "s.zarr", "en") == [(0, 0), (0, 2)]
    places = [example.split(": ")[0] for example in summary.bad_examples]
    assert places == [f"{tmp_path}/in/1.jsonl, line 2", f"{tmp_path}/in/1.jsonl, line 4", f"{tmp_path}/in/2.txt"]
    assert "words.json fails on the text: " in summary.bad_examples[0]
    with pytest.raises(ConvertError, match=r"in/1\.jsonl, line 2: tokenizer .*words\.json fails on the text: .*UNK"):
        convert(tmp_path / "t.zarr", {"en": tmp_path / "in"}, tokenizer=words, sizes=sizes, strict=True)


@pytest.mark.parametrize("dtype", ["uint16", "uint32"])
def test_tokens_that_are_there_already_become_the_same_documents(tmp_path, dtype):
    ids = [7, 1, 2, 7, 3, 7, 7, *range(10, 400), 7, 5]
    file = raw_file(tmp_path / "en.bin", ids, {"uint16": "<u2", "uint32": "<u4"}[dtype])
    tokens = {"type": dtype, "document_end": 7}

    summary = convert(tmp_path / "s.zarr", {"en": file}, tokens=tokens, workers=1)
    convert(tmp_path / "tiny.zarr", {"en": file}, tokens=tokens, workers=2, sizes=Sizes(unit_bytes=40, part_tokens=1))

    assert read_documents(tmp_path / "s.zarr", "en") == split_ids(ids, 7, None)
    assert read_sources(tmp_path / "s.zarr", "en") == [(0, number) for number in range(6)]
    assert files_of(tmp_path / "tiny.zarr") == files_of(tmp_path / "s.zarr")
    (one,) = summary.languages
    assert (one.documents, one.tokens, one.utf8_bytes, one.bytes_per_token) == (6, len(ids), None, None)
    split = open_store(tmp_path / "s.zarr")["en"]["train"]
    assert (summary.tokenizer, split.tokenizer, split.utf8_bytes) == (None, None, None)
    assert split.source == {"data": "en.bin", "files": ["en.bin"], "options": {}}


def test_files_of_other_makers_give_their_documents(tmp_path):
    parts = [[[5, 6], [7]], [[8]], [[9, 5, 6]]]
    megatron = megatron_files(tmp_path / "megatron", parts)
    llmc = llmc_file(tmp_path / "llmc.bin", [4, 1, 2, 4, 3])

    convert(tmp_path / "m.zarr", {"en": megatron}, workers=1, sizes=TINY)
    convert(tmp_path / "l.zarr", {"en": llmc}, tokens={"document_start": 4}, workers=1, sizes=TINY)

    assert read_documents(tmp_path / "m.zarr", "en") == [[5, 6, 7], [8], [9, 5, 6]]
    assert read_documents(tmp_path / "l.zarr", "en") == [[4, 1, 2], [4, 3]]


def test_tokens_of_another_tokenizer_are_refused(tmp_path):
    words = save_words(tmp_path)  # which has the ids 0 to 5
    good, bad = (raw_file(tmp_path / f"{name}.bin", [1, name, 1], "<u2") for name in (5, 6))
    tokens = {"type": "uint16", "document_end": 1}

    with pytest.raises(ConvertError, match=r"6\.bin holds the id 6, and the tokenizer words\.json has 6 ids; name the"):
        convert(tmp_path / "s.zarr", {"en": [good, bad]}, tokens=tokens, tokenizer=words)
    assert not (tmp_path / "s.zarr").exists()

    convert(tmp_path / "s.zarr", {"en": good}, tokens=tokens, tokenizer=words, restart=True)
    assert open_store(tmp_path / "s.zarr")["en"]["train"].tokenizer["name"] == "words.json"
    assert read_documents(tmp_path / "s.zarr", "en") == [[1], [5, 1]]


@pytest.mark.parametrize("kind", ["texts", "tokens"])
def test_two_workers_on_the_same_unit_leave_no_hole_and_no_document_twice(tmp_path, monkeypatch, kind):
    """Another one is faster with every second part; each part is written once."""
    sources, settings = _input(tmp_path, kind)
    convert(tmp_path / "whole.zarr", sources, workers=1, **settings)
    for module in (boundaries, documents):
        monkeypatch.setattr(module, "RUN", 16)  # tokens that are read at once: for more than one part
    settings["sizes"] = Sizes(unit_bytes=1000, part_documents=2, batch_documents=1)
    write_part = pending.write_part
    written: list[Path] = []

    def write(path, part, values) -> None:
        if part.number % 2 == 0:
            write_part(path, part, values)
        write_part(path, part, values)
        written.append(path)

    monkeypatch.setattr(pending, "write_part", write)

    convert(tmp_path / "s.zarr", sources, workers=1, **settings)

    assert files_of(tmp_path / "s.zarr") == files_of(tmp_path / "whole.zarr")
    assert len(written) == len(set(written)) > 3


@pytest.mark.parametrize("kind", ["texts", "tokens"])
def test_workers_that_know_nothing_of_each_other_may_do_the_same_work(tmp_path, monkeypatch, kind):
    sources, settings = _input(tmp_path, kind)
    convert(tmp_path / "whole.zarr", sources, workers=1, **settings)
    for module in (boundaries, documents):
        monkeypatch.setattr(module, "RUN", 16)  # tokens that are read at once: for more than one part
    settings["sizes"] = Sizes(unit_bytes=1000, part_documents=2, batch_documents=1)
    for path in leave_unfinished(tmp_path / "s.zarr", sources, **settings):
        path.unlink()
    (file,) = Path(f"{tmp_path / 's.zarr'}.staging").glob(f"*/{JOB}")
    units = 2 if kind == "texts" else 1

    with ThreadPoolExecutor(3 * units) as pool:
        for call in [pool.submit(convert_unit, str(file.parent), unit) for unit in range(units) for _ in range(3)]:
            call.result()

    with pytest.raises(Stopped):
        convert(tmp_path / "s.zarr", sources, progress=stop_at("tokenizing"), workers=1, **settings)
    convert(tmp_path / "s.zarr", sources, workers=1, **settings)
    assert files_of(tmp_path / "s.zarr") == files_of(tmp_path / "whole.zarr")


def _input(folder: Path, kind: str) -> tuple[dict, dict]:
    if kind == "texts":
        return {"en": write_lines(folder / "en.jsonl", TEXTS)}, {"hold_out": {"dev": 0.3}}
    ids = np.random.default_rng(5).integers(0, 5, 400)
    return {"en": raw_file(folder / "en.bin", ids)}, {"tokens": {"type": "uint16", "document_end": 0}}


@given(
    lengths=st.lists(st.none() | st.integers(0, 9), max_size=30),
    first=st.integers(0, 5),
    documents=st.integers(1, 5),
    characters=st.integers(1, 12),
)
def test_batches_hold_every_record_once_in_order_within_both_bounds(lengths, first, documents, characters):
    records = [Record(end, None, None if length is None else "x" * length) for end, length in enumerate(lengths)]

    made = list(batches(records, first, documents, characters))

    assert [record for _, batch in made for record in batch] == records
    numbers = [number for number, _ in made]
    assert numbers == [first + sum(len(batch) for _, batch in made[:i]) for i in range(len(made))]
    for _, batch in made:
        assert 1 <= len(batch) <= documents
        assert len(batch) == 1 or sum(len(record.text or "") for record in batch) <= characters


def test_bytes_that_texts_take_are_counted_as_utf8(tmp_path):
    texts = ["a", "é", "世界", "😀", ""]
    write_lines(tmp_path / "en.jsonl", texts)

    (one,) = convert(tmp_path / "s.zarr", {"en": tmp_path / "en.jsonl"}, tokenizer=save_words(tmp_path)).languages

    assert one.utf8_bytes == sum(map(len, utf8(*texts))) == 13
