"""flatmix demo"""

from pathlib import Path
from typing import Annotated

import typer


def demo(
    folder: Annotated[
        Path, typer.Argument(help="A new folder, or that of an earlier demo, whose files are replaced.")
    ] = Path("demo-run"),
    steps: Annotated[int, typer.Option(min=4, help="Training steps.")] = 40,
) -> None:
    """Convert real text in ten languages, train on it, kill the run, resume it, and compare data and losses.

    Needs the extra `demo` for the text. Example: flatmix demo
    """
    from flatmix.demo.run import run_demo

    if not run_demo(folder, steps, lambda line: print(line, flush=True)):
        raise typer.Exit(1)
