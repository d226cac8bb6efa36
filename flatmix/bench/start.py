"""settings -> how soon the first batch is there, as jax.Arrays: at step 0, far on, in a new process.

The page cache is warm, and a loader was open in the process before, except where the process is new.
"""

import gc
import json
import time
from typing import Any

import jax

from flatmix.bench.child import run_child
from flatmix.bench.clock import middle
from flatmix.bench.floor import WAYS, array_batches
from flatmix.bench.result import Measured
from flatmix.bench.settings import Settings, read_blocks
from flatmix.order.counts import cores

_BASE, _BLOCK, _SLOT = 30e-3, 40e-9, 6e-9  # seconds: of any opening, a read block, a slot to count
_FRESH = 1.0


def opening(settings: Settings) -> dict[str, Measured]:
    first_batch(settings)
    times = [first_batch(settings) for _ in range(settings.rounds)]
    floor = [floor_first_batch(settings, 0) for _ in range(settings.rounds + 1)][1:]
    return {"open": Measured(middle(times), middle(floor), limit=_limit(settings))}


def far(settings: Settings) -> dict[str, Measured]:
    """At a late step: from the step alone with both selectors, and from a saved state."""
    step, slots = settings.far_step, settings.far_step * settings.batch
    with settings.four_loader() as donor:
        state = json.loads(json.dumps(donor.state(step)))
    for selector in ("balanced", "hash"):
        first_batch(settings, step, selector)
    rounds = range(settings.rounds)
    balanced = [first_batch(settings, step, "balanced") for _ in rounds]
    hashed = [first_batch(settings, step) for _ in rounds]
    restored = [first_batch(settings, state=state) for _ in rounds]
    floor = floor_first_batch(settings, slots)
    limit, counting = _limit(settings), slots * _SLOT / cores()
    note = f"step {step:,}"
    return {
        "far-balanced": Measured(middle(balanced), limit=limit, note=note),
        "far-hash": Measured(middle(hashed), floor, limit=limit + counting, note=f"{note}; the floor once"),
        "far-state": Measured(middle(restored), limit=limit, note=note),
    }


def fresh(settings: Settings) -> dict[str, Measured]:
    """In a process that has imported flatmix and jax, and made jax find its devices, and no more."""
    settings.four.warm()
    found = [run_child("fresh", settings) for _ in range(settings.rounds)]
    return {
        "open-fresh": Measured(
            middle([one["loader"] for one in found]),
            middle([one["floor"] for one in found]),
            limit=_FRESH,
            note="the floor after it in the same process",
        )
    }


def first_batch(settings: Settings, step: int = 0, selector: str = "hash", state: Any = None) -> float:
    """Seconds from nothing to a batch that is there."""
    gc.collect()
    time.sleep(settings.rest)
    started = time.perf_counter()
    with settings.four_loader(selector) as loader:
        step = step if state is None else loader.restore(state)
        jax.block_until_ready(loader.load(step))
        return time.perf_counter() - started


def floor_first_batch(settings: Settings, slot: int) -> float:
    gc.collect()
    started = time.perf_counter()
    jax.block_until_ready(next(array_batches(settings.floor(slot), WAYS[0])))
    return time.perf_counter() - started


def _limit(settings: Settings) -> float:
    with settings.four_loader() as loader:
        return _BASE + _BLOCK * read_blocks(loader)
