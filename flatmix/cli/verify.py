"""`flatmix verify`: reads a store back -> a table of its splits, and what is wrong with them, one fault a line."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from flatmix.cli.output import print_json, print_table

_TEXT_COLUMNS = ("language", "split", "verdict")


def verify(
    store: Annotated[str, typer.Argument(help="The store.", show_default=False)],
    language: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A language to verify, or that of an older store. [default: all]"),
    ] = None,
    split: Annotated[list[str] | None, typer.Option(metavar="NAME", help="A split to verify. [default: all]")] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Pieces read at once. [default: processors + 2, at most 8]")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Read everything in a store back, and say what is damaged or wrong.

    Every chunk must be readable and every piece of 2^24 values have the digest that was taken when it was written;
    documents must start where both arrays say so, the largest id be the one that is told, and sources exist. Exit
    status 0 says that no fault was found, 1 that there are some: each is one line, with the shard and the tokens that
    it is about. Leftovers and foreign files are told, and are no faults. Nothing is changed.

    \b
    Examples:
      flatmix verify corpus.zarr
      flatmix verify corpus.zarr --language sw --language en --split train --json
    """
    from flatmix.verify import verify as verify_store

    try:
        with _progress() as report:
            found = verify_store(store, language or None, split or None, threads=threads, progress=report)
    except KeyboardInterrupt:
        print("flatmix: interrupted: not everything was verified", file=sys.stderr)
        raise typer.Exit(130) from None
    if as_json:
        print_json(found.as_dict())
    else:
        _print(found)
    if not found.sound:
        raise typer.Exit(1)


def _print(found: Any) -> None:
    splits = found.splits.values()
    if splits:
        headings = ("language", "split", "tokens", "documents", "seconds", "verdict")
        print_table(headings, map(_cells, splits), _TEXT_COLUMNS)
    for note in found.notes:
        print(f"note: {note}")
    for finding in found.findings:
        print(f"fault: {finding}")
    tokens = sum(split.tokens or 0 for split in splits)
    count = len(found.findings)
    verdict = f"{count} fault{'s' if count != 1 else ''}" if count else "no faults"
    print(f"{found.store}: {len(splits)} split{'s' if len(splits) != 1 else ''}, {tokens:,} tokens, {verdict}")


def _cells(split: Any) -> list[str]:
    counts = ["unknown" if count is None else f"{count:,}" for count in (split.tokens, split.documents)]
    return [split.language, split.split, *counts, f"{split.seconds:.1f}", split.verdict]


@contextmanager
def _progress() -> Iterator[Callable[[int, int], None] | None]:
    """A bar on standard error, where that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, TimeRemainingColumn(), console=Console(stderr=True), transient=True) as bars:
        bar = bars.add_task("verifying", total=None)
        yield lambda done, total: bars.update(bar, completed=done, total=total)
