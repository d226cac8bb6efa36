"""Configurations of `Order` that several tests share, and its rows in the form of `reference.Row`."""

from typing import Any

import numpy as np
import reference
from hypothesis import settings
from hypothesis import strategies as st
from reference import Row

# Every run tries the same cases, and none against the clock: a first call compiles.
settings.register_profile("order", deadline=None, derandomize=True)
settings.load_profile("order")

ALL = 2**64  # draws, and the threshold that none reaches

SMALL = {
    "windows": {"en": 80, "ar": 40, "sw": 8},
    "weights": {"en": 0.6, "ar": 0.3, "sw": 0.1},
    "seed": 7,
    "batch": 8,
    "streams": 2,
    "sequences_per_read_block": 4,
    "read_blocks_per_shuffle_buffer": 2,
}


def small(**changes: Any) -> dict[str, Any]:
    """SMALL with some arguments changed: 80, 40 and 8 windows in blocks of 4, two blocks a buffer."""
    return {**SMALL, **changes}


def alone(name: str, windows: int, **changes: Any) -> dict[str, Any]:
    """SMALL with one language only, on one stream."""
    return {**small(windows={name: windows}, weights={name: 1}, streams=1), **changes}


def as_rows(rows: Any) -> list[Row]:
    """Either implementation's rows as a list of Row, in Python's integers."""
    if isinstance(rows, list):
        return rows
    columns = [getattr(rows, field) for field in Row._fields]
    assert all(column.dtype == np.int64 for column in columns)
    return [Row(*values) for values in zip(*(column.tolist() for column in columns), strict=True)]


def as_lists(counts: Any) -> list[list[int]]:
    return np.asarray(counts).tolist()


def unsplitmix64(value: int) -> int:
    """The x with splitmix64(x) = value."""
    z = value
    for shift, factor in ((31, 0x94D049BB133111EB), (27, 0xBF58476D1CE4E5B9), (30, 1)):
        for _ in range(3):  # each turn restores `shift` more of the upper bits
            z = value ^ (z >> shift)
        value = z = z * pow(factor, -1, ALL) % ALL
    return (value - reference.GOLDEN_GAMMA) % ALL


def at_draw(selector: str, z: int) -> tuple[int, int]:
    """A (seed, slot) whose draw is z."""
    seed, slot = divmod(unsplitmix64(z), 0x1_0000_0001) if selector == "hash" else (unsplitmix64(z), 0)
    assert reference.draw(selector, seed, slot) == z
    return seed, slot


seeds = st.one_of(
    st.integers(0, 2**64 - 1), st.sampled_from([0, 1, 7, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 2, 2**64 - 1])
)
weight_values = st.one_of(
    st.sampled_from([0, 0.0, 1, 3, 0.1, 0.3, 1e-9, 1e-17, 1e-300, 5e-324, 1e300]), st.floats(0, 1e3, width=64)
)


@st.composite
def mixtures(draw: st.DrawFn, names: list[str], streams: int) -> tuple[dict[str, float], list[Any]]:
    """Weights and up to two later phases; a language may be left out of either, or have weight 0 in all."""

    def one() -> dict[str, float]:
        weights = {name: draw(weight_values) for name in names if draw(st.integers(0, 3))}
        return weights if sum(weights.values()) > 0 else {**weights, draw(st.sampled_from(names)): 1.0}

    firsts = draw(st.lists(st.integers(1, 60), max_size=2, unique=True))
    return one(), [(first * streams, one()) for first in sorted(firsts)]


@st.composite
def timelines(draw: st.DrawFn, streams: int) -> list[tuple[int, int, int]]:
    """Up to four entries that change the batch, leave slots out or show them again."""
    batches = st.integers(1, 4).map(lambda rows: rows * streams)
    entries, step = [(0, 0, draw(batches))], 0
    for _ in range(draw(st.integers(0, 3))):
        step += draw(st.integers(1, 5))
        entries.append((step, draw(st.integers(0, 80)) * streams, draw(batches)))
    return entries


@st.composite
def configs(draw: st.DrawFn) -> dict[str, Any]:
    """Arguments of a whole Order, small enough for the reference."""
    streams = draw(st.integers(1, 5))
    names = draw(st.lists(st.text("abñ中-", min_size=1, max_size=4), min_size=1, max_size=6, unique=True))
    weights, phases = draw(mixtures(names, streams))
    blocks = {name: draw(st.integers(1, 7)) for name in names}
    spare = {name: draw(st.one_of(st.integers(0, 20), st.integers(0, 150))) for name in names}
    for name in names:  # all of one size, or of sizes of their own
        blocks[name] = draw(st.sampled_from([blocks[name], blocks[names[0]]]))
    block = draw(st.sampled_from([blocks, "auto", max(blocks.values())]))
    largest = block if isinstance(block, int) else 0
    buffer = draw(
        st.one_of(st.integers(1, 9), st.just("auto"), st.just({name: b % 3 + 1 for name, b in blocks.items()}))
    )
    return {
        "windows": {name: max(blocks[name], largest) * streams + spare[name] for name in names},
        "weights": weights,
        "phases": phases,
        "seed": draw(seeds),
        "timeline": draw(timelines(streams)),
        "streams": streams,
        "selector": draw(st.sampled_from(["hash", "balanced"])),
        "sequences_per_read_block": block,
        "read_blocks_per_shuffle_buffer": buffer,
        "window_tokens": draw(st.sampled_from([9, 2**14, 2**16, 2**18, 2**19])),
        "keys": {name: draw(seeds) for name in names if draw(st.integers(0, 4)) == 0},
    }
