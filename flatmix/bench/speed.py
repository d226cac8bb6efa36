"""settings -> how fast batches come one after another, beside the floor.

Floor and loader are open in one process, and take turns: a machine that slows down slows both. One that has no turn
does nothing.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from typing import Any

import numpy as np

from flatmix.bench.clock import Segment, each, middle, ratio, ready, segment
from flatmix.bench.floor import WAYS, array_batches, end, fastest_way, host_batches
from flatmix.bench.result import Measured, Series
from flatmix.bench.settings import UNBOUNDED, Settings, buffer_bytes, bytes_held

Figure = Callable[[Segment, int], float]  # (segment, tokens of a batch) -> figure


def steady(settings: Settings) -> dict[str, Measured]:
    """Batches as jax.Arrays, at full speed: million tokens a second, and CPU seconds a million tokens."""
    with ExitStack() as stack:
        loader = stack.enter_context(settings.four_loader())
        settings.four.warm()
        floor, note = _fast_floor(settings, stack)
        ours, theirs = _in_turns(settings, loader.steps(), floor)
    speeds, costs = _both(ours, theirs, Segment.speed, settings), _both(ours, theirs, Segment.cost, settings)
    return {
        "steady-jax": Measured(middle(speeds[0]), middle(speeds[1]), ratio(*speeds), note=note),
        "cpu": Measured(middle(costs[0]), middle(costs[1]), ratio(*costs)),
    }


def steady_host(settings: Settings) -> dict[str, Measured]:
    """Batches as NumPy arrays, one call of `load_host` each."""
    floor, bare = settings.floor(), settings.floor()
    floor.touch()
    settings.four.warm()
    with settings.four_loader() as loader:
        batches = (loader.load_host(step) for step in count())
        ours, theirs = _in_turns(settings, batches, host_batches(floor))
        rows = [segment(bare.rows, settings.segment) for _ in range(settings.rounds + 1)][1:]
    speeds = _both(ours, theirs, Segment.speed, settings)
    return {
        "steady-host": Measured(middle(speeds[0]), middle(speeds[1]), ratio(*speeds)),
        "rows-alone": Measured(
            None,
            middle([part.speed(settings.batch_tokens) for part in rows]),
            note="uint16 rows and nothing more, for context",
        ),
    }


def steps(settings: Settings) -> dict[str, Measured]:
    """The milliseconds of single steps as jax.Arrays, after the first buffers: the slowest, and the spread."""
    with ExitStack() as stack:
        loader = stack.enter_context(settings.four_loader())
        settings.four.warm()
        floor, _ = _fast_floor(settings, stack)
        ours, theirs = ready(loader.steps()), ready(floor)
        _warm(settings, ours, theirs)
        before = loader.metrics()["buffers_filled"]
        rounds = [(each(ours, settings.steps), each(theirs, settings.steps)) for _ in range(settings.rounds)]
        filled = (loader.metrics()["buffers_filled"] - before) / settings.rounds
    slowest, p99s, medians = (_of_rounds(rounds, percent) for percent in (100, 99, 50))
    spreads = [[p99 / median for p99, median in zip(*which, strict=True)] for which in zip(p99s, medians, strict=True)]
    buffers = f"{settings.steps} steps, {filled:.0f} buffers filled in them"
    floor = f"the floor's p99 is {middle(spreads[1]):.3g} times its median of {middle(medians[1]):.3g} ms"
    return {
        "slowest-step": Measured(
            middle(slowest[0]), middle(slowest[1]), note=f"{buffers}; {max(slowest[0]):.3g} in the worst round"
        ),
        "p99-step": Measured(
            middle(p99s[0]), middle(p99s[1]), middle(spreads[0]), note=f"median {middle(medians[0]):.3g} ms; {floor}"
        ),
    }


def _of_rounds(rounds: list[tuple[np.ndarray, np.ndarray]], percent: int) -> tuple[list[float], list[float]]:
    """A percentile of the steps of each round: of ours, and of the floor."""
    ours, floor = ([float(np.percentile(times, percent)) for times in which] for which in zip(*rounds, strict=True))
    return ours, floor


def series(settings: Settings) -> Series:
    """The steps of one round, and how many buffers were filled at each; for a picture, as looking costs time too."""
    with ExitStack() as stack:
        loader = stack.enter_context(settings.four_loader())
        floor, _ = _fast_floor(settings, stack)
        ours, theirs = ready(loader.steps()), ready(floor)
        _warm(settings, ours, theirs)
        filled = []

        def step() -> None:
            ours()
            filled.append(int(loader.metrics()["buffers_filled"]))

        times = each(step, settings.steps)
        return Series(
            tuple(times.tolist()), tuple(each(theirs, settings.steps).tolist()), tuple(filled[-settings.steps :])
        )


def languages(settings: Settings) -> dict[str, Measured]:
    """Many languages, weights 1/rank: with a tenth of the memory that all buffers need, and with all of it."""
    block = settings.language_block
    with settings.loader(settings.many, block, budget=UNBOUNDED) as whole:
        settings.many.warm()
        needed = buffer_bytes(whole)
        budget = needed // 10
        with settings.loader(settings.many, block, budget=budget) as bounded:
            ours, theirs = _in_turns(settings, bounded.steps(), whole.steps())
            held = bytes_held(bounded)
    speeds = _both(ours, theirs, Segment.speed, settings)
    note = (
        f"unbounded {middle(speeds[1]):.3g} Mtok/s, all buffers of {settings.languages} languages {needed / 1e6:.4g} MB"
    )
    return {
        "languages-speed": Measured(middle(speeds[0]), None, ratio(*speeds), note=note),
        "languages-budget": Measured(held / 1e6, limit=budget / 1e6, note=f"of a budget of {budget / 1e6:.4g} MB"),
    }


def _fast_floor(settings: Settings, stack: ExitStack) -> tuple[Iterator[Any], str]:
    """The floor's batches as jax.Arrays in the fastest way, and which that was, with all that were tried."""
    tried = []
    for way in WAYS:
        floor = settings.floor()
        floor.touch()
        tried.append((way, array_batches(floor, way)))
    fastest, seconds = fastest_way(tried, max(2, settings.segment // 5))
    chosen = dict(tried)[fastest]
    for way, batches in tried:
        if way == fastest:
            stack.callback(end, batches)
        else:
            end(batches)
    plain = min(seconds[str(way)] for way in WAYS if way.pace == "in turn")
    best = _speed(settings, seconds[str(fastest)])
    return chosen, f"floor: {fastest}, {best} Mtok/s in its trial; in turn {_speed(settings, plain)}"


def _speed(settings: Settings, seconds: float) -> str:
    return f"{settings.batch_tokens / seconds / 1e6:.3g}"


def _warm(settings: Settings, ours: Any, theirs: Any) -> None:
    for _ in range(settings.warm):
        ours()
    for _ in range(settings.segment // 5):
        theirs()


def _in_turns(settings: Settings, ours: Iterator[Any], theirs: Iterator[Any]) -> tuple[list[Segment], list[Segment]]:
    """The rounds of both, after what no clock sees."""
    next_ours, next_theirs = ready(ours), ready(theirs)
    _warm(settings, next_ours, next_theirs)
    rounds = [
        (segment(next_theirs, settings.segment), segment(next_ours, settings.segment)) for _ in range(settings.rounds)
    ]
    return [pair[1] for pair in rounds], [pair[0] for pair in rounds]


def _both(
    ours: list[Segment], theirs: list[Segment], of: Figure, settings: Settings
) -> tuple[list[float], list[float]]:
    """A figure of the segments of both."""
    return [of(part, settings.batch_tokens) for part in ours], [of(part, settings.batch_tokens) for part in theirs]
