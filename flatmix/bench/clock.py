"""something to repeat -> seconds, of the wall and of all processors together."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import jax
import numpy as np

UNCLOCKED = 4  # batches: what was made ahead while nobody asked is used up


@dataclass(frozen=True)
class Segment:
    """What `steps` batches took: seconds, and CPU seconds of the process."""

    steps: int
    seconds: float
    cpu: float

    def speed(self, batch_tokens: int) -> float:
        """Million tokens a second."""
        return self.steps * batch_tokens / self.seconds / 1e6

    def cost(self, batch_tokens: int) -> float:
        """CPU seconds a million tokens."""
        return self.cpu / (self.steps * batch_tokens) * 1e6


def segment(step: Callable[[], Any], steps: int) -> Segment:
    """Calls `step` so many times against the clock, after a few times without it."""
    for _ in range(UNCLOCKED):
        step()
    started, cpu = time.perf_counter(), time.process_time()
    for _ in range(steps):
        step()
    return Segment(steps, time.perf_counter() - started, time.process_time() - cpu)


def each(step: Callable[[], Any], steps: int) -> np.ndarray:
    """Milliseconds of each of so many calls: float64[steps]."""
    for _ in range(UNCLOCKED):
        step()
    times = np.empty(steps + 1)
    for number in range(steps):
        times[number] = time.perf_counter()
        step()
    times[steps] = time.perf_counter()
    return np.diff(times) * 1e3


def ready(batches: Iterator[Any]) -> Callable[[], Any]:
    """A step that takes the next batch and waits until it is there."""
    return lambda: jax.block_until_ready(next(batches))


def middle(values: Sequence[float]) -> float:
    return float(median(values))


def ratio(ours: Sequence[float], floor: Sequence[float]) -> float:
    """The median of the ratios of the rounds: what slows both in one round cancels out."""
    return middle([a / b for a, b in zip(ours, floor, strict=True)])
