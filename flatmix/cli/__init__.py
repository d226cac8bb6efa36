"""arguments -> one command: each file beside this one is a command, a function whose docstring is its help.

A command imports what it needs when it runs, so that `flatmix --help` costs no more than typer. An error that flatmix
raised, or that the system reports for a file, becomes one line and exit status 1; any other exception is a bug and
keeps its traceback. A warning is one line, too. What the terminal's encoding cannot show is escaped.
"""

import io
import sys
import warnings
from collections.abc import Sequence

import typer

from flatmix.cli.bench import bench
from flatmix.cli.convert import convert
from flatmix.cli.demo import demo
from flatmix.cli.inspect import inspect
from flatmix.cli.remove import remove
from flatmix.cli.show import show
from flatmix.cli.verify import verify
from flatmix.errors import ConvertError, StateError, StoreError

app = typer.Typer(
    name="flatmix",
    help="Token batches mixed from many languages for language-model training in JAX.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _commands() -> None:
    """Token batches mixed from many languages for language-model training in JAX."""


for command in (convert, inspect, verify, remove, show, bench, demo):
    app.command()(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line; `arguments` are those of the process where none are given. Always ends with SystemExit."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            app(args=None if arguments is None else list(arguments), prog_name="flatmix")
        except Exception as error:
            if not _is_users(error):
                raise
            print("flatmix: error: " + " ".join(str(error).splitlines()), file=sys.stderr)
            raise SystemExit(1) from None


def _show_warning(message: Warning | str, *where: object, **more: object) -> None:
    """Takes the place of `warnings.showwarning`: a user has no use for the line of code that gave the warning."""
    print("flatmix: warning: " + " ".join(str(message).splitlines()), file=sys.stderr)


def _is_users(error: Exception) -> bool:
    """Whether `error` tells the user something: an OSError, one of flatmix's, or a ValueError that its code raised."""
    if isinstance(error, OSError | ConvertError | StoreError | StateError):
        return True  # also one that a worker process has raised, whose frames are not here
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    where = "" if frame is None else frame.tb_frame.f_globals.get("__name__", "")
    return isinstance(error, ValueError) and where.split(".")[0] == "flatmix"
