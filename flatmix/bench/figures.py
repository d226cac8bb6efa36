"""The table of all figures: what each is called, its goal, what measures it, and what other loaders say to it.

A group is measured together, for its figures come of the same run.
"""

from collections.abc import Callable
from dataclasses import dataclass

from flatmix.bench import limits, speed, start
from flatmix.bench.result import Measured
from flatmix.bench.settings import Settings


@dataclass(frozen=True)
class Goal:
    """A figure that is to be measured. `reached` tells of a measurement whether the goal is; None where there is none.
    `peer` is the name of the same figure of another loader."""

    name: str
    title: str
    unit: str
    goal: str = ""
    reached: Callable[[Measured], bool] | None = None
    peer: str = ""


@dataclass(frozen=True)
class Group:
    measure: Callable[[Settings], dict[str, Measured]]
    goals: tuple[Goal, ...]


def _within(measured: Measured) -> bool:
    """At most the limit that was made for this run."""
    return measured.flatmix <= measured.limit


GROUPS = (
    Group(
        speed.steady,
        (
            Goal(
                "steady-jax",
                "steady state as jax.Arrays",
                "Mtok/s",
                "at least 0.8 of the floor",
                lambda measured: measured.ratio >= 0.8,
                "jax_mtok_s",
            ),
            Goal(
                "cpu",
                "CPU seconds a million tokens, as jax.Arrays",
                "s/Mtok",
                "at most twice the floor's",
                lambda measured: measured.ratio <= 2,
                "cpu_s_per_mtok",
            ),
        ),
    ),
    Group(
        speed.steady_host,
        (
            Goal(
                "steady-host",
                "steady state, load_host",
                "Mtok/s",
                "at least 0.7 of the floor",
                lambda measured: measured.ratio >= 0.7,
                "np_mtok_s",
            ),
            Goal("rows-alone", "raw rows gathered, no fields", "Mtok/s"),
        ),
    ),
    Group(
        speed.steps,
        (
            Goal(
                "slowest-step", "slowest step", "ms", "at most 10 ms", lambda measured: measured.flatmix <= 10, "max_ms"
            ),
            Goal(
                "p99-step",
                "p99 of steps",
                "ms",
                "at most 5 times the median",
                lambda measured: measured.ratio <= 5,
                "p99_ms",
            ),
        ),
    ),
    Group(
        start.opening,
        (
            Goal(
                "open",
                "open to first batch, second loader of a process",
                "s",
                "at most 30 ms + 40 ns a read block",
                _within,
                "first_batch_s",
            ),
        ),
    ),
    Group(
        start.fresh,
        (Goal("open-fresh", "open to first batch, new process, without imports", "s", "at most 1 s", _within),),
    ),
    Group(
        start.far,
        (
            Goal("far-balanced", "first batch far on, from the step alone, balanced", "s", "as at step 0", _within),
            Goal(
                "far-hash",
                "first batch far on, from the step alone, hash",
                "s",
                "as at step 0, + 6 ns a slot / cores",
                _within,
                "resume_1m_step_s",
            ),
            Goal(
                "far-state", "first batch far on, from a saved state", "s", "as at step 0", _within, "resume_1m_state_s"
            ),
        ),
    ),
    Group(
        limits.memory,
        (
            Goal("memory-peak", "peak memory of a new process", "MB", "at most the buffers + 15 %", _within),
            Goal("memory-flat", "memory gained over refills", "MB", "at most 5 % of the buffers", _within),
        ),
    ),
    Group(
        speed.languages,
        (
            Goal(
                "languages-speed",
                "languages of weights 1/rank, in a tenth of the memory they need",
                "Mtok/s",
                "at least 0.25 of the unbounded speed",
                lambda measured: measured.ratio >= 0.25,
            ),
            Goal("languages-budget", "the same, memory of all rows", "MB", "within the budget", _within),
        ),
    ),
    Group(
        limits.slow,
        (
            Goal("slow-first", "slow reads: open to first batch", "s", "at most 0.5 s", _within),
            Goal(
                "slow-stall", "slow reads: longest wait after the first buffers", "ms", "at most half a read", _within
            ),
        ),
    ),
)

# Not measured but computed, from the figure of a peer.
AGAINST = Goal(
    "against-datasets",
    "steady state as jax.Arrays, beside Hugging Face datasets (map)",
    "Mtok/s",
    "at least twice as fast",
    lambda measured: measured.ratio >= 2,
    "jax_mtok_s",
)
AGAINST_PEER = "hf-datasets"

NAMES = (*(goal.name for group in GROUPS for goal in group.goals), AGAINST.name)
