"""`flatmix verify`: the table, the faults one a line, and the exit status."""

import json
import re
from pathlib import Path

import pytest
from commands import assert_refused, run_command
from helpers import edit_json, write_split
from older_stores import older_store


@pytest.fixture
def store(tmp_path: Path) -> Path:
    write_split(tmp_path / "s", [[1, 2], [9]], "en", "train")
    write_split(tmp_path / "s", [[4]], "sw", "train")
    return tmp_path / "s"


def test_a_sound_store_is_status_0_and_a_table(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = run_command(capsys, "verify", store)

    assert (done.status, done.err) == (0, "")
    lines = [re.sub(r" +", " ", line).strip() for line in done.out.splitlines()]
    assert lines[0] == "language split tokens documents seconds verdict"
    assert re.fullmatch(r"en train 3 2 \d+\.\d sound", lines[1])
    assert lines[-1] == f"{store}: 2 splits, 4 tokens, no faults"


def test_faults_are_status_1_and_a_line_each(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit_json(store / "en/train", lambda group: group["attributes"].update(max_token_id=5))
    (store / "sw/train/seq_starts/c/0").unlink()
    (store / "sw/train/mine").write_text("")
    done = run_command(capsys, "verify", store)

    assert (done.status, done.err) == (1, "")
    faults = [line for line in done.out.splitlines() if line.startswith("fault: ")]
    assert faults[0] == (
        "fault: language 'en', split 'train': encoded_tokens: ids beyond max_token_id, which is 5: 1, the first at "
        "token 2, and the largest is 9"
    )
    assert faults[1].startswith(
        "fault: language 'sw', split 'train': seq_starts: chunk 0 (in shard 0), which holds the entries [0, 2), is "
        "missing or damaged: "
    )
    assert len(faults) == 2
    assert "note: language 'sw', split 'train': not of flatmix: 'mine'\n" in done.out
    assert done.out.endswith(f"{store}: 2 splits, 4 tokens, 2 faults\n")


def test_languages_and_splits_can_be_chosen(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit_json(store / "en/train", lambda group: group["attributes"].update(max_token_id=5))
    assert run_command(capsys, "verify", store, "--language", "sw", "--split", "train").status == 0
    assert run_command(capsys, "verify", store, "--language", "sw", "--language", "en").status == 1
    assert_refused(run_command(capsys, "verify", store, "--language", "xx"), "no language 'xx'", "'en', 'sw'")


def test_json_has_the_same_and_the_same_status(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    edit_json(store / "en/train", lambda group: group["attributes"].update(max_token_id=5))
    done = run_command(capsys, "verify", store, "--json")

    assert done.status == 1
    found = json.loads(done.out)
    assert found["sound"] is False
    assert [(split["language"], split["verdict"]) for split in found["splits"]] == [("en", "wrong"), ("sw", "sound")]
    assert (found["findings"][0]["kind"], found["findings"][0]["start"]) == ("ids", 2)


def test_an_older_store_is_named_by_its_language(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = older_store(tmp_path / "s", {"train": [[1, 2, 3]]})
    assert_refused(run_command(capsys, "verify", path), "it does not name", "--language en")
    done = run_command(capsys, "verify", path, "--language", "fa")

    assert done.status == 0
    assert "no fault found" in done.out
    assert "note: language 'fa', split 'train': an older store has no digests" in done.out


def test_the_bar_is_for_terminals_only(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    assert "verifying" in run_command(capsys, "verify", store).err


def test_an_interruption_is_one_line_and_status_130(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("flatmix.verify.judge", interrupt)
    done = run_command(capsys, "verify", store)
    assert (done.status, done.out, done.err) == (130, "", "flatmix: interrupted: not everything was verified\n")
