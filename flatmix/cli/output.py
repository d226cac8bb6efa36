"""values -> standard output, and progress -> standard error: what several commands print in the same way."""

import json
import sys
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

_WIDTH = 250  # wider than any line: a pipe gets the same lines as a terminal


def print_json(value: Any) -> None:
    """Text as it is where standard output is UTF-8, and escaped as JSON escapes it elsewhere."""
    encoding = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "").replace("_", "")
    print(json.dumps(value, ensure_ascii=encoding != "utf8", indent=2))


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]], text: Collection[str]) -> None:
    """A table without lines; columns are numbers, and stand to the right, but for those called in `text`."""
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in headings:
        table.add_column(name, justify="left" if name in text else "right", no_wrap=True)
    for row in rows:
        table.add_row(*row)
    Console(width=_WIDTH, markup=False).print(table, crop=False)  # names are no markup


class Bar(NamedTuple):
    """A line of progress: a name, a bar, and what is said of it."""

    name: str
    done: int
    total: int  # 0 where nobody knows
    text: str


@contextmanager
def progress_bars() -> Iterator[Callable[[Sequence[Bar]], None] | None]:
    """What shows bars on standard error, just those it is called with; None where that is no terminal."""
    if sys.stderr is None or not sys.stderr.isatty():  # None where it is closed
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (TextColumn("{task.description}", markup=False), BarColumn(bar_width=None))
    texts = TextColumn("{task.fields[text]}", markup=False)
    with Progress(*columns, texts, console=Console(stderr=True), transient=True, expand=True) as shown:

        def show(bars: Sequence[Bar]) -> None:
            for place, bar in enumerate(bars):
                values = {"completed": bar.done, "total": bar.total or None, "text": bar.text}
                if place < len(shown.task_ids):
                    shown.update(shown.task_ids[place], description=bar.name, visible=True, **values)
                else:
                    shown.add_task(bar.name, **values)
            for task in shown.task_ids[len(bars) :]:
                shown.update(task, visible=False)

        yield show


def pace(unit: str = "B", now: Callable[[], float] = time.monotonic) -> Callable[[int, int], str]:
    """What says, each time that it is told what is done and the total: "12.3 GB of 45.6 GB, 7.8 MB/s, 1:02:03 left".

    The speed is the mean since it was told first, so what was there before does not count.
    """
    first: list[tuple[float, int]] = []

    def say(done: int, total: int) -> str:
        moment = now()
        if not first:
            first.append((moment, done))
        seconds, begun = moment - first[0][0], first[0][1]
        rate = (done - begun) / seconds if seconds else 0.0
        words = [amount(done, total, unit)]
        if rate:
            words.append(f"{scaled(rate, unit)}/s")
        if rate and total:
            words.append(f"{clock(max(total - done, 0) / rate)} left")
        return ", ".join(words)

    return say


def amount(done: int, total: int, unit: str = "B") -> str:
    return f"{scaled(done, unit)} of {scaled(total, unit)}" if total else scaled(done, unit)


def scaled(value: float, unit: str = "") -> str:
    """1234567, "B" -> "1.2 MB"; powers of 1000."""
    prefixes = ("", "k", "M", "G", "T", "P")
    power = 0
    while round(value, 1) >= 1000 and power < len(prefixes) - 1:
        value, power = value / 1000, power + 1
    return f"{value:.{1 if power else 0}f} {prefixes[power]}{unit}".rstrip()


def clock(seconds: float) -> str:
    """3723.4 -> "1:02:03" """
    minutes, left = divmod(round(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02}:{left:02}"
