"""What an unfinished conversion leaves beside the store: the same call goes on with it, another does not take it."""

from pathlib import Path

import pytest
from converted import TINY, files_of, leave_unfinished, read_documents, save_words, utf8, write_lines

from flatmix.convert import SourceSpec, convert, engine, work
from flatmix.errors import ConvertError
from flatmix.store import open_store

TEXTS = [f"document {number}" for number in range(60)]


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "texts.jsonl", TEXTS)


def made(paths: list[Path]) -> list[tuple[int, int]]:
    """What tells a file from one that was made anew."""
    return [(path.stat().st_ino, path.stat().st_mtime_ns) for path in paths]


@pytest.mark.parametrize("stage", ["tokenizing", "writing"])
@pytest.mark.parametrize("replace", [False, True])
def test_the_same_call_goes_on_with_what_is_done(tmp_path, texts, monkeypatch, stage, replace):
    sources = {"ar": texts, "en": write_lines(tmp_path / "en.jsonl", ["x", *TEXTS])}
    convert(tmp_path / "whole.zarr", sources)
    if replace:
        convert(tmp_path / "s.zarr", {name: write_lines(tmp_path / name, ["old"]) for name in ("ar.txt", "en.txt")})
    assert leave_unfinished(tmp_path / "s.zarr", sources, stage)
    monkeypatch.setattr(work, "_go_on", None)  # what makes parts

    convert(tmp_path / "s.zarr", sources, workers=1, sizes=TINY, replace=replace)

    assert read_documents(tmp_path / "s.zarr", "en") == utf8("x", *TEXTS)
    if not replace:
        assert files_of(tmp_path / "s.zarr") == files_of(tmp_path / "whole.zarr")
    assert not (tmp_path / "s.zarr.staging").exists()


def test_the_replaced_split_is_there_until_the_new_one_is_written(tmp_path, texts):
    convert(tmp_path / "s.zarr", {"en": write_lines(tmp_path / "old.jsonl", ["old"])})
    before = files_of(tmp_path / "s.zarr")

    leave_unfinished(tmp_path / "s.zarr", {"en": texts}, replace=True)
    assert files_of(tmp_path / "s.zarr") == before

    convert(tmp_path / "s.zarr", {"en": texts}, replace=True, sizes=TINY)
    assert read_documents(tmp_path / "s.zarr", "en") == utf8(*TEXTS)


