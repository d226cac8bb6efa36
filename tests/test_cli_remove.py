"""`flatmix remove`: asks with what will go, and does nothing unasked."""

import io
from pathlib import Path

import pytest
from commands import assert_refused, run_command
from helpers import files_of, write_split

from flatmix import open_store


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def store(tmp_path: Path) -> Path:
    write_split(tmp_path / "s", [[1, 2], [9]], "en", "train")
    write_split(tmp_path / "s", [[4]], "en", "validation")
    return tmp_path / "s"


def test_without_a_terminal_it_must_be_told_not_to_ask(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("y\n"))
    before = files_of(store)
    done = run_command(capsys, "remove", store, "en", "--split", "train")

    assert_refused(
        done,
        f"this would delete split 'train' of language 'en' from {store} (3 tokens, 2 documents, 0.0 MB), and there is "
        "no terminal to ask on; give --yes",
    )
    assert files_of(store) == before


def test_with_yes_it_does_not_ask(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = run_command(capsys, "remove", store, "en", "--split", "train", "--yes")
    assert (done.status, done.err) == (0, "")
    assert done.out == f"deleted split 'train' of language 'en' from {store} (3 tokens, 2 documents, 0.0 MB)\n"
    assert open_store(store)["en"].splits == ("validation",)


@pytest.mark.parametrize("answer", ["y", "n", ""])
def test_on_a_terminal_it_asks_with_what_will_go(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal(f"{answer}\n"))
    before = files_of(store)
    done = run_command(capsys, "remove", store, "en")

    assert "train            3          2  0.0" in done.out
    question = f"language 'en' with its splits 'train', 'validation' from {store} (4 tokens, 3 documents, 0.0 MB)"
    assert f"Delete {question}? [y/N]" in done.out
    if answer == "y":
        assert done.status == 0
        assert done.out.endswith(f"deleted {question}\n")
        assert open_store(store).languages == ()
    else:
        assert done.status == 1
        assert done.out.endswith("nothing was deleted\n")
        assert files_of(store) == before


def test_what_cannot_go_is_refused_before_anybody_is_asked(
    store: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("y\n"))
    assert_refused(run_command(capsys, "remove", store, "sw"), "no language 'sw'", "its languages are 'en'")
    (store / "en/train/mine").write_text("")
    assert_refused(run_command(capsys, "remove", store, "en"), "holds 'mine', which is not of flatmix")


def test_a_split_of_unknown_content_is_called_so(store: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (store / "en/train/zarr.json").unlink()
    done = run_command(capsys, "remove", store, "en", "--yes")
    assert "(1 tokens, 1 documents, 0.0 MB, 1 of them incomplete or damaged)" in done.out
    assert not (store / "en").exists()
