"""`flatmix bench`: what it prints, and what it refuses. The figures themselves are tested in tests/benchmarks."""

import json
from pathlib import Path

import pytest
from commands import Done, assert_refused, run_command

from flatmix.bench import run as bench_run
from flatmix.bench.figures import GROUPS, NAMES, Group
from flatmix.bench.result import Measured
from flatmix.bench.settings import quick
from flatmix.cli.bench import default_folder


@pytest.fixture
def bench(capsys: pytest.CaptureFixture[str], tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.getbasetemp() / "bench-cli"  # one for all tests here: data is made once

    def run_bench(*arguments: object) -> Done:
        return run_command(capsys, "bench", "--quick", "--folder", folder, *arguments)

    return run_bench


@pytest.fixture
def no_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every figure is 1, and nothing is measured for it."""

    def ones(group: Group) -> Group:
        found = {goal.name: Measured(1.0, 1.0, 1.0, 1.0, "a note") for goal in group.goals}
        return Group(lambda settings: found, group.goals)

    monkeypatch.setattr(bench_run, "GROUPS", tuple(map(ones, GROUPS)))


def test_one_figure_is_measured_and_printed_with_its_goal(bench):
    done = bench("--only", "open")

    assert done.status == 0
    when, where, versions, blank, headings, row, *_ = done.out.splitlines()
    assert when.endswith("flatmix bench --quick --only open")
    assert where.startswith("Machine: ")
    assert "jax" in versions
    assert blank == ""
    assert headings.split() == ["figure", "unit", "flatmix", "floor", "ratio", "goal", "reached"]
    assert row.startswith("open to first batch, second loader of a process")
    assert row.split()[-1] in ("yes", "NO")
    assert "measuring open" in done.err
    assert "bench-cli" in done.err


def test_the_table_has_a_line_for_every_figure(bench, no_measuring):
    lines = bench().out.splitlines()
    first = lines.index("") + 2

    assert len(lines[first : lines.index("", first)]) == len(NAMES)
    assert "steady state as jax.Arrays: a note" in lines


def test_json_is_all_of_standard_output_and_has_every_figure(bench, no_measuring):
    said = json.loads(bench("--json").out)

    assert {figure["name"] for figure in said["figures"]} == set(NAMES)
    assert said["command"] == "flatmix bench --quick"


def test_markdown_is_a_table_of_every_figure(bench, no_measuring):
    lines = [line for line in bench("--markdown").out.splitlines() if line.startswith("|")]

    assert len(lines) == 2 + len(NAMES)
    assert len({line.count("|") for line in lines}) == 1


def test_plot_is_a_picture(bench, no_measuring, tmp_path: Path):
    done = bench("--only", "slowest-step", "--plot", tmp_path / "steps.png")

    assert done.status == 0
    assert (tmp_path / "steps.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--only", "speed"], ["there is no figure 'speed'", "steady-jax"]),
        (["--json", "--markdown"], ["--json and --markdown: give one of them"]),
        (["--plot", "steps.gif"], ["steps.gif", ".png, .svg or .pdf"]),
        (["--plot", "none/steps.png"], ["there is no folder none"]),
        (["--peers"], ["no environment below", "bench_peers.py"]),
    ],
)
def test_bad_options_are_one_line_errors(
    bench, options: list[str], words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)

    assert_refused(bench(*options), *words)


def test_rounds_below_one_are_a_usage_error(bench):
    done = bench("--rounds", "0")

    assert done.status == 2
    assert done.out == ""
    assert "--rounds" in done.err


def test_a_folder_that_holds_something_else_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    folder = tmp_path / quick(tmp_path, 1).four_recipe.folder
    folder.mkdir()
    done = run_command(capsys, "bench", "--quick", "--folder", tmp_path, "--json")

    assert (done.status, done.out) == (1, "")
    assert f"flatmix: error: {folder} is not the corpus that it should be" in done.err


def test_data_is_kept_in_the_users_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_folder() == tmp_path / "flatmix" / "bench"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", "/home/somebody")
    assert default_folder() == Path("/home/somebody/.cache/flatmix/bench")
