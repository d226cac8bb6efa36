"""What `flatmix convert` shows while it works: bars on a terminal, nothing elsewhere."""

import pytest

from flatmix.cli.conversion import watched
from flatmix.cli.output import clock, pace, scaled
from flatmix.convert import Progress
from flatmix.convert.survey import LanguageProgress

PROGRESS = Progress(
    *("tokenizing", 3_000_000, 9_000_000, 1234, 56_789),
    {
        "en": LanguageProgress(1_000_000, 4_000_000, 34, 6789),
        "sw": LanguageProgress(0, 5_000_000, 0, 0),
        "[b]": LanguageProgress(2_000_000, 0, 1200, 50_000),
    },
)


def shown(capsys: pytest.CaptureFixture[str], *states: Progress) -> str:
    """What `watched` shows of them."""
    with watched("s.zarr.staging", restart=False) as tell:
        for state in states:
            tell(state)
    return capsys.readouterr().err


def test_a_terminal_shows_how_far_all_and_the_languages_that_moved_are(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "150")

    text = shown(capsys, PROGRESS)

    assert "what is done lies in s.zarr.staging, and takes about as much room as the store" in text
    assert "3.0 MB of 9.0 MB, 1.2 k documents, 56.8 k tokens" in text
    assert "1.0 MB of 4.0 MB, 34 documents, 6.8 k tokens" in text
    assert "  [b] " in text
    assert "2.0 MB, 1.2 k documents, 50.0 k tokens" in text
    assert "sw" not in text
    assert "writing tokens" not in text
    text = shown(capsys, PROGRESS, PROGRESS._replace(stage="writing", done=1_000, total=56_789))
    assert "writing tokens" in text
    assert "1.0 k of 56.8 k" in text


def test_a_terminal_shows_eight_languages_at_most(capsys, monkeypatch):
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "150")
    languages = {f"language-{number:02}": LanguageProgress(number, 99, 1, 1) for number in range(1, 31)}

    text = shown(capsys, PROGRESS._replace(languages=languages))

    assert {name for name in languages if name in text} == {f"language-{number:02}" for number in range(23, 31)}


def test_nothing_is_shown_where_there_is_no_terminal(capsys):
    assert shown(capsys, PROGRESS, PROGRESS._replace(stage="writing")) == ""


def test_the_speed_is_of_what_was_done_since_the_first_look():
    times = iter([100.0, 102.0, 104.0])
    say = pace(now=lambda: next(times))

    assert say(6_000_000_000, 9_000_000_000) == "6.0 GB of 9.0 GB"
    assert say(6_050_000_000, 9_000_000_000) == "6.0 GB of 9.0 GB, 25.0 MB/s, 0:01:58 left"
    assert say(6_100_000_000, 0) == "6.1 GB, 25.0 MB/s"


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (999_960, "1.0 MB"), (1234567, "1.2 MB"), (5e18, "5000.0 PB")],
)
def test_numbers_are_scaled_by_thousands(value, text):
    assert scaled(value, "B") == text
    assert scaled(value) == text.removesuffix("B").rstrip()


def test_seconds_are_hours_minutes_and_seconds():
    assert [clock(seconds) for seconds in (0.4, 59.6, 3723, 360_000)] == ["0:00:00", "0:01:00", "1:02:03", "100:00:00"]
