"""A report as a table, as Markdown and as a picture."""

from dataclasses import replace
from pathlib import Path

import pytest

from flatmix.bench.plot import check_plot, plot, refills
from flatmix.bench.report import cells, head, headings, markdown, notes, number
from flatmix.bench.result import Figure, Report, Series

FIGURES = (
    Figure("speed", "speed", "Mtok/s", 1234.4, 1500.0, 0.8229, "at least 0.8", True, "a | b", {"grain": 16.04}),
    Figure("wait", "longest wait", "ms", 25.0, None, None, "at most 10 ms", False),
    Figure("gone", "not there", "s", None, None, None, "", None, "it failed: <x>"),
)
REPORT = Report(
    date="2026-01-02 03:04 UTC",
    command="flatmix bench --peers",
    machine={"cores": 2, "cpu": "a chip", "memory_gb": 25.3, "system": "Linux", "devices": "1 cpu"},
    versions={"flatmix": "1", "python": "3"},
    settings={},
    figures=FIGURES,
    peers={
        "grain": {"versions": {"grain": "0.2"}, "setting": "two workers"},
        "mosaic": {"error": "it was ended"},
    },
)


def test_a_row_has_a_cell_for_each_heading():
    assert headings(REPORT) == ["figure", "unit", "flatmix", "floor", "ratio", "goal", "reached", "grain", "mosaic"]
    assert cells(REPORT) == [
        ["speed", "Mtok/s", "1,234", "1,500", "0.823", "at least 0.8", "yes", "16.0", "-"],
        ["longest wait", "ms", "25.0", "-", "-", "at most 10 ms", "NO", "-", "-"],
        ["not there", "s", "-", "-", "-", "-", "-", "-", "-"],
    ]


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (None, "-"),
        (0.0, "0.00"),
        (0.00021, "0.000210"),
        (3.14159, "3.14"),
        (99.96, "100"),
        (999.4, "999"),
        (999.9, "1,000"),
        (-12, "-12.0"),
        (1e6, "1,000,000"),
    ],
)
def test_numbers_have_three_digits_that_count(value: float | None, shown: str):
    assert number(value) == shown


def test_the_head_says_when_where_with_what_and_how_to_repeat_it():
    assert head(REPORT) == [
        "Measured: 2026-01-02 03:04 UTC, `flatmix bench --peers`",
        "Machine: 2 cores, a chip, 25.3 GB, 1 cpu, Linux",
        "Versions: flatmix 1, python 3",
        "Peer grain: grain 0.2; two workers",
        "Peer mosaic: could not be measured: it was ended",
    ]
    assert notes(REPORT) == ["speed: a | b", "not there: it failed: <x>"]


def test_markdown_has_head_table_and_notes():
    small = replace(REPORT, peers={}, figures=(replace(FIGURES[0], title="speed | all"), FIGURES[2]))

    assert markdown(small) == (
        "- Measured: 2026-01-02 03:04 UTC, `flatmix bench --peers`\n"
        "- Machine: 2 cores, a chip, 25.3 GB, 1 cpu, Linux\n"
        "- Versions: flatmix 1, python 3\n"
        "\n"
        "| figure | unit | flatmix | floor | ratio | goal | reached |\n"
        "| --- | --- | ---: | ---: | ---: | --- | --- |\n"
        "| speed \\| all | Mtok/s | 1,234 | 1,500 | 0.823 | at least 0.8 | yes |\n"
        "| not there | s | - | - | - | - | - |\n"
        "\n"
        "- speed | all: a | b\n"
        "- not there: it failed: &lt;x>\n"
    )


SERIES = Series((1.0, 2.0, 1.5), (0.5, 0.6, 0.5), (3, 4, 4))


def test_the_plot_is_a_picture(tmp_path: Path):
    file = tmp_path / "steps.png"

    check_plot(file)
    plot(SERIES, file, "steps")

    assert file.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    assert file.stat().st_size > 5000


@pytest.mark.parametrize(
    ("filled", "steps"), [((3, 3, 3), []), ((3, 4, 4), [1]), ((3, 4, 6), [1, 2]), ((0,), []), ((), [])]
)
def test_refills_are_marked_at_the_steps_in_which_buffers_were_filled(filled: tuple[int, ...], steps: list[int]):
    assert refills(filled) == steps


@pytest.mark.parametrize(
    ("name", "message"),
    [("none/steps.png", "there is no folder"), ("steps.txt", "ends in .png, .svg or .pdf"), ("steps", "ends in .png")],
)
def test_a_picture_that_cannot_be_made_is_refused_before(tmp_path: Path, name: str, message: str):
    with pytest.raises(ValueError, match=message):
        check_plot(tmp_path / name)


def test_without_matplotlib_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)

    with pytest.raises(ValueError, match=r"install flatmix\[plot\]"):
        check_plot(tmp_path / "steps.png")
