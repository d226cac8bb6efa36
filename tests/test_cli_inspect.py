"""`flatmix inspect`: what is in a store, and what the mixture of a run file becomes."""

import json
import shutil
from pathlib import Path

import pytest
from commands import Done, assert_refused, run_command
from converted import write_lines
from older_stores import older_store

from flatmix import open_store
from flatmix.convert import convert
from flatmix.store.writer import SplitWriter

RUN = """\
[data]
store = "s.zarr"
[batch]
len = 8
batch = 4
[order]
seed = 7
streams = 2
[mixture.weights]
en = 3
sw = 1
"""

CONTENT = """\
[mixture]
mode = "content"
byte_premiums = { en = 1, sw = 1.5 }
[[mixture.phases]]
step = 10
weights = { sw = 1 }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """s.zarr: `en` of bytes, `sw` with 2 bytes a token and no tokenizer, and a split that was not completed."""
    folder = tmp_path_factory.mktemp("inspect")
    write_lines(folder / "en.jsonl", ["ab" * 2000, "zz"])
    convert(folder / "s.zarr", {"en": [str(folder / "en.jsonl")]})
    with SplitWriter(folder / "s.zarr", "sw", "train") as writer:
        writer.add(list(range(300)), 600)
        writer.finish()
    with SplitWriter(folder / "s.zarr", "en", "validation") as writer:
        writer.add([1])
    (folder / "run.toml").write_text(RUN)
    (folder / "content.toml").write_text(RUN.replace("[mixture.weights]", CONTENT + "[mixture.weights]"))
    return folder


@pytest.fixture
def inspect(capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(folder)

    def run_inspect(*arguments: object) -> Done:
        return run_command(capsys, "inspect", *arguments)

    return run_inspect


def table(lines: list[str]) -> list[list[str]]:
    return [line.split() for line in lines]


def test_the_table_has_a_line_for_each_split(inspect, folder: Path):
    done = inspect("s.zarr")
    size = open_store(folder / "s.zarr")["en"]["train"].size_on_disk()

    assert (done.status, done.err) == (0, "")
    title, headings, *lines = done.out.splitlines()
    assert title == f"{folder / 's.zarr'}: 2 languages"
    assert headings.split()[:4] == ["language", "split", "tokens", "documents"]
    en, unfinished, sw = table(lines)
    assert en == ["en", "train", "4,002", "2", "4,002", f"{size:,}", "122", "bytes", "complete"]
    assert unfinished == ["en", "validation", "incomplete"]
    assert sw[:5] == ["sw", "train", "300", "1", "600"]
    assert sw[6:] == ["299", "unknown", "complete"]


def test_json_holds_what_the_store_knows(inspect, folder: Path):
    found = json.loads(inspect("s.zarr", "--json").out)
    split = open_store(folder / "s.zarr")["en"]["train"]

    assert list(found) == ["store", "splits"]
    assert found["store"] == str(folder / "s.zarr")
    assert found["splits"][0] == {
        "language": "en",
        "split": "train",
        "status": "complete",
        "tokens": 4002,
        "documents": 2,
        "utf8_bytes": 4002,
        "max_token_id": 122,
        "digest": split.digest,
        "tokenizer": split.tokenizer,
        "source": split.source,
        "bytes_on_disk": split.size_on_disk(),
    }
    assert found["splits"][1] == {"language": "en", "split": "validation", "status": "incomplete"}


def test_a_run_file_shows_its_store_and_the_shares_of_tokens(inspect):
    store = inspect("s.zarr").out
    done = inspect("run.toml")

    assert (done.status, done.err) == (0, "")
    assert done.out.startswith(store)
    assert done.out.removeprefix(store).splitlines()[:2] == [
        "",
        "mixture of split 'train' from step 0 on, in shares of tokens:",
    ]
    assert table(done.out.splitlines()[-5:-2]) == [["language", "tokens"], ["en", "0.750000"], ["sw", "0.250000"]]


@pytest.mark.parametrize(
    ("budget", "told"), [('"auto"', "2 held whole"), ("0", "2 read row by row"), ("40000", "1 held in parts")]
)
def test_a_run_file_shows_what_its_buffers_take(inspect, folder: Path, budget: str, told: str):
    """en has 500 windows of 8 tokens, sw 37, in 2 streams."""
    (folder / "budget.toml").write_text(f"{RUN}[read]\nmemory_budget = {budget}\n")
    line = inspect("budget.toml").out.splitlines()[-1]
    found = json.loads(inspect("budget.toml", "--json").out)["memory"]

    held = sum(language["held"] for language in found["languages"].values())
    assert line.startswith(
        f"memory of the shuffle buffers: {held:,} bytes of rows, of 17,152 that there are, and up to "
    )
    assert f" {found['buffers']:,} with blocks on their way, of a budget of {found['budget']:,}. " in line
    assert told in line
    assert found["buffers"] <= found["budget"]
    assert found["languages"]["en"]["whole"] == 500 * 8 * 4


def test_a_run_that_no_loader_can_be_made_of_is_shown_with_the_reason(inspect, folder: Path):
    (folder / "wide.toml").write_text(RUN.replace("streams = 2", "streams = 64").replace("batch = 4", "batch = 64"))
    done = inspect("wide.toml")
    assert done.status == 0
    assert done.out.splitlines()[-1].startswith("no loader can be made of this run: language 'sw' has 37 windows")


def test_shares_of_content_are_shown_beside_what_they_become(inspect):
    """3/4 * 1 / 1 and 1/4 * 1.5 / 2, by their sum."""
    lines = inspect("content.toml").out.splitlines()

    first = lines.index("mixture of split 'train' from step 0 on, in shares of content:")
    assert table(lines[first + 1 :])[:3] == [
        ["language", "content", "byte", "premium", "bytes/token", "tokens"],
        ["en", "0.750000", "1.000000", "1.000000", "0.800000"],
        ["sw", "0.250000", "1.500000", "2.000000", "0.200000"],
    ]
    later = lines.index("mixture of split 'train' from step 10 on, in shares of content:")
    assert table(lines[later + 2 :][:2]) == [
        ["en", "0.000000", "1.000000", "-", "0.000000"],
        ["sw", "1.000000", "1.500000", "2.000000", "1.000000"],
    ]


def test_json_of_a_run_file_holds_the_mixture(inspect):
    found = json.loads(inspect("content.toml", "--json").out)

    assert found["store"] == json.loads(inspect("s.zarr", "--json").out)["store"]
    assert (found["mixture"]["split"], found["mixture"]["mode"]) == ("train", "content")
    assert [phase["step"] for phase in found["mixture"]["phases"]] == [0, 10]
    assert found["mixture"]["phases"][0]["languages"][1] == {
        "language": "sw",
        "asked": 0.25,
        "byte_premium": 1.5,
        "bytes_per_token": 2.0,
        "tokens": pytest.approx(0.2),
    }


def test_names_are_shown_as_they_are(inspect, tmp_path: Path):
    """Brackets are markup to the library that prints the table."""
    with SplitWriter(tmp_path / "odd.zarr", "[red]", "train") as writer:
        writer.finish()

    assert inspect(tmp_path / "odd.zarr").out.splitlines()[2].startswith("[red] ")


def test_why_a_split_is_refused_is_said_below_the_table(inspect, folder: Path, tmp_path: Path):
    """In the table it would leave no room for the numbers of the others."""
    store = shutil.copytree(folder / "s.zarr", tmp_path / "s.zarr")
    (store / "sw/train/seq_starts/zarr.json").write_text("{")
    reason = open_store(store).status("sw", "train")
    whole = inspect("s.zarr").out.splitlines()

    title, *lines = inspect(store).out.splitlines()

    assert title == f"{store}: 2 languages"
    assert [line.split() for line in lines[:3]] == [line.split() for line in whole[1:4]]
    assert lines[3].split() == ["sw", "train", "refused"]
    assert lines[4:] == [f"refused: {reason}"]
    assert "is damaged" in reason
    assert json.loads(inspect(store, "--json").out)["splits"][2]["status"] == reason


def test_an_older_store_is_given_the_name_of_its_language(inspect, folder: Path, tmp_path: Path):
    older = older_store(tmp_path / "older.zarr", {"train": [[1, 2], [3]]})
    assert_refused(inspect(older), "is an older store, of one language", "--language en")

    done = inspect(older, "--language", "sw")
    assert (done.status, done.err) == (0, "")
    (line,) = done.out.splitlines()[2:]
    assert line.split()[:5] == ["sw", "train", "3", "2", "unknown"]

    settings = f'store = "{older}"\nlanguage = "en"\n'
    (folder / "older.toml").write_text(RUN.replace('store = "s.zarr"\n', settings).replace("sw = 1\n", ""))
    assert json.loads(inspect("older.toml", "--json").out)["splits"][0]["language"] == "en"
    (folder / "older.toml").write_text(RUN.replace('store = "s.zarr"\n', settings).replace("en = 3\n", ""))
    assert json.loads(inspect("older.toml", "--language", "sw", "--json").out)["splits"][0]["language"] == "sw"
    assert_refused(inspect("s.zarr", "--language", "en"), "is of format 1 and names its own; leave it out")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((RUN, RUN + "xx = 1\n"), "no language 'xx' in store"),
        (('"s.zarr"', '"t.zarr"'), "no store at "),
        (("[batch]", "split = 'test'\n[batch]"), "language 'en' of store "),
        (("seed = 7", "seed = -7"), "bad.toml, line 7: order.seed is -7"),
    ],
)
def test_what_a_run_file_gets_wrong_is_one_line(inspect, folder: Path, change: tuple[str, str], message: str):
    (folder / "bad.toml").write_text(RUN.replace(*change))
    assert_refused(inspect("bad.toml"), message)


def test_what_is_no_store_is_refused_in_one_line(inspect, folder: Path):
    assert_refused(inspect("none.zarr"), f"no store at {folder / 'none.zarr'}: nothing is there")
    assert_refused(inspect("en.jsonl"), "it is a file, not a folder")
    assert_refused(inspect("none.toml"), "No such file or directory: 'none.toml'")