def test_units_that_are_left_are_made_and_no_others(tmp_path, texts):
    """As after a crash, when the last parts are not there yet."""
    convert(tmp_path / "whole.zarr", {"en": texts})
    parts = leave_unfinished(tmp_path / "s.zarr", {"en": texts})
    kept = parts[: len(parts) // 2]
    for path in parts[len(parts) // 2 :]:
        path.unlink()
    before = made(kept)

    assert leave_unfinished(tmp_path / "s.zarr", {"en": texts}) == parts
    assert made(kept) == before

    convert(tmp_path / "s.zarr", {"en": texts}, sizes=TINY)
    assert files_of(tmp_path / "s.zarr") == files_of(tmp_path / "whole.zarr")


@pytest.mark.parametrize(
    ("settings", "difference"),
    [
        ({"end_token": 0}, "its tokenizer is bytes .*no added token.*, and now it is bytes .*end token 0"),
        ({"hold_out": {"dev": 0.5}}, r"its hold_out is \{\}, and now it is \{'dev': 0.5\}"),
        ({"compression": "small"}, "its compression is fast, and now it is small"),
        ({"text_field": "other"}, "its source was texts.jsonl for en/train with Fields"),
    ],
)
def test_another_conversion_of_the_same_split_is_refused_with_the_difference(tmp_path, settings, difference):
    texts = write_lines(tmp_path / "texts.jsonl", TEXTS, other="other")
    left = leave_unfinished(tmp_path / "s.zarr", {"en": texts})

    with pytest.raises(ConvertError, match=f"an unfinished conversion of en/train is in .*: {difference}.*--restart"):
        convert(tmp_path / "s.zarr", {"en": texts}, sizes=TINY, **settings)
    assert all(path.exists() for path in left)
    assert not (tmp_path / "s.zarr").exists()

    convert(tmp_path / "s.zarr", {"en": texts}, sizes=TINY, restart=True, **settings)
    assert open_store(tmp_path / "s.zarr")["en"]["train"].documents
    assert not (tmp_path / "s.zarr.staging").exists()


def test_input_that_changed_since_is_named_and_restart_takes_it_as_it_is(tmp_path, texts):
    leave_unfinished(tmp_path / "s.zarr", {"en": texts})
    write_lines(texts, ["new"])

    with pytest.raises(ConvertError, match=rf"an unfinished conversion of en/train .*: {texts} has changed; repeat"):
        convert(tmp_path / "s.zarr", {"en": texts}, sizes=TINY)

    convert(tmp_path / "s.zarr", {"en": texts}, sizes=TINY, restart=True)
    assert read_documents(tmp_path / "s.zarr", "en") == utf8("new")


def test_input_that_came_or_went_since_is_named(tmp_path, texts):
    write_lines(tmp_path / "in/a.jsonl", TEXTS)
    leave_unfinished(tmp_path / "s.zarr", {"en": tmp_path / "in"})

    write_lines(tmp_path / "in/b.jsonl", TEXTS)
    with pytest.raises(ConvertError, match=r"in/b\.jsonl is now among its input"):
        convert(tmp_path / "s.zarr", {"en": tmp_path / "in"}, sizes=TINY)
    with pytest.raises(
        ConvertError, match=r"an unfinished conversion of en/train .*texts\.jsonl is now among its input"
    ):
        convert(tmp_path / "s.zarr", {"ar": texts, "en": tmp_path / "in/a.jsonl"}, sizes=TINY)


def test_restart_begins_anew_with_the_same_settings(tmp_path, texts):
    before = made(leave_unfinished(tmp_path / "s.zarr", {"en": texts}))

    after = made(leave_unfinished(tmp_path / "s.zarr", {"en": texts}, restart=True))

    assert len(after) == len(before)
    assert after != before


def test_workers_strict_and_replace_may_change_between_two_runs(tmp_path, texts):
    convert(tmp_path / "whole.zarr", {"en": texts})
    left = leave_unfinished(tmp_path / "s.zarr", {"en": texts})
    for path in left[::2]:
        path.unlink()

    convert(tmp_path / "s.zarr", {"en": texts}, workers=2, strict=True, replace=True, sizes=TINY)

    assert files_of(tmp_path / "s.zarr") == files_of(tmp_path / "whole.zarr")


def test_other_splits_of_the_store_are_free_and_what_was_left_stays(tmp_path, texts):
    left = leave_unfinished(tmp_path / "s.zarr", {"en": texts})
    ar, dev = (write_lines(tmp_path / f"{name}.jsonl", ["a"]) for name in ("ar", "dev"))

    convert(tmp_path / "s.zarr", {"ar": ar, "en/validation": dev})

    assert all(path.exists() for path in left)
    convert(tmp_path / "s.zarr", {"en": texts}, sizes=TINY)
    assert open_store(tmp_path / "s.zarr")["en"].splits == ("train", "validation")
    assert read_documents(tmp_path / "s.zarr", "en") == utf8(*TEXTS)


def test_the_parts_lie_where_there_is_room_and_are_removed_from_there(tmp_path, texts):
    far = tmp_path / "far/away"
    left = leave_unfinished(tmp_path / "s.zarr", {"en": texts}, staging=far)
    before = made(left)
    assert left
    assert not list((tmp_path / "s.zarr.staging").rglob("*.part"))

    assert leave_unfinished(tmp_path / "s.zarr", {"en": texts}, staging=far) == left
    assert made(left) == before
    assert leave_unfinished(tmp_path / "s.zarr", {"en": texts}, staging=far, end_token=0, restart=True) != left
    assert not left[0].exists()

    convert(tmp_path / "s.zarr", {"en": texts}, staging=far, end_token=0, sizes=TINY)
    assert read_documents(tmp_path / "s.zarr", "en") == [[*ids, 0] for ids in utf8(*TEXTS)]
    assert list(far.iterdir()) == []
    assert not (tmp_path / "s.zarr.staging").exists()


def test_a_second_call_is_refused_while_the_first_is_under_way(tmp_path, texts):
    """The same conversion, another of the same split, and one of the same records; other languages are added."""
    calls: list[str] = []

    def meanwhile(_) -> None:
        if calls:
            return
        calls.append("begun")
        with pytest.raises(ConvertError, match="the same conversion is under way in another process"):
            convert(tmp_path / "s.zarr", {"en": texts}, sizes=TINY)
        with pytest.raises(ConvertError, match=r"en/train of .*s\.zarr is being converted by another process"):
            convert(tmp_path / "s.zarr", {"en": texts}, end_token=0, restart=True)
        convert(tmp_path / "s.zarr", {"ar": write_lines(tmp_path / "ar.jsonl", ["a"])})
        calls.append("done")

    convert(tmp_path / "s.zarr", {"en": texts}, sizes=TINY, workers=1, progress=meanwhile)

    assert calls == ["begun", "done"]
    assert open_store(tmp_path / "s.zarr").languages == ("ar", "en")
    assert read_documents(tmp_path / "s.zarr", "en") == utf8(*TEXTS)


def test_two_conversions_of_the_same_records_are_not_both_begun(tmp_path):
    named = write_lines(tmp_path / "named.jsonl", TEXTS, lang="en")
    leave_unfinished(tmp_path / "s.zarr", named, language_field="lang")

    with pytest.raises(ConvertError, match=r"an unfinished conversion of named\.jsonl \(train\) is in"):
        convert(tmp_path / "s.zarr", named, language_field="lang", end_token=0)

    specs = [SourceSpec(data=str(named), language_field="lang", split="dev")]
    convert(tmp_path / "s.zarr", specs, end_token=0)
    assert open_store(tmp_path / "s.zarr")["en"].splits == ("dev",)


def test_input_that_changes_while_it_is_converted_ends_the_run(tmp_path, texts):
    def change(_) -> None:
        write_lines(texts, [*TEXTS, "more"])

    with pytest.raises(ConvertError, match=rf"{texts} changed while it was converted; begin anew with --restart"):
        convert(tmp_path / "s.zarr", {"en": texts}, workers=1, progress=change)

    assert not (tmp_path / "s.zarr").exists()
    convert(tmp_path / "s.zarr", {"en": texts}, restart=True)
    assert read_documents(tmp_path / "s.zarr", "en") == utf8(*TEXTS, "more")


def test_a_tokenizer_that_changes_while_it_is_used_ends_the_run(tmp_path, texts):
    words = save_words(tmp_path)
    work._tokenizer.cache_clear()

    def change(_) -> None:
        words.write_text(words.read_text().replace('"a":2', '"z":2').replace('"a": 2', '"z": 2'))

    with pytest.raises(ConvertError, match=r"words\.json changed while it was used; begin anew with --restart"):
        convert(tmp_path / "s.zarr", {"en": texts}, tokenizer=words, workers=1, progress=change)
    assert not (tmp_path / "s.zarr").exists()


def test_a_run_that_was_killed_while_it_cleared_up_gives_its_summary_again(tmp_path, texts, monkeypatch):
    from flatmix.convert.staging import Staging

    def killed(self: Staging) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Staging, "clear", killed)
        with pytest.raises(KeyboardInterrupt):
            convert(tmp_path / "s.zarr", {"en": texts}, sizes=TINY)
    before = files_of(tmp_path / "s.zarr")

    summary = convert(tmp_path / "s.zarr", {"en": texts}, sizes=TINY)

    assert [(one.language, one.documents) for one in summary.languages] == [("en", len(TEXTS))]
    assert files_of(tmp_path / "s.zarr") == before
    assert not (tmp_path / "s.zarr.staging").exists()
    with pytest.raises(ConvertError, match="has en/train already"):
        convert(tmp_path / "s.zarr", {"en": texts}, sizes=TINY)


def test_what_others_have_put_beside_the_jobs_is_left_alone(tmp_path, texts):
    note = tmp_path / "s.zarr.staging/mine/notes.txt"
    note.parent.mkdir(parents=True)
    note.write_text("mine")

    convert(tmp_path / "s.zarr", {"en": texts})
    convert(tmp_path / "s.zarr", {"ar": texts}, staging=tmp_path / "s.zarr.staging")

    assert files_of(tmp_path / "s.zarr.staging") == {"mine/notes.txt": b"mine"}


def test_staged_parts_may_lie_in_the_usual_place_by_name(tmp_path, texts):
    """Another conversion does not take them for left over."""
    place = tmp_path / "s.zarr.staging"
    parts = leave_unfinished(tmp_path / "s.zarr", {"en": texts}, staging=place)

    convert(tmp_path / "s.zarr", {"ar": texts})
    assert all(path.exists() for path in parts)

    convert(tmp_path / "s.zarr", {"en": texts}, staging=place, sizes=TINY)
    assert not place.exists()
    assert read_documents(tmp_path / "s.zarr", "en") == utf8(*TEXTS)


def test_staged_parts_move_to_a_place_that_is_named_later(tmp_path, texts, monkeypatch):
    parts = leave_unfinished(tmp_path / "s.zarr", {"en": texts}, staging=tmp_path / "full")
    monkeypatch.setattr(work, "_go_on", None)  # what makes parts

    convert(tmp_path / "s.zarr", {"en": texts}, staging=tmp_path / "roomy", workers=1, sizes=TINY)

    assert not any(path.exists() for path in parts)
    assert [*(tmp_path / "roomy").iterdir()] == []
    assert read_documents(tmp_path / "s.zarr", "en") == utf8(*TEXTS)


def test_staged_parts_that_cannot_be_found_are_told_and_may_be_given_up(tmp_path, texts):
    parts = leave_unfinished(tmp_path / "s.zarr", {"en": texts}, staging=tmp_path / "scratch")
    parts[0].parent.rename(tmp_path / "gone")

    with pytest.raises(ConvertError, match=r"scratch/s\.zarr\.staging-.*, cannot be found; .* or give --restart"):
        convert(tmp_path / "s.zarr", {"en": texts}, sizes=TINY)

    convert(tmp_path / "s.zarr", {"en": texts}, restart=True, sizes=TINY)
    assert read_documents(tmp_path / "s.zarr", "en") == utf8(*TEXTS)


def test_parts_are_not_staged_in_the_store(tmp_path, texts):
    with pytest.raises(ConvertError, match="lies in the store"):
        convert(tmp_path / "s.zarr", {"en": texts}, staging=tmp_path / "s.zarr/parts")

    assert sorted(path.name for path in tmp_path.iterdir()) == ["texts.jsonl"]


def test_a_run_that_made_nothing_leaves_nothing(tmp_path, texts, monkeypatch):
    def fail(*_: object) -> None:
        raise OSError("no such cluster")

    monkeypatch.setattr(engine.Engine, "run", fail)
    with pytest.raises(OSError, match="no such cluster"):
        convert(tmp_path / "s.zarr", {"en": texts})
    assert not (tmp_path / "s.zarr.staging").exists()


def test_a_place_where_nothing_can_be_staged_is_told_with_the_way_out(tmp_path, texts):
    (tmp_path / "file").touch()

    with pytest.raises(OSError, match="nothing can be staged there; name another place with --staging"):
        convert(tmp_path / "s.zarr", {"en": texts}, staging=tmp_path / "file")
    assert not (tmp_path / "s.zarr.staging").exists()

    (tmp_path / "s.zarr.staging").touch()
    with pytest.raises(ConvertError, match=r"s\.zarr\.staging is a file, and .* is kept in a folder of that name"):
        convert(tmp_path / "s.zarr", {"en": texts})


def test_a_glob_that_would_reach_what_is_written_passes_over_it(tmp_path, texts, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for stage in ("tokenizing", "writing"):
        leave_unfinished(tmp_path / "s.zarr", {"en": "**/*.json*"}, stage)

    convert("s.zarr", {"en": "**/*.json*"}, sizes=TINY)
    convert("s.zarr", {"en": "**/*.json*"}, "validation")

    assert read_documents(tmp_path / "s.zarr", "en") == utf8(*TEXTS)
    assert read_documents(tmp_path / "s.zarr", "en", "validation") == utf8(*TEXTS)


def test_a_refused_conversion_leaves_nothing_of_its_own(tmp_path, texts):
    leave_unfinished(tmp_path / "s.zarr", {"en": texts})
    before = sorted((tmp_path / "s.zarr.staging").iterdir())

    with pytest.raises(ConvertError, match="is another one"):
        convert(tmp_path / "s.zarr", {"en": texts}, end_token=0)
    assert sorted((tmp_path / "s.zarr.staging").iterdir()) == before
