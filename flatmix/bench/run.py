"""settings -> a report: the figures that are asked for, group by group.

A group that fails leaves its figures without numbers and with the reason, and the others go on.
"""

import platform
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import UTC, datetime
from importlib.metadata import version
from math import isfinite
from pathlib import Path
from typing import Any

import jax

import flatmix
from flatmix.bench import speed
from flatmix.bench.figures import AGAINST, AGAINST_PEER, GROUPS, NAMES, Goal
from flatmix.bench.result import Figure, Measured, Report
from flatmix.bench.settings import Settings
from flatmix.loader.memory import usable_memory
from flatmix.order.counts import cores

Say = Callable[[str], None]
Peers = Mapping[str, Mapping[str, Any]]


def check_names(only: Collection[str]) -> None:
    """ValueError for a figure that nobody measures."""
    for name in only:
        if name not in NAMES:
            raise ValueError(f"there is no figure {name!r}: take one of {', '.join(NAMES)}")


def run(
    settings: Settings,
    only: Collection[str] = (),
    peers: Callable[[], Peers] | None = None,
    with_series: bool = False,
    command: str = "",
    say: Say = lambda line: None,
) -> Report:
    """Measures all figures, or those that `only` names. `peers` measures other loaders on the four languages."""
    check_names(only)
    started = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    say(f"corpus in {settings.folder}, made where it is not there yet")
    _ = settings.four  # ValueError or OSError where it cannot be made: no figure is without it
    others = {} if peers is None else peers()
    found = list(_measured(settings, only, say))
    found.insert(1, (AGAINST, _against(found, others)))
    figures = [_figure(goal, measured, others) for goal, measured in found if not only or goal.name in only]
    return Report(
        date=started,
        command=command,
        machine=machine(),
        versions=versions(),
        settings=settings.as_json(),
        figures=tuple(figures),
        peers=others,
        series=speed.series(settings) if with_series else None,
    )


def _measured(settings: Settings, only: Collection[str], say: Say) -> Iterator[tuple[Goal, Measured]]:
    needed = {*only, *(["steady-jax"] if AGAINST.name in only else [])}
    for group in GROUPS:
        names = [goal.name for goal in group.goals]
        if needed and needed.isdisjoint(names):
            continue
        say(f"measuring {', '.join(names)}")
        try:
            found = group.measure(settings)
        except Exception as error:
            reason = " ".join(f"could not be measured: {type(error).__name__}: {error}".split())
            found = {name: Measured(None, note=reason) for name in names}
        yield from ((goal, found[goal.name]) for goal in group.goals)


def _figure(goal: Goal, measured: Measured, peers: Peers) -> Figure:
    told = {name: values.get(goal.peer) for name, values in peers.items()}
    known = measured.flatmix is not None and isfinite(measured.flatmix)
    text = goal.goal
    if measured.limit is not None and text:
        text += f" ({measured.limit:.4g} {goal.unit})"
    return Figure(
        name=goal.name,
        title=goal.title,
        unit=goal.unit,
        flatmix=measured.flatmix,
        floor=measured.floor,
        ratio=measured.ratio,
        goal=text,
        reached=bool(goal.reached(measured)) if goal.reached is not None and known else None,
        note=measured.note,
        peers={name: float(value) for name, value in told.items() if isinstance(value, int | float)},
    )


def _against(found: list[tuple[Goal, Measured]], peers: Peers) -> Measured:
    """flatmix beside Hugging Face datasets, which --peers measures."""
    ours = next((measured.flatmix for goal, measured in found if goal.name == "steady-jax"), None)
    theirs = peers.get(AGAINST_PEER, {}).get(AGAINST.peer)
    if ours is None or not isinstance(theirs, int | float):
        return Measured(None, note="needs the speed of both; --peers measures datasets")
    return Measured(ours, ratio=ours / theirs, note=f"datasets {theirs:.3g} Mtok/s")


def machine() -> dict[str, Any]:
    devices = jax.devices()
    return {
        "cores": cores(),
        "cpu": _processor(),
        "memory_gb": round(usable_memory() / 1e9, 1),
        "system": platform.platform(terse=True),
        "devices": f"{len(devices)} {devices[0].device_kind}",
    }


def versions() -> dict[str, str]:
    found = {name: version(name) for name in ("jax", "numpy", "tensorstore")}
    return {"flatmix": flatmix.__version__, "python": ".".join(map(str, sys.version_info[:3])), **found}


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
