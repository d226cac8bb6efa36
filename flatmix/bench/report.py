"""a report -> its table, as cells and as Markdown."""

from collections.abc import Mapping
from typing import Any

from flatmix.bench.result import Figure, Report

_HEADINGS = ("figure", "unit", "flatmix", "floor", "ratio", "goal", "reached")
_REACHED = {True: "yes", False: "NO", None: "-"}


def headings(report: Report) -> list[str]:
    return [*_HEADINGS, *report.peers]


def cells(report: Report) -> list[list[str]]:
    """A row for each figure, a cell for each heading."""
    return [_row(figure, list(report.peers)) for figure in report.figures]


def _row(figure: Figure, peers: list[str]) -> list[str]:
    numbers = [number(value) for value in (figure.flatmix, figure.floor, figure.ratio)]
    others = [number(figure.peers.get(name)) for name in peers]
    return [figure.title, figure.unit, *numbers, figure.goal or "-", _REACHED[figure.reached], *others]


def number(value: float | None) -> str:
    """Three digits that count, and no exponent for what people read."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if abs(value) >= 999.5 else f"{value:#.3g}".rstrip(".")


def head(report: Report) -> list[str]:
    """When, on what, with what, and how to repeat it: a line each."""
    here = report.machine
    made = f"{here['cores']} cores, {here['cpu']}, {here['memory_gb']} GB, {here['devices']}, {here['system']}"
    return [
        f"Measured: {report.date}, `{report.command}`",
        f"Machine: {made}",
        f"Versions: {', '.join(f'{name} {version}' for name, version in report.versions.items())}",
        *(f"Peer {name}: {_versions(values)}" for name, values in report.peers.items()),
    ]


def _versions(values: Mapping[str, Any]) -> str:
    if "error" in values:
        return f"could not be measured: {values['error']}"
    found = [f"{name} {version}" for name, version in (values.get("versions") or {}).items()]
    return "; ".join(filter(None, [", ".join(found), values.get("setting")]))


def notes(report: Report) -> list[str]:
    return [f"{figure.title}: {figure.note}" for figure in report.figures if figure.note]


def markdown(report: Report) -> str:
    """The head, the table and the notes of a report, for a page."""
    names, rows = headings(report), cells(report)
    sides = [" --- " if name in ("figure", "unit", "goal", "reached") else " ---: " for name in names]
    lines = [f"|{'|'.join(f' {_cell(name)} ' for name in names)}|", f"|{'|'.join(sides)}|"]
    lines += [f"|{'|'.join(f' {_cell(cell)} ' for cell in row)}|" for row in rows]
    parts = ["\n".join(f"- {_escape(line)}" for line in head(report)), "\n".join(lines)]
    remarks = "\n".join(f"- {_escape(line)}" for line in notes(report))
    return "\n\n".join([*parts, *([remarks] if remarks else [])]) + "\n"


def _cell(text: str) -> str:
    return _escape(text).replace("|", "\\|")


def _escape(text: str) -> str:
    return text.replace("<", "&lt;")
