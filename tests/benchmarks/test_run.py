"""A whole quick benchmark: every figure is measured and gives numbers. What they are is not looked at."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest

from flatmix.bench import run as bench_run
from flatmix.bench.figures import GROUPS, NAMES, Goal, Group
from flatmix.bench.result import Measured, Report
from flatmix.bench.run import run
from flatmix.bench.settings import Settings, bytes_held

WITHOUT_FLATMIX = {"rows-alone", "against-datasets"}
WITHOUT_GOAL = {"rows-alone"}
WITH_FLOOR = {"steady-jax", "cpu", "steady-host", "rows-alone", "slowest-step", "p99-step", "open", "open-fresh"}


@pytest.fixture(scope="module")
def report(quick_settings: Settings) -> Report:
    return run(quick_settings, with_series=True, command="flatmix bench --quick")


def test_every_figure_has_finite_numbers(report: Report, quick_settings: Settings):
    figures = {figure.name: figure for figure in report.figures}

    assert set(figures) == set(NAMES)
    with quick_settings.four_loader() as loader:
        unknown = WITHOUT_FLATMIX if bytes_held(loader) is not None else {*WITHOUT_FLATMIX, "languages-budget"}
    for name, figure in figures.items():
        assert (figure.flatmix is None) == (name in unknown), figure
        assert (figure.reached is None) == (name in unknown | WITHOUT_GOAL), figure
        assert all(math.isfinite(value) for value in (figure.flatmix, figure.floor, figure.ratio) if value is not None)
    assert all(figures[name].floor is not None for name in WITH_FLOOR)


def test_times_and_speeds_are_above_zero(report: Report):
    for figure in report.figures:
        if figure.flatmix is not None and figure.name != "memory-flat":
            assert figure.flatmix > 0, figure


def test_a_report_is_json_with_every_row_and_what_it_was_made_with(report: Report):
    said = json.loads(json.dumps(report.as_json(), allow_nan=False))

    assert [figure["name"] for figure in said["figures"]] == [figure.name for figure in report.figures]
    assert said["command"] == "flatmix bench --quick"
    assert {"python", "jax", "numpy", "tensorstore", "flatmix"} == set(said["versions"])
    assert said["machine"]["cores"] >= 1
    assert said["settings"]["name"] == "quick"


def test_the_steps_of_a_round_are_kept_for_a_picture(report: Report, quick_settings: Settings):
    series = report.series
    assert series is not None
    assert len(series.flatmix) == len(series.floor) == len(series.filled) == quick_settings.steps
    assert list(series.filled) == sorted(series.filled)
    assert series.filled[-1] > series.filled[0]


@pytest.fixture
def two_groups(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """One group that fails and one that gives a number, in place of all; which were measured."""
    measured = []

    def fails(settings: Settings) -> dict[str, Measured]:
        measured.append("fails")
        raise OSError(5, "the disk\nis gone")

    def works(settings: Settings) -> dict[str, Measured]:
        measured.append("works")
        return {"steady-jax": Measured(250.0, 200.0, 1.25), "cpu": Measured(3.0, limit=2.0)}

    goals = {goal.name: goal for group in GROUPS for goal in group.goals}
    cost = Goal("cpu", "cost", "s", "at most 2", lambda found: found.flatmix <= found.limit, "cost")
    groups = (Group(works, (goals["steady-jax"], cost)), Group(fails, (goals["open"],)))
    monkeypatch.setattr(bench_run, "GROUPS", groups)
    return measured


def by_name(report: Report) -> dict[str, Any]:
    return {figure.name: figure for figure in report.figures}


def test_a_figure_that_cannot_be_measured_says_why_and_the_others_go_on(quick_settings: Settings, two_groups):
    figures = by_name(run(quick_settings))

    assert figures["open"].flatmix is None
    assert figures["open"].reached is None
    assert figures["open"].note == "could not be measured: OSError: [Errno 5] the disk is gone"
    assert figures["steady-jax"].flatmix == 250.0


def test_goals_are_judged_and_their_limits_told(quick_settings: Settings, two_groups):
    figures = by_name(run(quick_settings))

    assert figures["steady-jax"].reached is True
    assert figures["cpu"].reached is False
    assert figures["cpu"].goal == "at most 2 (2 s)"


def test_only_what_is_asked_for_is_measured(quick_settings: Settings, two_groups):
    report = run(quick_settings, only=["cpu"])

    assert two_groups == ["works"]
    assert list(by_name(report)) == ["cpu"]


def test_a_figure_that_is_not_known_is_refused_before_anything_is_made(quick_settings: Settings, tmp_path):
    with pytest.raises(ValueError, match="there is no figure 'speed': take one of steady-jax, cpu"):
        run(replace(quick_settings, folder=tmp_path), only=["speed"])
    assert list(tmp_path.iterdir()) == []


PEERS = {
    "hf-datasets": {"jax_mtok_s": 80.0, "cost": None, "versions": {"datasets": "9"}},
    "hf-datasets-arrow": {"jax_mtok_s": 100, "cost": 0.5},
    "grain": {"error": "it was ended"},
}


def test_figures_of_peers_stand_beside_ours(quick_settings: Settings, two_groups):
    report = run(quick_settings, peers=lambda: PEERS)
    figures = by_name(report)

    assert figures["steady-jax"].peers == {"hf-datasets": 80.0, "hf-datasets-arrow": 100.0}
    assert figures["cpu"].peers == {"hf-datasets-arrow": 0.5}
    assert report.peers == PEERS


def test_the_speed_is_compared_with_that_of_datasets(quick_settings: Settings, two_groups):
    figure = by_name(run(quick_settings, peers=lambda: PEERS, only=["against-datasets"]))["against-datasets"]

    assert (figure.flatmix, figure.ratio, figure.reached) == (250.0, 3.125, True)


def test_without_peers_datasets_are_not_compared(quick_settings: Settings, two_groups):
    figure = by_name(run(quick_settings))["against-datasets"]

    assert (figure.flatmix, figure.reached) == (None, None)
    assert "--peers" in figure.note
