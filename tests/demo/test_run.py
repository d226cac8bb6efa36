"""The demo's folder, and what it makes of a training process that ends otherwise than it should."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from converted import files_of, write_lines

from flatmix.convert import convert
from flatmix.demo import run

REPORT = (
    "import json\n"
    "for step in range({steps}): print(json.dumps(dict(step=step, loss=1, seconds=0, chain='')), flush=True)\n"
)


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """What a demo leaves, some of it, beside something of the user."""
    folder = tmp_path / "demo-run"
    texts = write_lines(folder / "texts/en.jsonl", ["a"])
    convert(folder / "corpus.zarr", {"en": texts, "ru": write_lines(folder / "texts/ru.jsonl", ["b"])})
    for name in ("unbroken.npz", "killed.npz", "killed.part", run._MARK):
        (folder / name).write_text("")
    return folder


def test_a_folder_of_a_demo_is_emptied_and_a_new_or_empty_one_taken(earlier: Path, tmp_path: Path):
    (tmp_path / "empty").mkdir()

    for folder in (earlier, tmp_path / "empty", tmp_path / "new/deep"):
        run._make_folder(folder)
        assert list(files_of(folder)) == [run._MARK]
        assert [entry.name for entry in folder.iterdir()] == [run._MARK]


@pytest.mark.parametrize(
    "foreign",
    [
        "notes.txt",
        "mine.npz",
        "texts/mine.jsonl",
        "corpus.zarr/xx/zarr.json",
        "corpus.zarr/en/validation/zarr.json",
        "corpus.zarr/en/train/notes.txt",
    ],
)
def test_nothing_goes_where_there_is_a_file_that_no_demo_has_made(earlier: Path, foreign: str):
    (earlier / foreign).parent.mkdir(parents=True, exist_ok=True)
    (earlier / foreign).write_text("mine")
    before = files_of(earlier)

    with pytest.raises(ValueError, match="is not of the demo: move it away, or name a new folder") as refused:
        run._make_folder(earlier)
    assert str(refused.value).startswith(str(earlier))
    assert files_of(earlier) == before


def test_a_link_in_the_folder_goes_and_not_what_it_leads_to(earlier: Path, tmp_path: Path):
    (earlier / "texts").rename(tmp_path / "elsewhere")
    (earlier / "texts").symlink_to(tmp_path / "elsewhere")

    run._make_folder(earlier)

    assert not (earlier / "texts").exists()
    assert sorted(files_of(tmp_path / "elsewhere")) == ["en.jsonl", "ru.jsonl"]


def test_a_folder_without_the_mark_and_a_file_are_refused(tmp_path: Path):
    write_lines(tmp_path / "texts/en.jsonl", ["a"])
    with pytest.raises(ValueError, match="holds files that are not of a demo: name a new folder"):
        run._make_folder(tmp_path)
    with pytest.raises(ValueError, match=r"en\.jsonl is a file: name a new folder"):
        run._make_folder(tmp_path / "texts/en.jsonl")


def started(code: str) -> "subprocess.Popen[str]":
    return subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)


def test_a_process_is_killed_once_it_has_done_the_step():
    said: list[str] = []

    last = run._kill(started(REPORT.format(steps=6) + "import time; time.sleep(60)"), 3, said.append)

    assert last >= 3
    assert said[-1] == f"  killed (status {-signal.SIGKILL}) after step {last}"


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("", "ended with status 0 after step 1, before it could be killed after step 3"),
        ("exit(3)", "ended with status 3 after step 1"),
        ("import os; os.kill(os.getpid(), 9)", "ended with status -9 after step 1"),
    ],
    ids=["done", "failed", "killed by another"],
)
def test_a_process_that_ends_by_itself_is_not_called_killed(code: str, message: str):
    said: list[str] = []

    with pytest.raises(ValueError, match=message):
        run._kill(started(REPORT.format(steps=2) + code), 3, said.append)
    assert not any("killed" in line for line in said)


def test_a_process_that_fails_is_an_error():
    with pytest.raises(ValueError, match="the training process ended with status 3: its own message is above"):
        run._finish(started(REPORT.format(steps=1) + "exit(3)"), print)
