"""settings -> whether the loader keeps to its memory, and whether a slow store makes a step wait."""

import time

import jax

from flatmix.bench.child import run_child
from flatmix.bench.clock import middle
from flatmix.bench.result import Measured
from flatmix.bench.settings import Settings
from flatmix.bench.slow import slow_reads

_MORE = 1.15  # of the buffers as configured
_FLAT = 0.05  # of the buffers
_FIRST = 0.5  # seconds
_STALL = 0.5  # of the delay of a read: a step that waits longer has waited for a read


def memory(settings: Settings) -> dict[str, Measured]:
    """In a new process: the most that it took, beyond what it took before the loader was made, and whether it grew."""
    settings.four.warm()
    found = run_child("memory", settings)
    if found["peak"] is None:
        return {name: Measured(None, note="needs /proc/self/status") for name in ("memory-peak", "memory-flat")}
    buffers, said = found["buffers"], found["said"]
    where = f"buffers of {buffers / 1e6:.4g} MB as configured, {said / 1e6:.4g} MB with what is on its way to them"
    return {
        "memory-peak": Measured(
            found["peak"] / 1e6,
            limit=_MORE * buffers / 1e6,
            ratio=found["peak"] / buffers,
            note=f"{where}; before, the process had {found['before'] / 1e6:.4g} MB of its own, with files "
            f"{found['resident'] / 1e6:.4g} MB, and the peak of that grew by {found['high_water'] / 1e6:.4g} MB",
        ),
        "memory-flat": Measured(
            (found["last"] - found["first"]) / 1e6,
            limit=_FLAT * buffers / 1e6,
            note=f"from {found['first'] / 1e6:.4g} MB to {found['last'] / 1e6:.4g} MB in {found['steps']} steps, "
            f"which use {settings.refills} times what all buffers hold",
        ),
    }


def slow(settings: Settings) -> dict[str, Measured]:
    """Every read takes a while, and few are under way at once."""
    with settings.four_loader() as loader:
        jax.block_until_ready(loader.load(0))
    firsts = []
    for _ in range(settings.rounds):
        with slow_reads(settings.delay, settings.reads_at_most):
            started = time.perf_counter()
            with settings.four_loader() as loader:
                jax.block_until_ready(loader.load(0))
                firsts.append(time.perf_counter() - started)
    store = f"reads of {settings.delay * 1e3:g} ms, {settings.reads_at_most} at once"
    waits = _waits(settings)
    later = waits[settings.slow_warm :]
    return {
        "slow-first": Measured(middle(firsts), limit=_FIRST, note=store),
        "slow-stall": Measured(
            max(later),
            limit=_STALL * settings.delay * 1e3,
            note=f"{store}; {len(later)} steps of {settings.training * 1e3:g} ms after {settings.slow_warm} others, "
            f"which waited up to {max(waits[: settings.slow_warm]):.3g} ms",
        ),
    }


def _waits(settings: Settings) -> list[float]:
    """Milliseconds that each step of a loop waited for its batch, the first steps too."""
    waits = []
    with slow_reads(settings.delay, settings.reads_at_most), settings.four_loader() as loader:
        batches = loader.steps()
        for _ in range(settings.slow_warm + settings.slow_steps):
            started = time.perf_counter()
            jax.block_until_ready(next(batches))
            waits.append((time.perf_counter() - started) * 1e3)
            time.sleep(settings.training)
    return waits
