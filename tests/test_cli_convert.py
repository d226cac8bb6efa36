"""`flatmix convert`, and what all commands share: one line for a user's error, a traceback for a bug."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from converted import files_of, read_documents, save_words, utf8, write_lines

import flatmix.cli
from flatmix.store import open_store

ROOT = Path(__file__).parents[1]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs a command in an empty folder: (exit status, standard output, standard error)."""
    monkeypatch.chdir(tmp_path)

    def run_command(*arguments: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            flatmix.cli.main(arguments)
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run_command


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, timeout=60, cwd=ROOT)


def test_convert_writes_the_store_and_prints_a_table(run):
    write_lines(Path("en/a.jsonl"), ["hello", ""])
    write_lines(Path("ar.jsonl"), ["世界"])

    status, out, err = run("convert", "s.zarr", "--language", "en=en", "--language", "ar=*.jsonl")

    assert (status, err) == (0, "")
    rows = [line.replace("│", " ").split() for line in out.splitlines()]
    assert ["en", "2", "1", "0", "5", "5", "1.00"] in rows
    assert ["ar", "1", "0", "0", "6", "6", "1.00"] in rows
    assert ["all", "3", "1", "0", "11", "11", "1.00"] in rows
    assert read_documents(Path("s.zarr"), "en") == utf8("hello", "")


def test_several_patterns_of_one_language_follow_one_another(run):
    write_lines(Path("b.jsonl"), ["b"])
    write_lines(Path("a.jsonl"), ["a"])

    assert run("convert", "s.zarr", "--language", "en=b.jsonl", "--language", "en=a.jsonl")[0] == 0

    assert read_documents(Path("s.zarr"), "en") == utf8("b", "a")


def test_the_summary_as_json_stands_alone_on_standard_output(run):
    write_lines(Path("no.jsonl"), ["a b", None, "c"])
    words = save_words(Path.cwd())

    status, out, err = run(
        *("convert", "s.zarr", "--language", "no=no.jsonl", "--tokenizer", str(words), "--split", "validation"),
        *("--begin-token", "<bos>", "--end-token", "5", "--skip-bad", "--json"),
    )

    assert status == 0
    summary = json.loads(out)
    assert summary["split"] == "validation"
    assert summary["tokenizer"]["added"]["begin"] == {"id": 1, "token": "<bos>"}
    assert {key: summary["languages"]["no"][key] for key in ("documents", "bad", "tokens")} == {
        "documents": 2,
        "bad": 1,
        "tokens": 7,
    }
    assert err == "flatmix: left out: no.jsonl, line 2: Expected `str`, got `null` - at `$.text`\n"
    assert read_documents(Path("s.zarr"), "no", "validation") == [[1, 2, 3, 5], [1, 4, 5]]


def test_only_the_first_of_many_records_left_out_are_printed(run):
    write_lines(Path("en.jsonl"), ["a", *[None] * 30])

    status, _, err = run("convert", "s.zarr", "--language", "en=en.jsonl", "--skip-bad")

    assert status == 0
    assert len(err.splitlines()) == 11
    assert err.splitlines()[-1] == "flatmix: left out: 20 more"


def test_a_field_may_name_the_language(run):
    write_lines(Path("a.jsonl"), ["a"], lang="1e2")
    write_lines(Path("b.jsonl"), ["b"], lang="no")

    status, out, _ = run("convert", "s.zarr", "--language-field", "lang", "a.jsonl", "b.jsonl", "--json")

    assert status == 0
    assert list(json.loads(out)["languages"]) == ["1e2", "no"]
    assert read_documents(Path("s.zarr"), "no") == utf8("b")


def test_a_store_can_be_written_in_zarr_v2(run):
    write_lines(Path("a.jsonl"), ["a"])

    assert run("convert", "s.zarr", "--language", "en=a.jsonl", "--zarr-format", "2")[0] == 0
    status, _, err = run("convert", "s.zarr", "--language", "sw=a.jsonl")

    assert read_documents(Path("s.zarr"), "en") == utf8("a")
    assert Path("s.zarr/en/train/.zattrs").exists()
    assert (status, err) == (
        1,
        "flatmix: error: s.zarr is of Zarr v2, and a store is of one version: ask for --zarr-format 2, or choose "
        "another store\n",
    )


def test_a_store_can_be_written_smaller_with_the_same_content(run):
    write_lines(Path("a.jsonl"), ["the cat and the hat " * 99] * 99)

    digests, sizes = [], []
    for name in ("fast", "small"):
        status, out, _ = run("convert", f"{name}.zarr", "--language", "en=a.jsonl", "--compression", name, "--json")
        assert status == 0
        digests.append(json.loads(out)["languages"]["en"]["digest"])
        sizes.append(open_store(f"{name}.zarr")["en"]["train"].size_on_disk())

    assert digests[0] == digests[1]
    assert sizes[1] < sizes[0]
    assert read_documents(Path("small.zarr"), "en") == read_documents(Path("fast.zarr"), "en")


