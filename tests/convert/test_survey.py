"""How far a conversion is, told from what lies in its staging folder; and what ends it early."""

import time
from pathlib import Path

import pytest
from converted import TINY, files_of, leave_unfinished, write_lines

from flatmix.convert import Progress, convert
from flatmix.convert.parts import part_names, read_part
from flatmix.convert.staging import JOB, load_job
from flatmix.convert.survey import LanguageProgress, Survey
from flatmix.errors import ConvertError
from flatmix.store import open_store

TEXTS = [f"document {number}" for number in range(60)]


@pytest.fixture
def sources(tmp_path: Path) -> dict[str, Path]:
    return {
        "en": write_lines(tmp_path / "en.jsonl", TEXTS),
        "ar": write_lines(tmp_path / "ar.jsonl", TEXTS[:20]),
    }


def survey_of(store: Path, told: list[Progress], check=lambda languages: None) -> Survey:
    """Of the one unfinished conversion of a store."""
    (file,) = Path(f"{store}.staging").glob(f"*/{JOB}")
    return Survey(load_job(str(file.parent)), told.append, check)


def numbers(told: list[Progress], stage: str) -> list[tuple[int, int, int]]:
    return [(now.done, now.documents, now.tokens) for now in told if now.stage == stage]


@pytest.mark.parametrize("workers", [1, 2])
def test_progress_grows_through_both_stages_up_to_all(tmp_path, sources, workers):
    told: list[Progress] = []
    size = sum(path.stat().st_size for path in sources.values())

    convert(tmp_path / "s.zarr", sources, workers=workers, sizes=TINY, progress=told.append)

    assert [now.stage for now in told] == sorted(now.stage for now in told)
    tokens = sum(open_store(tmp_path / "s.zarr")[language]["train"].tokens for language in sources)
    for stage, total in (("tokenizing", size), ("writing", tokens)):
        found = numbers(told, stage)
        assert found == sorted(found)
        assert found[-1] == (total, 80, tokens)
        assert {now.total for now in told if now.stage == stage} == {total}
    assert told[0].done == 0
    for name, documents in (("en", 60), ("ar", 20)):
        last = told[-1].languages[name]
        assert (last.documents, last.total) == (documents, sources[name].stat().st_size)
        assert 0.95 * last.total < last.done <= last.total


def test_progress_of_every_part_is_told_and_none_goes_beyond_the_whole(tmp_path, sources):
    """As they come, also of a run that others have begun."""
    leave_unfinished(tmp_path / "s.zarr", sources)
    told: list[Progress] = []
    survey = survey_of(tmp_path / "s.zarr", told)
    parts = Path(survey.job.parts)
    names = part_names(parts)
    for name in names:
        (parts / name).rename(parts / f"{name}.hidden")

    survey.look()
    for name in names:
        (parts / f"{name}.hidden").rename(parts / name)
        survey.look()

    assert len(told) == len(names) + 1 > 10
    found = numbers(told, "tokenizing")
    assert found == sorted(found)
    assert len(set(found)) > 10
    assert found[0] == (0, 0, 0)
    assert found[-1][0] == told[-1].total == sum(path.stat().st_size for path in sources.values())


def test_what_an_earlier_run_has_done_counts_once(tmp_path, sources):
    """The record with which a run goes on lies far in its unit, and the bytes before it were counted then."""
    sizes = {"sizes": type(TINY)(unit_bytes=2**20, part_documents=7, batch_documents=3)}
    parts = leave_unfinished(tmp_path / "s.zarr", sources, **sizes)
    for path in parts[-2:]:
        path.unlink()
    told: list[Progress] = []
    survey_of(tmp_path / "s.zarr", told).look()

    with pytest.raises(InterruptedError):
        convert(tmp_path / "s.zarr", sources, workers=1, **sizes, progress=_until_the_end(told))
    assert 0 < told[1].done < told[1].total
    assert told[0] == told[1]
    assert numbers(told, "tokenizing")[-1] == (told[-1].total, 80, told[-1].tokens)
    assert sum(read_part(path).size for path in parts) == told[-1].total


def _until_the_end(told: list[Progress]):
    def progress(now: Progress) -> None:
        told.append(now)
        if now.done == now.total:
            raise InterruptedError

    return progress


def test_nobody_knows_how_much_a_conversion_is_with_an_input_of_unknown_size(tmp_path, sources):
    sources["ar"].write_text("")
    told: list[Progress] = []

    with pytest.raises(ConvertError, match="of ar holds no document"):
        convert(tmp_path / "s.zarr", sources, sizes=TINY, progress=told.append)

    assert {now.total for now in told if now.stage == "tokenizing"} == {0}
    assert told[-1].languages["ar"] == LanguageProgress(0, 0, 0, 0)


def test_a_language_that_may_not_be_written_ends_the_run_long_before_its_end(tmp_path):
    """While others are at work, as soon as the part is there in which a record names it."""
    named = write_lines(tmp_path / "named.jsonl", TEXTS, lang="en")
    leave_unfinished(tmp_path / "s.zarr", named, language_field="lang")
    checked: list[str] = []

    def refuse(languages: list[str]) -> None:
        checked.extend(languages)
        raise ConvertError("it is there")

    survey = survey_of(tmp_path / "s.zarr", [], refuse)

    def wait() -> None:
        end = time.monotonic() + 60
        while time.monotonic() < end:
            survey.raise_failure()

    with survey.watching(), pytest.raises(ConvertError, match="it is there"):
        wait()

    assert checked == ["en"]


def test_languages_found_in_records_are_checked_like_named_ones(tmp_path):
    """Those that are there already, and those that differ from others in case."""
    named = write_lines(tmp_path / "named.jsonl", TEXTS, lang="sw")
    with named.open("a") as more:
        more.write('{"text": "a", "lang": "en"}\n')
    convert(tmp_path / "s.zarr", {"en": write_lines(tmp_path / "en.jsonl", ["a"])})
    convert(tmp_path / "t.zarr", {"EN": tmp_path / "en.jsonl"})
    before = [files_of(tmp_path / name) for name in ("s.zarr", "t.zarr")]

    with pytest.raises(ConvertError, match="has en/train already; give another --split, or --replace"):
        convert(tmp_path / "s.zarr", named, language_field="lang", sizes=TINY)
    with pytest.raises(ConvertError, match="languages 'EN' and 'en' differ only in case"):
        convert(tmp_path / "t.zarr", named, language_field="lang", sizes=TINY)

    assert [files_of(tmp_path / name) for name in ("s.zarr", "t.zarr")] == before
    convert(tmp_path / "s.zarr", named, language_field="lang", sizes=TINY, replace=True)
    assert open_store(tmp_path / "s.zarr").languages == ("en", "sw")


def test_an_error_of_the_one_who_is_told_ends_the_run(tmp_path, sources):
    def fail(_) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        convert(tmp_path / "s.zarr", sources, progress=fail)
    assert not (tmp_path / "s.zarr").exists()
