"""Conversions from the command line that are interrupted or fail: one line, and the same command goes on."""

import os
import signal
from pathlib import Path

import numpy as np
import pytest
from commands import run_command
from converted import files_of, read_documents, utf8, write_lines
from processes import End, end, run_python


@pytest.fixture
def convert(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Runs `flatmix convert` in an empty folder: its exit status."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: run_command(capsys, "convert", *arguments).status


# One unit a file or so; the third unit is interrupted as Ctrl-C does it, or nothing is.
INTERRUPTED = """
import os, signal, sys
from flatmix import cli, convert
from flatmix.convert import plan, work
from flatmix.convert.job import Sizes
when, *arguments = sys.argv[1:]
convert.Sizes = lambda: Sizes(unit_bytes=200)
go_on, find = work._go_on, plan._find

def interrupt():
    os.kill(os.getpid(), signal.SIGINT)
    signal.sigwait([])  # never reached: the signal is handled first

def going_on(job, unit, *arguments):
    print("unit", unit)
    if when == "working" and unit == 2:
        interrupt()
    go_on(job, unit, *arguments)

def finding(*given):
    if when == "checking":
        interrupt()
    return find(*given)

work._go_on, plan._find = going_on, finding
cli.main(arguments)
"""


def interrupted(when: str, *arguments: str) -> End:
    """Converts a.jsonl, interrupted while "checking" or "working", or "never"; prints the units that it works on."""
    return end(run_python(INTERRUPTED, when, "convert", "s.zarr", "--language", "en=a.jsonl", *arguments))


def test_an_interruption_is_one_line_and_the_same_command_goes_on(convert):
    texts = [f"document {number}" for number in range(40)]
    write_lines(Path("a.jsonl"), texts)

    done = interrupted("checking")
    assert (done.code, done.out) == (130, "")
    assert done.errors == "flatmix: interrupted: nothing was written\n"
    assert [*Path().iterdir()] == [Path("a.jsonl")]

    done = interrupted("working")
    assert (done.code, done.out) == (130, "unit 0\nunit 1\nunit 2\n")
    assert done.errors == (
        "flatmix: interrupted: what is done is kept in s.zarr.staging: the same command goes on with it\n"
    )
    assert not Path("s.zarr").exists()

    done = interrupted("never")
    assert (done.code, done.errors) == (0, "")
    assert done.out.startswith("unit 2\nunit 3\n")
    assert read_documents(Path("s.zarr"), "en") == utf8(*texts)
    assert not Path("s.zarr.staging").exists()
    assert convert("whole.zarr", "--language", "en=a.jsonl") == 0
    assert files_of(Path("s.zarr")) == files_of(Path("whole.zarr"))


def test_restart_begins_anew_and_an_interruption_says_how_to_go_on(convert):
    write_lines(Path("a.jsonl"), [f"document {number}" for number in range(40)])
    assert interrupted("working").code == 130

    done = interrupted("working", "--restart")
    assert (done.code, done.out) == (130, "unit 0\nunit 1\nunit 2\n")
    assert done.errors.endswith("s.zarr.staging: the same command without --restart goes on with it\n")

    assert interrupted("never").out.startswith("unit 2\n")


def test_an_interrupted_replacement_leaves_the_old_split(convert):
    write_lines(Path("a.jsonl"), ["old"])
    assert convert("s.zarr", "--language", "en=a.jsonl") == 0
    before = files_of(Path("s.zarr"))
    write_lines(Path("a.jsonl"), [f"document {number}" for number in range(40)])

    assert interrupted("working", "--replace", "--staging", "elsewhere").code == 130

    assert files_of(Path("s.zarr")) == before
    assert list(Path("elsewhere").rglob("*.part"))
    assert interrupted("never", "--replace").code == 0
    assert len(read_documents(Path("s.zarr"), "en")) == 40


# The whole group of processes gets SIGINT, as from a terminal, as soon as the first unit is done.
GROUP = """
import os, signal, sys
from flatmix import cli, convert
from flatmix.convert import survey
from flatmix.convert.job import Sizes
convert.Sizes = lambda: Sizes(unit_bytes=2000)
os.setpgid(0, 0)

def after_a_unit(self):
    if sys.argv[1] == "interrupted":
        os.killpg(0, signal.SIGINT)

survey.Survey.raise_failure = after_a_unit
cli.main(sys.argv[2:])
"""


def test_workers_are_interrupted_with_their_command_and_go_on_with_it(convert):
    write_lines(Path("a.jsonl"), [f"document {number}" for number in range(400)])
    command = ["convert", "s.zarr", "--language", "en=a.jsonl", "--workers", "2"]

    done = end(run_python(GROUP, "interrupted", *command))
    assert done.code in (130, -signal.SIGINT)
    assert "flatmix: interrupted: what is done is kept in s.zarr.staging: the same command goes on" in done.errors
    assert "Traceback" not in done.errors
    assert list(Path("s.zarr.staging").rglob("*.part"))

    done = end(run_python(GROUP, "", *command))
    assert (done.code, done.errors) == (0, "")
    assert len(read_documents(Path("s.zarr"), "en")) == 400


LITTLE_ROOM = """
import resource, sys
from flatmix import cli
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 10_000))
cli.main(sys.argv[1:])
"""


def test_an_error_of_the_system_is_one_line_with_its_path_and_the_same_command_goes_on(convert):
    noise = "".join(map(chr, np.random.default_rng(7).integers(97, 123, 100_000)))
    write_lines(Path("a.jsonl"), [noise])
    command = ["convert", "s.zarr", "--language", "en=a.jsonl"]

    done = end(run_python(LITTLE_ROOM, *command, options=("-B",)))

    assert (done.code, done.out) == (1, "")
    assert done.errors.startswith("flatmix: error: [Errno 27] File too large: ")
    assert f"{Path('s.zarr.staging').absolute()}{os.sep}" in done.errors
    assert done.errors.count("\n") == 1
    assert not Path("s.zarr").exists()
    assert convert(*command[1:]) == 0
    assert read_documents(Path("s.zarr"), "en") == utf8(noise)


def test_a_closed_standard_error_is_no_hindrance(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_lines(Path("a.jsonl"), ["a", "b"])
    closed = "import os, sys; sys.stderr = None; from flatmix import cli; cli.main(sys.argv[1:])"

    done = end(run_python(closed, "convert", "s.zarr", "--language", "en=a.jsonl"))

    assert done.code == 0
    assert read_documents(Path("s.zarr"), "en") == utf8("a", "b")
