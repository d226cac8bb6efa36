"""flatmix bench"""

import contextlib
import logging
import os
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from flatmix.cli.output import print_json, print_table

_TEXT = ("figure", "unit", "goal", "reached")


def bench(
    quick: Annotated[
        bool, typer.Option("--quick", help="A hundredth of the data and few steps: to see that it runs.")
    ] = False,
    peers: Annotated[
        bool, typer.Option("--peers", help="Other loaders too, in the environments of tools/bench_peers.py.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the table as Markdown.")] = False,
    plot: Annotated[Path | None, typer.Option(help="A picture of the times of steps, .png, .svg or .pdf.")] = None,
    folder: Annotated[
        Path | None, typer.Option(help="Where the data is made, and found again. [default: the user's cache]")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="How often each is measured; the median counts.")] = 5,
    only: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A figure to measure; several may be given. [default: all]")
    ] = None,
) -> None:
    """Measure how fast batches come, beside raw memory-mapped files, on this machine.

    Makes its data from a seed, 1.2 GB at the first run and nothing later, and takes some minutes. Every figure has a
    goal beside it. Memory and page cache are warm, and what is compared takes turns in one process.

    \b
    Examples:
      flatmix bench
      flatmix bench --quick --json
      flatmix bench --plot steps.png --only slowest-step --only p99-step
    """
    from flatmix.bench.plot import check_plot
    from flatmix.bench.plot import plot as draw
    from flatmix.bench.report import markdown as as_markdown
    from flatmix.bench.run import check_names, run
    from flatmix.bench.settings import full
    from flatmix.bench.settings import quick as small

    if as_json and markdown:
        raise ValueError("--json and --markdown: give one of them")
    check_names(only or ())
    if plot is not None:
        check_plot(plot)
    settings = (small if quick else full)((folder or default_folder()).absolute(), rounds)
    chosen: dict[str, Any] = {"--quick": quick, "--peers": peers, "--rounds": rounds if rounds != 5 else None}
    with _no_advice():
        report = run(
            settings,
            only or (),
            peers=_peers(settings) if peers else None,
            with_series=plot is not None,
            command=_command(chosen, only or ()),
            say=_say,
        )
    if plot is not None:
        draw(report.series, plot, f"Steps of {settings.batch} x {settings.length} tokens, {report.machine['cpu']}")
    if as_json:
        print_json(report.as_json())
    elif markdown:
        print(as_markdown(report), end="")
    else:
        _print_report(report)


def default_folder() -> Path:
    """Below the folder that the system keeps for what programs can make again."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "flatmix" / "bench"


def _peers(settings: Any) -> Any:
    """What measures other loaders. ValueError where the environment of one is missing."""
    from flatmix.bench.peers import find_peers, measure_peers

    found = find_peers(settings.folder)
    shorter = {"steps": settings.segment, "seconds": 0.1} if settings.name == "quick" else {}
    return lambda: measure_peers(settings.four.folder, settings.rounds, found, report=_say, **shorter)


@contextlib.contextmanager
def _no_advice() -> Iterator[None]:
    """Loaders log that a loop waits for its data; here loops do nothing else."""
    logger = logging.getLogger("flatmix")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _say(line: str) -> None:
    print(f"flatmix: {line}", file=sys.stderr, flush=True)


def _command(chosen: dict[str, Any], only: Any) -> str:
    """How to repeat this run."""
    words = ["flatmix", "bench"]
    for option, value in chosen.items():
        if value:
            words += [option] if value is True else [option, str(value)]
    for name in only:
        words += ["--only", name]
    return shlex.join(words)


def _print_report(report: Any) -> None:
    from flatmix.bench.report import cells, head, headings, notes

    print("\n".join(line.replace("`", "") for line in head(report)) + "\n")
    print_table(headings(report), cells(report), _TEXT)
    print("\n" + "\n".join(notes(report)))
