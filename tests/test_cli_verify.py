"""`flatmix verify`: the table, the faults one a line, and the exit status."""

import json
import re
from pathlib import Path

import pytest
from commands import assert_refused, run_command
from converted import files_of, write_lines
from helpers import edit_json, write_split
from older_stores import older_store
from token_files import raw_file

from flatmix.convert import convert


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


@pytest.fixture
def converted(tmp_path: Path) -> Path:
    """The store of the files en.jsonl and sw.jsonl, whose tokens are damaged."""
    for language in ("en", "sw"):
        write_lines(tmp_path / f"{language}.jsonl", ["one", "", "two"])
    convert(tmp_path / "s", {name: tmp_path / f"{name}.jsonl" for name in ("en", "sw")}, end_token=0, workers=1)
    for language in ("en", "sw"):
        (tmp_path / f"s/{language}/train/encoded_tokens/c/0").write_bytes(b"")
    return tmp_path / "s"


def test_repair_makes_what_is_damaged_again(converted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = converted.parent
    sources = [f"--language={name}={folder / name}.jsonl" for name in ("en", "sw")]
    done = run_command(capsys, "verify", converted, "--repair", "--end-token", 0, *sources)

    assert (done.status, done.err) == (0, "")
    assert "repaired: language 'en', split 'train': encoded_tokens: piece 0\n" in done.out
    assert done.out.endswith(f"{converted}: 2 splits, 18 tokens, no faults\n")
    convert(folder / "again", {name: folder / f"{name}.jsonl" for name in ("en", "sw")}, end_token=0, workers=1)
    assert files_of(converted) == files_of(folder / "again")
    assert run_command(capsys, "verify", converted, "--repair").status == 0


def test_what_is_not_repaired_says_why_and_is_status_1(converted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = run_command(capsys, "verify", converted, "--repair", "--language", f"en={converted.parent}/en.jsonl")

    assert (done.status, done.err) == (1, "")
    assert "not repaired: language 'en', split 'train': its tokenizer is bytes (" in done.out
    assert "end token 0), and bytes (" in done.out
    assert done.out.endswith(f"{converted}: 1 split, 9 tokens, 1 fault\n")


def test_json_has_the_repairs(converted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = f"en/train={converted.parent}/en.jsonl"
    done = run_command(
        capsys, "verify", converted, "--repair", "--end-token", "0", "--language", source, "--language", "sw", "--json"
    )

    assert done.status == 1
    found = json.loads(done.out)
    assert [split["verdict"] for split in found["splits"]] == ["sound", "damaged"]
    assert [repair["repaired"] for repair in found["repairs"]] == [{"encoded_tokens": [0]}, {}]
    assert "--language sw=FILES" in found["repairs"][1]["refused"][0]


def test_the_configuration_that_made_a_store_repairs_it(converted: Path, capsys: pytest.CaptureFixture[str]) -> None:
    config = converted.parent / "conversion.toml"
    config.write_text(
        "end_token = 0\n"
        + "".join(f'[[source]]\nlanguage = "{name}"\ndata = "{name}.jsonl"\n' for name in ("en", "sw"))
    )
    assert run_command(capsys, "verify", converted, "--repair", "--config", config, "--end-token", "1").status == 1
    assert run_command(capsys, "verify", converted, "--repair", "--config", config).status == 0
    refused = run_command(capsys, "verify", converted, "--repair", "--config", config, "--language", "en=x")
    assert_refused(refused, "names the sources")
    refused = run_command(capsys, "verify", converted, "--repair", "--config", config, "--tokens", "type=uint16")
    assert_refused(refused, "--tokens")


def test_files_of_tokens_are_read_as_they_were(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = raw_file(tmp_path / "a.bin", [1, 7, 2, 3, 7])
    convert(tmp_path / "s", {"en": source}, tokens={"type": "uint16", "document_end": 7}, workers=1)
    (tmp_path / "s/en/train/seq_starts/c/0").unlink()
    settings = ("--tokens", "type=uint16", "--tokens", "document_end=7")

    assert run_command(capsys, "verify", tmp_path / "s", "--repair", f"--language=en={source}", *settings).status == 0


def test_what_repair_needs_is_refused_without_it(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("config", "tokenizer", "begin-token", "end-token", "tokens"):
        assert_refused(run_command(capsys, "verify", store, f"--{option}", "x"), f"--{option}", "--repair")
    assert_refused(run_command(capsys, "verify", store, "--repair", "--language", "en="), "--language en=FILES")


def test_an_interrupted_repair_says_that_it_goes_on(
    converted: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("flatmix.convert.repair.tokens_piece", interrupt)
    source = f"--language=en={converted.parent}/en.jsonl"
    done = run_command(capsys, "verify", converted, "--repair", "--end-token", "0", source)
    assert (done.status, done.out) == (130, "")
    assert done.err.startswith("flatmix: interrupted: not everything was repaired")
