"""Commands as users see them, in this process: exit status, standard output, standard error."""

from typing import NamedTuple

import pytest

import flatmix.cli


class Done(NamedTuple):
    status: int
    out: str
    err: str


def run_command(capsys: pytest.CaptureFixture[str], *arguments: object) -> Done:
    """Runs `flatmix arguments`. A bug, which keeps its traceback, goes through."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        flatmix.cli.main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return Done(int(ended.value.code or 0), out, err)


def assert_refused(done: Done, *words: str) -> None:
    """One line on standard error, with these words, and nothing on standard output."""
    assert done.status == 1
    assert done.out == ""
    assert done.err.startswith("flatmix: error: ")
    assert done.err.count("\n") == 1
    for text in words:
        assert text in done.err
