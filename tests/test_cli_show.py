"""`flatmix show`: the text of rows, from a store with options or from a run file."""

import json
import sys
from pathlib import Path

import pytest
from commands import Done, assert_refused, run_command
from converted import save_words, write_lines
from older_stores import older_store

from flatmix.convert import convert
from flatmix.loader import ShufflingLoader
from flatmix.params import FlatTokensParams, MixtureParams, TokenBatchParams

TEXTS = {"en": "the cat sat", "no": "katten satt på matten", "sw": "paka alikaa"}

RUN = """\
[data]
store = "s.zarr"
[batch]
len = 12
batch = 4
[order]
seed = 7
streams = 2
[mixture.weights]
en = 0.5
no = 0.5
"""

OPTIONS = {"--weight": "en=0.5 no=0.5", "--len": "12", "--batch": "4", "--streams": "2", "--seed": "7"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of bytes, s.zarr, and one of words, words.zarr, with words.json."""
    folder = tmp_path_factory.mktemp("show")
    for language, text in TEXTS.items():
        write_lines(folder / f"{language}.jsonl", [f"{number} {text}. " for number in range(40)])
    sources = {language: [str(folder / f"{language}.jsonl")] for language in TEXTS}
    convert(folder / "s.zarr", sources)
    convert(folder / "s.zarr", {"en": sources["sw"]}, "validation")
    write_lines(folder / "abc.jsonl", ["a b c"] * 20)
    convert(folder / "words.zarr", {"en": [str(folder / "abc.jsonl")]}, tokenizer=str(save_words(folder)))
    (folder / "run.toml").write_text(RUN)
    return folder


@pytest.fixture
def show(capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder)

    def run_show(*arguments: object) -> Done:
        return run_command(capsys, "show", *arguments)

    return run_show


def options(**changes: str | None) -> list[str]:
    """All that a store needs, with changes: None leaves an option out."""
    given = OPTIONS | {f"--{name}": value for name, value in changes.items()}
    return [
        word for option, values in given.items() if values is not None for value in values.split()
        for word in (option, value)
    ]  # fmt: skip


def rows_of(done: Done) -> list[dict]:
    assert (done.status, done.err) == (0, "")
    return json.loads(done.out)["rows"]


def test_rows_are_shown_as_text_with_their_addresses(show, folder: Path):
    loader = ShufflingLoader(
        "train",
        FlatTokensParams(str(folder / "s.zarr"), streams=2, seed=7),
        MixtureParams({"en": 0.5, "no": 0.5}),
        TokenBatchParams(12, 4),
    )
    addresses, batch = loader.order.rows(3), loader.load_host(3)

    rows = rows_of(show("s.zarr", "--step", 3, *options(), "--json"))

    assert [row["row"] for row in rows] == [0, 1, 2, 3]
    assert [row["slot"] for row in rows] == addresses.slot.tolist()
    assert [row["language"] for row in rows] == [loader.languages[index] for index in batch.language]
    assert [(row["epoch"], row["window"]) for row in rows] == list(
        zip(addresses.epoch.tolist(), addresses.window.tolist(), strict=True)
    )
    assert [row["text"] for row in rows] == [bytes(ids.tolist()).decode(errors="replace") for ids in batch.targets]


def test_a_run_file_says_everything_but_the_step(show):
    assert show("run.toml", "--step", 3, "--json") == show("s.zarr", "--step", 3, *options(), "--json")


def test_lines_for_people_say_the_same_as_json(show):
    rows = rows_of(show("run.toml", "--step", 3, "--rows", "2,0-1", "--json"))
    lines = show("run.toml", "--step", 3, "--rows", "2,0-1").out.splitlines()

    assert [row["row"] for row in rows] == [2, 0, 1]
    assert lines == [
        line
        for row in rows
        for line in (
            f"row {row['row']}, slot {row['slot']}: {row['language']}, epoch {row['epoch']}, window {row['window']}",
            f"    {row['text']!r}",
        )
    ]


@pytest.mark.parametrize(
    ("given", "changes"),
    [
        (["--seed", "8"], {"seed": "8"}),
        (["--streams", "4"], {"streams": "4"}),
        (["--batch", "8"], {"batch": "8"}),
        (["--len", "5"], {"len": "5"}),
        (["--weight", "sw=1", "--weight", "en=3"], {"weight": "sw=1 en=3"}),
        (["--split", "validation", "--weight", "en=1"], {"split": "validation", "weight": "en=1"}),
        (["--extra-tokens", "2"], {"extra-tokens": "2"}),
        (["--stride", "7"], {"stride": "7"}),
        (["--selector", "balanced"], {"selector": "balanced"}),
        (["--block", "5"], {"block": "5"}),
        (["--buffer", "1", "--block", "2"], {"buffer": "1", "block": "2"}),
    ],
    ids=lambda given: given[0] if isinstance(given, list) else "",
)
def test_an_option_counts_and_not_the_run_file(show, given: list[str], changes: dict[str, str]):
    rows = rows_of(show("run.toml", "--step", 9, "--json", *given))

    assert rows == rows_of(show("s.zarr", "--step", 9, "--json", *options(**changes)))
    assert rows != rows_of(show("run.toml", "--step", 9, "--json"))


def test_weights_on_the_command_line_are_a_mixture_of_their_own(show, folder: Path):
    """Neither phases nor premiums of the run file are left, nor keys of languages that are not named."""
    mixture = '[order.keys]\nno = 5\n[mixture]\nmode = "content"\nbyte_premiums = { en = 1, no = 1.1 }\n'
    mixture += "phases = [{ step = 2, weights = { no = 1 } }]\n[mixture.weights]"
    (folder / "content.toml").write_text(RUN.replace("[mixture.weights]", mixture))

    rows = rows_of(show("content.toml", "--step", 9, "--json", "--weight", "sw=1"))

    assert rows == rows_of(show("s.zarr", "--step", 9, "--json", *options(weight="sw=1")))


def test_a_timeline_of_the_run_file_is_followed(show, folder: Path):
    entries = "[[timeline]]\nstep = 0\nslot = 0\nbatch = 2\n[[timeline]]\nstep = 5\nslot = 40\nbatch = 4\n"
    (folder / "timeline.toml").write_text(RUN + entries)

    assert [row["slot"] for row in rows_of(show("timeline.toml", "--step", 1, "--json"))] == [2, 3]
    assert [row["slot"] for row in rows_of(show("timeline.toml", "--step", 6, "--json"))] == [44, 46, 45, 47]


def test_a_tokenizer_file_reads_its_own_store(show):
    words = options(weight="en=1", len="3")

    rows = rows_of(show("words.zarr", "--step", 0, *words, "--tokenizer", "words.json", "--json"))

    assert [row["text"] for row in rows] == ["a b c"] * 4


def test_another_tokenizer_is_refused(show, standard: str):
    words = options(weight="en=1", len="3")

    assert_refused(
        show("words.zarr", "--step", 0, *words),
        "language 'en' was made with tokenizer 'words.json' (sha256 ",
        "not 'bytes': give its file with --tokenizer",
    )
    assert_refused(show("run.toml", "--step", 0, "--tokenizer", "words.json"), "made with tokenizer 'bytes'")
    assert_refused(
        show(standard, "--step", 0, *options(weight="en=1")),
        "language 'en' does not say which tokenizer made it: give its file with --tokenizer, or --tokenizer bytes",
    )
    assert_refused(
        show(standard, "--step", 0, *options(weight="en=1"), "--tokenizer", "bytes"), "must be from 0 to 255"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["s.zarr"],
            "s.zarr is no run file (.toml), so say all of the order: --weight, --len, --batch, --streams, --se",
        ),
        (["s.zarr", *options(seed=None, len=None)], "say all of the order: --len, --seed missing"),
        (["none.toml"], "No such file or directory: 'none.toml'"),
        (["none.zarr", *options()], "no store at "),
        (["run.toml", "--split", "test"], "has no split 'test'; its splits are 'train'"),
        (["run.toml", "--weight", "en"], "--weight 'en': write LANGUAGE=WEIGHT, as in en=0.5, once for each language"),
        (["run.toml", "--weight", "en=x"], "--weight 'en=x': write LANGUAGE=WEIGHT"),
        (["run.toml", "--weight", "en=1", "--weight", "en=2"], "--weight 'en=2': write LANGUAGE=WEIGHT"),
        (["run.toml", "--weight", "no=nan"], "the weight of 'no' is nan"),
        (["run.toml", "--weight", "xx=1"], "no language 'xx' in store"),
        (["run.toml", "--weight", "nan=1"], "no language 'nan' in store"),
        (["run.toml", "--weight", "1e2=1", "--weight", "en=1"], "no language '1e2' in store"),
        (["run.toml", "--selector", "fair"], "selector is 'fair': take one of hash, balanced"),
        (["run.toml", "--batch", "5"], "batch 5 (timeline entry 0) is no multiple of streams=2: take 4 or 6"),
        (["run.toml", "--seed", "-1"], "seed is -1: it must be at least 0"),
        (["run.toml", "--len", "100000"], "one window needs 100000"),
        (["run.toml", "--rows", "0-4"], "--rows '0-4': 0-4 is not within the rows of this step, 0 to 3"),
        (["run.toml", "--rows", "2-1"], "2-1 is not within the rows of this step"),
        (["run.toml", "--rows", "0-99999999999"], "0-99999999999 is not within the rows of this step, 0 to 3"),
        (["run.toml", "--block", "0"], "sequences_per_read_block of 'en' is 0: it must be at least 1"),
        (["run.toml", "--buffer", "0"], "read_blocks_per_shuffle_buffer of 'en' is 0: it must be at least 1"),
        (["run.toml", "--language", "en"], "is of format 1 and names its own; leave it out"),
        (["run.toml", "--rows", "x"], "--rows 'x': write numbers and spans, as in 0,3,5-7"),
        (["run.toml", "--tokenizer", "none.json"], "tokenizer none.json: there is no such file"),
        (["run.toml", "--step", "-1"], "step is -1: it must be at least 0"),
    ],
)
def test_a_users_error_is_one_line(show, arguments: list[str], message: str):
    source, *rest = arguments
    assert_refused(show(source, "--step", 3, *rest), message)


def test_an_error_of_the_run_file_is_one_line_with_its_place(show, folder: Path):
    (folder / "bad.toml").write_text(RUN + "nan = -1\n")
    assert_refused(show("bad.toml", "--step", 3), "bad.toml, line 12: mixture.weights.nan is -1: it must be finite")
    (folder / "bad.toml").write_text(RUN + "nan\n")
    assert_refused(show("bad.toml", "--step", 3), "bad.toml is not TOML: ", "line 12, column 4")


def test_the_step_is_always_needed(show):
    done = show("run.toml")
    assert done.status == 2
    assert "--step" in done.err


def test_an_older_store_is_given_the_name_of_its_language(show, folder: Path, tmp_path: Path):
    older = older_store(tmp_path / "older.zarr", {"train": [list(b"the cat sat on the mat. ")] * 9})
    given = [older, "--step", 0, *options(weight="en=1", len="5"), "--tokenizer", "bytes", "--json"]

    assert_refused(show(*given), "is an older store, of one language", "--language en")
    rows = rows_of(show(*given, "--language", "en"))
    assert all(row["language"] == "en" and row["text"] in "the cat sat on the mat. " * 2 for row in rows)

    toml = (
        RUN.replace('"s.zarr"', f'"{older}"\nlanguage = "no"').replace("len = 12", "len = 5").replace("no = 0.5\n", "")
    )
    (folder / "older.toml").write_text(toml)
    again = show("older.toml", "--step", 0, "--tokenizer", "bytes", "--json", "--language", "en")
    assert rows_of(again) == rows


def test_what_a_late_step_costs_is_said_before_it_is_counted(capsys: pytest.CaptureFixture[str]):
    from flatmix.cli.show import _tell_cost
    from flatmix.order import Order, counts

    def told(selector: str, step: int) -> str:
        sizes = {"sequences_per_read_block": 4, "read_blocks_per_shuffle_buffer": 2}
        order = Order({"en": 80}, {"en": 1}, seed=7, batch=16, streams=2, selector=selector, **sizes)
        _tell_cost(order, step)
        return capsys.readouterr().err

    seconds = 16e12 * 3e-9 / counts.cores()
    assert told("hash", 10**12) == (
        f"flatmix: counting the draws of 1.6e+13 slots takes about {seconds:,.0f} s; with selector balanced it would "
        "take none\n"
    )
    assert told("hash", 10**6) == told("balanced", 10**12) == ""


def test_what_a_step_costs_does_not_mix_with_its_rows(show, monkeypatch: pytest.MonkeyPatch):
    expected = show("run.toml", "--step", 3, "--json").out
    monkeypatch.setattr(sys.modules["flatmix.cli.show"], "_LONG", 0)

    done = show("run.toml", "--step", 3, "--json")
    assert done.out == expected
    assert done.err.startswith("flatmix: counting the draws of 12 slots takes about 0 s; ")
    assert done.err.count("\n") == 1


@pytest.mark.filterwarnings("default")
def test_a_warning_is_one_line_without_the_code_that_gave_it(show):
    done = show("run.toml", "--step", 0, "--weight", "en=1", "--weight", "no=1e-300", "--weight", "sw=1")

    assert done.status == 0
    assert done.err.startswith("flatmix: warning: mixture from slot 0 on: the weight of 'no', 1e-300, is too small")
    assert done.err.count("\n") == 1
