"""how far a conversion is -> bars on a terminal; what came of it -> a table; an interruption -> one line."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer

from flatmix.cli.output import Bar, amount, clock, pace, print_table, progress_bars, scaled

_LANGUAGES = 8  # bars of languages at most: those that moved last
_HEADINGS = ("language", "split", "documents", "empty", "bad", "tokens", "bytes", "bytes/token", "time")


@contextmanager
def watched(staged: str, restart: bool) -> Iterator[Callable[[Any], None]]:
    """What to tell the progress to. An interruption becomes one line that says what it leaves, and exit status 130.

    staged: the folder in which the work lies until the end.
    """
    begun = False
    try:
        with progress_bars() as show:
            bars = _bars()
            if show is not None:
                show([Bar("looking at the input", 0, 0, "")])

            def tell(progress: Any) -> None:
                nonlocal begun
                if show is not None and not begun:
                    note = f"until the end, what is done lies in {staged}, and takes about as much room as the store"
                    print(f"flatmix: {note}", file=sys.stderr)
                begun = True
                if show is not None:
                    show(bars(progress))

            yield tell
    except KeyboardInterrupt:
        again = "the same command without --restart goes on with it" if restart else "the same command goes on with it"
        left = f"what is done is kept in {staged}: {again}" if begun else "nothing was written"
        print(f"flatmix: interrupted: {left}", file=sys.stderr)
        raise typer.Exit(130) from None


def _bars() -> Callable[[Any], list[Bar]]:
    """What makes the bars of each progress that it is told: of all, and of the languages that moved last."""
    speed, writing_speed = pace(), pace("")
    moved: dict[str, int] = {}  # language -> bytes done, those that moved last at the end

    def bars(progress: Any) -> list[Bar]:
        if progress.stage == "writing":
            said = writing_speed(progress.done, progress.total)
            return [Bar("writing tokens", progress.done, progress.total, said)]
        for name, one in progress.languages.items():
            if one.done > moved.get(name, 0):
                moved.pop(name, None)
                moved[name] = one.done
        said = f"{speed(progress.done, progress.total)}, {_counts(progress)}"
        shown = [Bar("converting", progress.done, progress.total, said)]
        for name in sorted(list(moved)[-_LANGUAGES:]):
            one = progress.languages[name]
            shown.append(Bar(f"  {name}", one.done, one.total, f"{amount(one.done, one.total)}, {_counts(one)}"))
        return shown

    return bars


def _counts(progress: Any) -> str:
    return f"{scaled(progress.documents)} documents, {scaled(progress.tokens)} tokens"


def print_summary(summary: Any) -> None:
    """The table, with all languages together below them, and a line that sums up."""
    rows = [_cells(one) for one in summary.languages]
    if len(rows) > 1 or summary.bad:
        rows.append(_cells(_total(summary)))
    print_table(_HEADINGS, rows, ("language", "split"))
    count, tokens = len(summary.languages), sum(one.tokens for one in summary.languages)
    splits = f"{count} split{'s' if count != 1 else ''}"
    print(f"{summary.store}: {splits}, {tokens:,} tokens, in {clock(summary.seconds)}")


def print_left_out(summary: Any) -> None:
    """The places of the first bad records, on standard error."""
    for message in summary.bad_examples:
        print(f"flatmix: left out: {message}", file=sys.stderr)
    if summary.bad > len(summary.bad_examples):
        print(f"flatmix: left out: {summary.bad - len(summary.bad_examples)} more", file=sys.stderr)


def _total(summary: Any) -> Any:
    from flatmix.convert import LanguageSummary

    every = summary.languages
    sums = {name: sum(getattr(one, name) for one in every) for name in ("documents", "empty", "tokens", "seconds")}
    utf8_bytes = None if any(one.utf8_bytes is None for one in every) else sum(one.utf8_bytes for one in every)
    return LanguageSummary(language="all", split="", bad=summary.bad, utf8_bytes=utf8_bytes, digest="", **sums)


def _cells(one: Any) -> list[str]:
    counts = (one.documents, one.empty, one.bad, one.tokens, one.utf8_bytes)
    ratio = "-" if one.bytes_per_token is None else f"{one.bytes_per_token:.2f}"
    return [
        *(one.language, one.split),
        *("-" if count is None else f"{count:,}" for count in counts),
        *(ratio, clock(one.seconds)),
    ]
