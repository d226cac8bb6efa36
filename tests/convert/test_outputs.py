"""What all parts together say of the splits to be written, and of what cannot be one."""

from pathlib import Path

import pytest
from converted import TINY, Stopped, leave_unfinished, read_documents, read_sources, utf8, write_lines

from flatmix.convert import EmptyInputError, SourceSpec, convert, outputs
from flatmix.convert.job import Job
from flatmix.convert.outputs import gather, load_bases, load_output, save_layouts
from flatmix.convert.staging import JOB, load_job
from flatmix.errors import ConvertError, ReadError
from flatmix.store import open_store

TEXTS = [f"document {number}" for number in range(60)]


def unfinished_job(store: Path, sources, **settings) -> Job:
    leave_unfinished(store, sources, **settings)
    (file,) = Path(f"{store}.staging").glob(f"*/{JOB}")
    return load_job(str(file.parent))


def test_contents_follow_each_other_without_a_gap(tmp_path):
    sources = {language: write_lines(tmp_path / f"{language}.jsonl", TEXTS) for language in ("sw", "en")}
    job = unfinished_job(tmp_path / "s.zarr", sources, hold_out={"dev": 0.3})

    gathered = gather(job)

    names = [output.name for output in gathered.outputs]
    assert names == ["sw/dev", "sw/train", "en/dev", "en/train"]
    for output in gathered.outputs:
        assert len(output.placed) > 2
        tokens = documents = 0
        for one in output.placed:
            assert (one.first_token, one.first_document) == (tokens, documents)
            tokens, documents = tokens + one.tokens, documents + one.documents
        assert (output.tokens, output.documents) == (tokens, documents)
        assert [one.part for one in output.placed] == sorted(one.part for one in output.placed)
    assert gathered.outputs[0].documents + gathered.outputs[1].documents == len(TEXTS)
    save_layouts(tmp_path, gathered)
    assert [load_output(str(tmp_path), number) for number in range(4)] == gathered.outputs
    assert load_bases(str(tmp_path)) == gathered.bases


def test_records_are_counted_through_all_stretches_of_a_file(tmp_path):
    """Blank and broken ones too, which are no documents."""
    lines = ["", "{}", '{"text": "x"}'] * 100
    (tmp_path / "en.jsonl").write_text("\n".join(lines))

    job = unfinished_job(tmp_path / "s.zarr", {"en": tmp_path / "en.jsonl"}, sizes=type(TINY)(unit_bytes=200))
    bases = [base for unit in gather(job).bases for base in unit]
    convert(tmp_path / "t.zarr", {"en": tmp_path / "en.jsonl"}, sizes=type(TINY)(unit_bytes=200))

    assert bases[0] == 0
    assert bases == sorted(set(bases))
    assert len(bases) == len([stretch for unit in job.units for stretch in unit]) > 5
    assert read_sources(tmp_path / "t.zarr", "en") == [(0, record) for record in range(2, 300, 3)]


@pytest.mark.parametrize("lost", [slice(None), slice(-1, None), slice(3, 4)])
def test_parts_that_are_not_there_are_missed(tmp_path, lost):
    job = unfinished_job(tmp_path / "s.zarr", {"en": write_lines(tmp_path / "en.jsonl", TEXTS)})
    for path in sorted(Path(job.parts).iterdir())[lost]:
        path.unlink()

    with pytest.raises(ReadError, match=r"parts: parts of unit \d+ are missing; convert again to make them"):
        gather(job)


def test_a_split_of_two_sources_is_refused(tmp_path):
    named = write_lines(tmp_path / "named.jsonl", TEXTS, lang="en")
    other = write_lines(tmp_path / "other.jsonl", TEXTS)
    sources = [
        SourceSpec(data=str(named), language_field="lang"),
        SourceSpec(data=str(other), language="en"),
    ]

    message = "en/train comes from two sources, named.jsonl and other.jsonl; name all files of a split in one"
    with pytest.raises(ConvertError, match=message):
        convert(tmp_path / "s.zarr", sources)
    assert not (tmp_path / "s.zarr").exists()


def test_the_first_places_of_bad_records_are_those_of_the_input(tmp_path, monkeypatch):
    monkeypatch.setattr(outputs, "EXAMPLES", 3)
    lines = ['{"text": "x"}', "{}"] * 50
    (tmp_path / "en.jsonl").write_text("\n".join(lines))

    with pytest.raises(Stopped):
        convert(tmp_path / "s.zarr", {"en": tmp_path / "en.jsonl"}, sizes=TINY, progress=_stop)
    summary = convert(tmp_path / "s.zarr", {"en": tmp_path / "en.jsonl"}, sizes=TINY)

    assert summary.bad == 50
    assert [example.split(": ")[0] for example in summary.bad_examples] == [
        f"{tmp_path / 'en.jsonl'}, line {line}" for line in (2, 4, 6)
    ]


def _stop(_) -> None:
    raise Stopped


@pytest.mark.parametrize("content", ["", "\n", "  \n\n\t\n"])
def test_a_language_without_documents_is_an_error_at_the_end_and_the_others_are_written(tmp_path, content):
    (tmp_path / "sw.jsonl").write_text(content)
    write_lines(tmp_path / "en.jsonl", ["a"])

    with pytest.raises(EmptyInputError, match=r"the input of sw holds no document .*; 1 other splits were") as refused:
        convert(tmp_path / "s.zarr", {"sw": tmp_path / "sw.jsonl", "en": tmp_path / "en.jsonl"})

    assert refused.value.summary.without == ("sw",)
    assert [one.language for one in refused.value.summary.languages] == ["en"]
    assert read_documents(tmp_path / "s.zarr", "en") == utf8("a")
    assert open_store(tmp_path / "s.zarr").languages == ("en",)
    assert not (tmp_path / "s.zarr.staging").exists()


def test_no_documents_at_all_is_an_error_and_leaves_nothing(tmp_path):
    (tmp_path / "empty.jsonl").write_text("\n\n")

    with pytest.raises(ConvertError, match="the input of en holds no document"):
        convert(tmp_path / "s.zarr", {"en": tmp_path / "empty.jsonl"})
    with pytest.raises(ConvertError, match="the input holds no document"):
        convert(tmp_path / "s.zarr", tmp_path / "empty.jsonl", language_field="lang")

    assert [path.name for path in tmp_path.iterdir()] == ["empty.jsonl"]


def test_no_document_is_no_reason_to_lose_the_split_that_was_to_be_replaced(tmp_path):
    write_lines(tmp_path / "en.jsonl", ["a"])
    convert(tmp_path / "s.zarr", {"en": tmp_path / "en.jsonl"})
    (tmp_path / "en.jsonl").write_text("\n")

    with pytest.raises(EmptyInputError, match="the input of en holds no document"):
        convert(tmp_path / "s.zarr", {"en": tmp_path / "en.jsonl"}, replace=True)

    assert read_documents(tmp_path / "s.zarr", "en") == utf8("a")