def test_the_field_of_the_text_can_be_named(run):
    Path("a.jsonl").write_text('{"content": "a"}')

    assert run("convert", "s.zarr", "--language", "en=a.jsonl", "--text-field", "content")[0] == 0

    assert read_documents(Path("s.zarr"), "en") == utf8("a")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--language", "en=no-such.jsonl"], "no-such.jsonl: there is no such file or folder"),
        (["--language", "en"], "--language en: say which files, as in --language en=FILES"),
        (["--language", "=a.jsonl"], "--language =a.jsonl: say which files"),
        (["--language", "train=a.jsonl"], "'train' cannot name a language"),
        ([], "nothing to convert: give --language NAME=FILES"),
        (["a.jsonl"], "which language is a.jsonl? Say --language NAME=a.jsonl"),
        (["--language-field", "lang"], "--language-field needs files"),
        (["--language-field", "lang", "--language", "en=a.jsonl"], "give --language or --language-field, not both"),
        (["--language-field", "lang", "a.jsonl"], "a.jsonl, line 1: Object missing required field `lang`"),
        (["--language", "en=a.jsonl", "--text-field", "content"], "line 1: Object missing required field `content`"),
        (["--language", "en=a.jsonl", "--tokenizer", "gpt2"], "tokenizer gpt2: there is no such file"),
        (["--language", "en=a.jsonl", "--end-token", "<eos>"], "the end token '<eos>' is not in the vocabulary"),
        (["--language", "en=a.jsonl", "--split", "a/b"], "'a/b' cannot name a split"),
        (["--language", "en=a.jsonl", "--compression", "tiny"], "compression must be 'fast' or 'small', not 'tiny'"),
        (["--language", "en=a.jsonl", "--zarr-format", "1"], "zarr_format must be 3, or 2 for readers that know no "),
    ],
)
def test_a_users_error_is_one_line_and_writes_nothing(run, arguments, message):
    write_lines(Path("a.jsonl"), ["a"])

    status, out, err = run("convert", "s.zarr", *arguments)

    assert (status, out) == (1, "")
    assert err.startswith("flatmix: error: ")
    assert message in err
    assert len(err.splitlines()) == 1
    assert not Path("s.zarr").exists()


def test_a_message_of_several_lines_is_printed_on_one(run):
    Path("a\nb.jsonl").write_text("{}")

    status, _, err = run("convert", "s.zarr", "--language", "en=a\nb.jsonl")

    assert status == 1
    assert err.startswith("flatmix: error: a b.jsonl, line 1: ")
    assert err.count("\n") == 1


def test_existing_splits_and_foreign_folders_are_refused_from_the_command_line(run):
    write_lines(Path("a.jsonl"), ["a"])
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("notes")
    assert run("convert", "s.zarr", "--language", "en=a.jsonl")[0] == 0

    status, _, err = run("convert", "s.zarr", "--language", "en=a.jsonl")
    assert (status, err) == (
        1,
        "flatmix: error: s.zarr has en/train already; give another --split, or --replace to write it anew\n",
    )
    assert run("convert", "s.zarr", "--language", "en=a.jsonl", "--replace")[0] == 0
    assert run("convert", "mine", "--language", "en=a.jsonl", "--replace")[0] == 1
    assert Path("mine/notes.txt").read_text() == "notes"


def test_a_split_that_is_being_written_is_refused_in_one_line(run):
    from flatmix.store.writer import SplitWriter

    write_lines(Path("a.jsonl"), ["a"])
    with SplitWriter("s.zarr", "en", "train"):
        for options in ([], ["--replace"]):
            assert run("convert", "s.zarr", "--language", "en=a.jsonl", *options) == (
                1,
                "",
                "flatmix: error: s.zarr: en/train is being written by another process; wait until it is done\n",
            )


INTERRUPTED = """
import os, signal, sys, threading
from flatmix import cli
from flatmix.convert import plan
from flatmix.store import format as layout, writer
layout.CHUNK, layout.SHARD = 16, 2**14
when, *arguments = sys.argv[1:]

def interrupting(function, delay):
    def interrupted(*arguments):
        threading.Timer(delay, os.kill, (os.getpid(), signal.SIGINT)).start()
        if not delay:
            threading.Event().wait(60)
        return function(*arguments)
    return interrupted

if when == "checking":
    plan._count = interrupting(plan._count, 0)
else:
    writer.write_shard = interrupting(writer.write_shard, 0.05)  # while zarr's loop has the thousand chunks of a shard
cli.main(arguments)
"""


