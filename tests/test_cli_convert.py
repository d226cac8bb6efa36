"""`flatmix convert`, and what all commands share: one line for a user's error, a traceback for a bug."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from converted import read_documents, save_words, utf8, write_lines
from token_files import raw_file

import flatmix.cli
import flatmix.convert
from flatmix.convert.job import Sizes
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


def summary_of(done: tuple[int, str, str]) -> dict:
    """The summary of a conversion with --json that has succeeded."""
    status, out, err = done
    assert status == 0, err
    return json.loads(out)


def test_convert_writes_the_store_and_prints_a_table(run):
    write_lines(Path("en/a.jsonl"), ["hello", ""])
    write_lines(Path("ar.jsonl"), ["世界"])

    status, out, err = run("convert", "s.zarr", "--language", "en=en", "--language", "ar=*.jsonl")

    assert (status, err) == (0, "")
    rows = [line.split() for line in out.splitlines()]
    assert rows[0] == ["language", "split", "documents", "empty", "bad", "tokens", "bytes", "bytes/token", "time"]
    assert rows[1] == ["en", "train", "2", "1", "0", "5", "5", "1.00", "0:00:00"]
    assert rows[2] == ["ar", "train", "1", "0", "0", "6", "6", "1.00", "0:00:00"]
    assert rows[3] == ["all", "3", "1", "0", "11", "11", "1.00", "0:00:00"]
    assert out.splitlines()[4].startswith(f"{Path('s.zarr').absolute()}: 2 splits, 11 tokens, in 0:00:")
    assert read_documents(Path("s.zarr"), "en") == utf8("hello", "")
    assert not Path("s.zarr.staging").exists()


def test_several_patterns_of_one_language_follow_one_another(run):
    write_lines(Path("b.jsonl"), ["b"])
    write_lines(Path("a.jsonl"), ["a"])

    assert run("convert", "s.zarr", "--language", "en=b.jsonl", "--language", "en=a.jsonl")[0] == 0

    assert read_documents(Path("s.zarr"), "en") == utf8("b", "a")


def test_languages_and_splits_in_one_call(run):
    for name in ("a", "b", "c"):
        write_lines(Path(f"{name}.jsonl"), [name])
    sources = ["en=a.jsonl", "en/validation=b.jsonl", "sw/test=c.jsonl"]

    found = summary_of(run("convert", "s.zarr", *(f"--language={one}" for one in sources), "--split", "dev", "--json"))

    assert {name: list(splits) for name, splits in found["languages"].items()} == {
        "en": ["dev", "validation"],
        "sw": ["test"],
    }
    assert read_documents(Path("s.zarr"), "en", "dev") == utf8("a")
    assert read_documents(Path("s.zarr"), "en", "validation") == utf8("b")
    assert read_documents(Path("s.zarr"), "sw", "test") == utf8("c")


def test_the_summary_as_json_stands_alone_on_standard_output(run):
    write_lines(Path("no.jsonl"), ["a b", None, "c"])
    words = save_words(Path.cwd())

    done = run(
        *("convert", "s.zarr", "--language", "no=no.jsonl", "--tokenizer", str(words), "--split", "validation"),
        *("--begin-token", "<bos>", "--end-token", "5", "--json"),
    )

    summary = summary_of(done)
    assert summary["tokenizer"]["added"]["begin"] == {"id": 1, "token": "<bos>"}
    counts = {key: summary["languages"]["no"]["validation"][key] for key in ("documents", "bad", "tokens")}
    assert counts == {"documents": 2, "bad": 1, "tokens": 7}
    file = Path("no.jsonl").absolute()
    assert done[2] == f"flatmix: left out: {file}, line 2: Expected `str`, got `null` - at `$.text`\n"
    assert read_documents(Path("s.zarr"), "no", "validation") == [[1, 2, 3, 5], [1, 4, 5]]


def test_only_the_first_of_many_records_left_out_are_printed(run):
    write_lines(Path("en.jsonl"), ["a", *[None] * 30])

    status, out, err = run("convert", "s.zarr", "--language", "en=en.jsonl")

    assert status == 0
    assert out.splitlines()[1].split()[:5] == ["en", "train", "1", "0", "30"]
    assert len(err.splitlines()) == 11
    assert err.splitlines()[-1] == "flatmix: left out: 20 more"


def test_strict_makes_a_bad_record_an_error(run):
    write_lines(Path("en.jsonl"), ["a", None])

    status, out, err = run("convert", "s.zarr", "--language", "en=en.jsonl", "--strict")

    assert (status, out) == (1, "")
    assert "en.jsonl, line 2: Expected `str`, got `null`" in err
    assert err.count("\n") == 1
    assert not Path("s.zarr").exists()
    assert run("convert", "s.zarr", "--language", "en=en.jsonl")[0] == 0


def test_a_language_without_a_document_is_an_error_and_the_others_are_written(run):
    write_lines(Path("en.jsonl"), ["a"])
    Path("sw.jsonl").write_text("\n\n")

    status, _, err = run("convert", "s.zarr", "--language", "en=en.jsonl", "--language", "sw=sw.jsonl")

    assert status == 1
    assert err.startswith("flatmix: error: the input of sw holds no document")
    assert open_store("s.zarr").languages == ("en",)


def test_a_field_may_name_the_language(run):
    write_lines(Path("a.jsonl"), ["a"], lang="1e2")
    write_lines(Path("b.jsonl"), ["b"], lang="no")

    found = summary_of(run("convert", "s.zarr", "--language-field", "lang", "a.jsonl", "b.jsonl", "--json"))

    assert sorted(found["languages"]) == ["1e2", "no"]
    assert read_documents(Path("s.zarr"), "no") == utf8("b")


def test_a_share_of_the_documents_is_held_out(run):
    texts = [f"document {number}" for number in range(200)]
    write_lines(Path("en.jsonl"), texts)
    shares = ["--hold-out", "validation=0.1", "--hold-out", "test=0.2"]

    found = summary_of(run("convert", "s.zarr", "--language", "en=en.jsonl", *shares, "--json"))

    splits = found["languages"]["en"]
    assert sum(split["documents"] for split in splits.values()) == 200
    assert 5 < splits["validation"]["documents"] < splits["test"]["documents"] < splits["train"]["documents"]
    there = [ids for split in splits for ids in read_documents(Path("s.zarr"), "en", split)]
    assert sorted(there) == sorted(utf8(*texts))


def test_files_of_tokens_stay_as_they_are_and_their_bytes_are_unknown(run):
    raw_file(Path("train.bin"), [5, 6, 0, 7, 0], "<u2")

    settings = ["--tokens", "type=uint16", "--tokens", "document_end=0"]
    status, out, _ = run("convert", "s.zarr", "--language", "code=train.bin", *settings)

    assert status == 0
    assert out.splitlines()[1].split() == ["code", "train", "2", "0", "0", "5", "-", "-", "0:00:00"]
    assert read_documents(Path("s.zarr"), "code") == [[5, 6, 0], [7, 0]]


def test_a_store_can_be_written_in_zarr_v2(run):
    write_lines(Path("a.jsonl"), ["a"])

    assert run("convert", "s.zarr", "--language", "en=a.jsonl", "--zarr-format", "2")[0] == 0
    status, _, err = run("convert", "s.zarr", "--language", "sw=a.jsonl")

    assert read_documents(Path("s.zarr"), "en") == utf8("a")
    assert Path("s.zarr/en/train/.zattrs").exists()
    assert (status, err) == (
        1,
        f"flatmix: error: {Path('s.zarr').absolute()} is of Zarr v2, and a store is of one version: ask for "
        "--zarr-format 2, or choose another store\n",
    )


def test_a_store_can_be_written_smaller_with_the_same_content(run):
    write_lines(Path("a.jsonl"), ["the cat and the hat " * 99] * 99)

    digests, sizes = [], []
    for name in ("fast", "small"):
        done = run("convert", f"{name}.zarr", "--language", "en=a.jsonl", "--compression", name, "--json")
        digests.append(summary_of(done)["languages"]["en"]["train"]["digest"])
        sizes.append(open_store(f"{name}.zarr")["en"]["train"].size_on_disk())

    assert digests[0] == digests[1]
    assert sizes[1] < sizes[0]
    assert read_documents(Path("small.zarr"), "en") == read_documents(Path("fast.zarr"), "en")


def test_the_field_of_the_text_can_be_named(run):
    Path("a.jsonl").write_text('{"content": "a"}')

    assert run("convert", "s.zarr", "--language", "en=a.jsonl", "--text-field", "content")[0] == 0

    assert read_documents(Path("s.zarr"), "en") == utf8("a")


CONFIG = """\
end_token = 0
[hold_out]
validation = 0.5
[[source]]
language = "en"
data = ["en.jsonl"]
[[source]]
language_field = "lang"
data = "mixed.jsonl"
"""


def test_a_conversion_file_says_what_is_converted(run):
    write_lines(Path("data/en.jsonl"), [f"{number}" for number in range(40)])
    write_lines(Path("data/mixed.jsonl"), [f"{number}" for number in range(40)], lang="sw")
    Path("data/conversion.toml").write_text(CONFIG)

    found = summary_of(run("convert", "s.zarr", "--config", "data/conversion.toml", "--json"))

    assert {name: sorted(splits) for name, splits in found["languages"].items()} == {
        "en": ["train", "validation"],
        "sw": ["train", "validation"],
    }
    assert all(ids[-1] == 0 for ids in read_documents(Path("s.zarr"), "en"))


def test_options_go_before_what_a_conversion_file_says(run):
    write_lines(Path("en.jsonl"), ["a"] * 40)
    write_lines(Path("mixed.jsonl"), ["b"], lang="sw")
    Path("conversion.toml").write_text(CONFIG)
    options = ["--end-token", "7", "--split", "dev", "--hold-out", "test=0.000001"]

    assert run("convert", "s.zarr", "--config", "conversion.toml", *options)[0] == 0

    assert read_documents(Path("s.zarr"), "en", "dev") == [[97, 7]] * 40
    assert read_documents(Path("s.zarr"), "sw", "dev") == [[98, 7]]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--language", "en=en.jsonl"], "--language"),
        (["en.jsonl"], "FILES"),
        (["--language-field", "lang", "en.jsonl"], "--language-field"),
    ],
)
def test_a_conversion_file_and_other_sources_exclude_each_other(run, arguments, named):
    Path("c.toml").write_text(CONFIG)

    assert run("convert", "s.zarr", "--config", "c.toml", *arguments) == (
        1,
        "",
        f"flatmix: error: --config c.toml says what is converted: leave out {named}, or the file\n",
    )


def test_an_error_in_a_conversion_file_has_its_line(run):
    Path("c.toml").write_text(CONFIG.replace('"en"', "nan"))

    assert run("convert", "s.zarr", "--config", "c.toml") == (
        1,
        "",
        "flatmix: error: c.toml, line 5: source[0].language is nan: a name is text, in quotes\n",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--language", "en=no-such.jsonl"], "no-such.jsonl: there is no such file or folder"),
        (["--language", "en"], "--language en: say which files, as in --language en=FILES"),
        (["--language", "=a.jsonl"], "--language =a.jsonl: say which files"),
        (["--language", "train=a.jsonl"], "'train' cannot name a language"),
        (["--language", "en/=a.jsonl"], "'' cannot name a split"),
        (["--language", "en=a.jsonl", "--language", "en/train=b.jsonl"], "en/train is named twice"),
        ([], "nothing to convert: give --language NAME=FILES"),
        (["a.jsonl"], "which language is a.jsonl? Say --language NAME=a.jsonl"),
        (["--language-field", "lang"], "--language-field needs files"),
        (["--language-field", "lang", "--language", "en=a.jsonl"], "give --language or --language-field, not both"),
        (["--language-field", "lang", "a.jsonl"], "a.jsonl, line 1: Object missing required field `lang`"),
        (["--config", "no-such.toml"], "No such file or directory: 'no-such.toml'"),
        (["--language", "en=a.jsonl", "--text-field", "content"], "line 1: Object missing required field `content`"),
        (["--language", "en=a.jsonl", "--tokenizer", "gpt2"], "tokenizer gpt2: there is no such file"),
        (["--language", "en=a.jsonl", "--end-token", "<eos>"], "the end token '<eos>' is not in the vocabulary"),
        (["--language", "en=a.jsonl", "--split", "a/b"], "'a/b' cannot name a split"),
        (["--language", "en=a.jsonl", "--compression", "tiny"], "compression must be 'fast' or 'small', not 'tiny'"),
        (["--language", "en=a.jsonl", "--zarr-format", "1"], "zarr_format must be 3, or 2 for readers that know no "),
        (["--language", "en=a.jsonl", "--hold-out", "0.1"], "--hold-out 0.1: write SPLIT=SHARE, as in validation=0.01"),
        (["--language", "en=a.jsonl", "--hold-out", "test=2"], "hold out test=2.0: a share of the documents lies"),
        (["--language", "en=a.jsonl", "--hold-out", "train=0.1"], "'train' is given, and is to be held out as well"),
        (["--language", "en=a.jsonl", "--tokens", "uint16"], "--tokens uint16: write KEY=VALUE, as in --tokens type="),
        (["--language", "en=a.jsonl", "--backend", "spark"], "backend must be local, dask, ray, not 'spark'"),
        (["--language", "en=a.jsonl", "--backend", "dask"], "backend dask needs the address of its scheduler"),
    ],
)
def test_a_users_error_is_one_line_and_writes_nothing(run, arguments, message):
    write_lines(Path("a.jsonl"), ["a"])
    write_lines(Path("b.jsonl"), ["b"])

    status, out, err = run("convert", "s.zarr", *arguments)

    assert (status, out) == (1, "")
    assert err.startswith("flatmix: error: ")
    assert message in err
    assert len(err.splitlines()) == 1
    assert sorted(path.name for path in Path().iterdir()) == ["a.jsonl", "b.jsonl"]


def test_a_message_of_several_lines_is_printed_on_one(run):
    Path("a\nb.jsonl").write_text("{}")

    status, _, err = run("convert", "s.zarr", "--language", "en=a\nb.jsonl")

    assert status == 1
    assert "a b.jsonl, line 1: " in err
    assert err.count("\n") == 1


def test_existing_splits_and_foreign_folders_are_refused_from_the_command_line(run):
    write_lines(Path("a.jsonl"), ["a"])
    Path("mine").mkdir()
    Path("mine/notes.txt").write_text("notes")
    assert run("convert", "s.zarr", "--language", "en=a.jsonl")[0] == 0

    status, _, err = run("convert", "s.zarr", "--language", "en=a.jsonl")
    assert status == 1
    assert err.endswith("s.zarr has en/train already; give another --split, or --replace to write it anew\n")
    assert run("convert", "s.zarr", "--language", "en=a.jsonl", "--replace")[0] == 0
    assert run("convert", "mine", "--language", "en=a.jsonl", "--replace")[0] == 1
    assert Path("mine/notes.txt").read_text() == "notes"


def test_a_split_that_is_being_written_is_refused_in_one_line(run):
    from flatmix.store.writer import SplitWriter

    write_lines(Path("a.jsonl"), ["a"])
    with SplitWriter("s.zarr", "en", "train"):
        for options in ([], ["--replace"]):
            status, out, err = run("convert", "s.zarr", "--language", "en=a.jsonl", *options)
            assert (status, out) == (1, "")
            assert err.endswith("s.zarr: en/train is being written by another process; wait until it is done\n")
            assert err.count("\n") == 1


def test_what_the_encoding_of_the_terminal_lacks_is_escaped(tmp_path):
    write_lines(tmp_path / "世界.jsonl", ["a", None])
    write_lines(tmp_path / "世界-2.jsonl", ["b"])

    def run_ascii(*arguments: str) -> subprocess.CompletedProcess[bytes]:
        environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
        command = [sys.executable, "-m", "flatmix", *arguments]
        return subprocess.run(command, capture_output=True, timeout=60, cwd=tmp_path, env=environment)

    done = run_ascii("convert", "s.zarr", "--language", "é世😀=世界.jsonl", "--json")
    assert done.returncode == 0, done.stderr
    assert list(json.loads(done.stdout)["languages"]) == ["é世😀"]
    assert done.stderr.startswith(b"flatmix: left out: ")
    assert rb"/\u4e16\u754c.jsonl, line 2: " in done.stderr
    done = run_ascii("convert", "s.zarr", "--language", "é世=世界-2.jsonl")
    assert (done.returncode, done.stderr) == (0, b"")
    assert rb"\xe9\u4e16" in done.stdout
    done = run_ascii("convert", "s.zarr", "--language", "世界=none.jsonl")
    assert done.returncode == 1
    assert done.stderr == b"flatmix: error: none.jsonl: there is no such file or folder\n"
    done = run_ascii("convert", "世界", "--language", "en=none/世界")
    assert done.stderr == b"flatmix: error: none/\\u4e16\\u754c: there is no such file or folder\n"


def test_a_bug_keeps_its_traceback(run, monkeypatch):
    """A ValueError of another library, say, tells the user nothing that could be put right."""
    from flatmix.convert import Tokenizer

    def broken(*_):
        return np.zeros((2, 3)).reshape(7)

    monkeypatch.setattr(Tokenizer, "encode_documents", broken)
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


def test_what_a_worker_finds_wrong_is_one_line(run, monkeypatch):
    write_lines(Path("a.jsonl"), ["good"] * 500 + [None])
    whole = flatmix.convert.make_job
    monkeypatch.setattr(
        flatmix.convert, "make_job", lambda *given, **more: whole(*given, **{**more, "sizes": Sizes(unit_bytes=2000)})
    )

    status, out, err = run("convert", "s.zarr", "--language", "en=a.jsonl", "--strict", "--workers", "2")

    assert (status, out) == (1, "")
    assert err.startswith("flatmix: error: ")
    assert "a.jsonl, line 501: " in err
    assert err.count("\n") == 1
