"""values -> standard output: what several commands print in the same way."""

import json
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import Any

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