def interrupt(when: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Converts a.jsonl and gets SIGINT on the way."""
    options = [when, "convert", "s.zarr", "--language", "en=a.jsonl", *arguments]
    return subprocess.run([sys.executable, "-c", INTERRUPTED, *options], capture_output=True, text=True, timeout=60)


def test_an_interruption_is_one_line_that_says_what_it_left_and_how_to_go_on(run):
    write_lines(Path("a.jsonl"), ["x" * 1000] * 50)

    done = interrupt("checking")
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == "flatmix: interrupted: nothing was written\n"
    assert not Path("s.zarr").exists()

    done = interrupt("writing")
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == (
        "flatmix: interrupted: the split 'train' that was being written in s.zarr is incomplete: run the same command "
        "again, with --replace\n"
    )
    assert open_store("s.zarr").status("en", "train") == "incomplete"

    assert run("convert", "s.zarr", "--language", "en=a.jsonl", "--replace")[0] == 0
    before = files_of(Path("s.zarr"))
    done = interrupt("writing", "--replace")
    assert (done.returncode, done.stdout) == (130, "")
    assert done.stderr == (
        "flatmix: interrupted: the split 'train' that was being written in s.zarr is incomplete or still the old one: "
        "run the same command again\n"
    )
    assert files_of(Path("s.zarr")) == before


def test_what_the_encoding_of_the_terminal_lacks_is_escaped(tmp_path):
    write_lines(tmp_path / "世界.jsonl", ["a", None])
    write_lines(tmp_path / "世界-2.jsonl", ["b"])

    def run_ascii(*arguments: str) -> subprocess.CompletedProcess[bytes]:
        environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
        command = [sys.executable, "-m", "flatmix", *arguments]
        return subprocess.run(command, capture_output=True, timeout=60, cwd=tmp_path, env=environment)

    done = run_ascii("convert", "s.zarr", "--language", "é世😀=世界.jsonl", "--skip-bad", "--json")
    assert done.returncode == 0, done.stderr
    assert list(json.loads(done.stdout)["languages"]) == ["é世😀"]
    assert done.stderr.startswith(rb"flatmix: left out: \u4e16\u754c.jsonl, line 2: ")
    done = run_ascii("convert", "s.zarr", "--language", "é世=世界-2.jsonl")
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"\xe9\u4e16" in done.stdout
    done = run_ascii("convert", "s.zarr", "--language", "世界=none.jsonl")
    assert done.returncode == 1
    assert done.stderr == b"flatmix: error: none.jsonl: there is no such file or folder\n"
    done = run_ascii("convert", "世界", "--language", "en=none/世界")
    assert done.stderr == b"flatmix: error: none/\\u4e16\\u754c: there is no such file or folder\n"


def test_an_error_of_the_system_is_one_line_with_its_path(run, monkeypatch):
    from flatmix.store import writer

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(writer, "write_shard", full)
    write_lines(Path("a.jsonl"), ["a"])

    status, _, err = run("convert", "s.zarr", "--language", "en=a.jsonl")

    assert status == 1
    assert len(err.splitlines()) == 1
    assert "No space left on device" in err
    assert "s.zarr" in err


def test_a_bug_keeps_its_traceback(run, monkeypatch):
    """A ValueError of another library, say, tells the user nothing that could be put right."""
    import numpy as np

    from flatmix.convert import tokenizer

    def broken(texts):
        return [np.zeros((2, 3)).reshape(7)]

    monkeypatch.setattr(tokenizer, "_BYTES", tokenizer._BYTES._replace(encode=broken))
    write_lines(Path("a.jsonl"), ["a"])

    with pytest.raises(ValueError, match="cannot reshape"):
        flatmix.cli.main(["convert", "s.zarr", "--language", "en=a.jsonl"])


def test_help_is_quick_because_heavy_libraries_stay_out(tmp_path):
    """And a conversion shows that the same look finds them where they are used."""
    arguments = ["convert", str(tmp_path / "s.zarr"), "--language", f"en={write_lines(tmp_path / 'a.jsonl', ['a'])}"]

    assert loaded_by(["convert", "--help"]) == []
    assert {"numpy", "zarr"} <= set(loaded_by(arguments))


def loaded_by(arguments: list[str]) -> list[str]:
    """Which heavy libraries a process has loaded after that command."""
    code = (
        "import json, sys, flatmix.cli\n"
        f"try: flatmix.cli.main({arguments!r})\n"
        "except SystemExit: pass\n"
        "print(json.dumps(sorted({'jax', 'zarr', 'tensorstore', 'numba', 'tokenizers', 'numpy'} & set(sys.modules))))"
    )
    return json.loads(run_python("-c", code).stdout.splitlines()[-1])


def test_help_holds_an_example_that_can_be_copied():
    done = run_python("-m", "flatmix", "convert", "--help")

    assert done.returncode == 0
    assert "  flatmix convert corpus.zarr --language-field lang data.jsonl --split validation\n" in done.stdout


def test_the_script_is_the_same_command():
    script = run_python("tools/huggingface_to_flat_tokens.py", "--help")

    assert script.returncode == 0
    assert script.stdout == run_python("-m", "flatmix", "convert", "--help").stdout


def test_no_command_and_an_unknown_one_show_how_to_go_on(run):
    assert "convert" in "".join(run()[1:])
    status, _, err = run("konvert")
    assert status == 2
    assert "konvert" in err
