"""How eight devices of several processes are laid out in the tests of `hosts`, and which loaders are tried over them.

A layout names devices by number, those of process 0 first, so that it is the same for two processes and for four.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
import stores
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

DEVICES = 8
BATCH = 8

SETTINGS: dict[str, dict[str, Any]] = {
    "windows": {"streams": 4},
    "one token more": {"extra_tokens": 1},
    "documents": {"sequence_packing": False},
}

IN_LINE = tuple(range(DEVICES))
INTERLEAVED = (0, 4, 1, 5, 2, 6, 3, 7)  # laid out as (4, 2), the two devices of a row belong to different processes
SHUFFLED = (5, 2, 7, 0, 3, 6, 1, 4)


class Layout(NamedTuple):
    settings: str
    sizes: tuple[int, ...]
    devices: Sequence[int]
    spec: P


LAYOUTS = {
    "data": Layout("windows", (8,), IN_LINE, P("data")),
    "data, columns whole": Layout("windows", (4, 2), IN_LINE, P("data", None)),
    "data, each row on two processes": Layout("windows", (4, 2), INTERLEAVED, P("data")),
    "data and model, shuffled": Layout("windows", (4, 2), SHUFFLED, P(("data", "model"))),
    "model and data, shuffled": Layout("windows", (4, 2), SHUFFLED, P(("model", "data"))),
    "columns divided within a process": Layout("windows", (4, 2), IN_LINE, P("data", "model")),
    "columns divided over processes": Layout("windows", (4, 2), INTERLEAVED, P("data", "model")),
    "columns divided over all": Layout("windows", (2, 4), SHUFFLED, P(None, ("model", "data"))),
    "everything everywhere": Layout("windows", (4, 2), SHUFFLED, P()),
    "some processes without a device": Layout("windows", (2,), (1, 0), P("data")),
    "one token more, interleaved": Layout("one token more", (8,), INTERLEAVED, P("data")),
    "one token more, columns divided over processes": Layout("one token more", (4, 2), INTERLEAVED, P("data", "model")),
    "documents, the same rows on several processes": Layout("documents", (2, 4), IN_LINE, P("model")),
    "documents, columns divided over processes": Layout("documents", (4, 2), INTERLEAVED, P("data", "model")),
}


def loader(store: str, settings: str, sharding: Any = None, **more: Any) -> stores.ShufflingLoader:
    standard = {"batch": BATCH, "sequences_per_read_block": 2, "prefetch": 2}
    return stores.loader(store, sharding=sharding, **{**standard, **SETTINGS[settings], **more})


def sharding_of(layout: Layout) -> NamedSharding:
    devices = np.array(jax.devices())[list(layout.devices)].reshape(layout.sizes)
    return NamedSharding(Mesh(devices, ("data", "model")[: len(layout.sizes)]), layout.spec)


def devices_of(layout: Layout, number: int, count: int) -> list[int]:
    """The places in the layout of the devices of process `number` of `count`."""
    return [place for place, device in enumerate(layout.devices) if device // (DEVICES // count) == number]


def rows_of(layout: Layout, number: int, count: int) -> list[int]:
    """The rows that this process has a device for, counted by hand."""
    named = layout.spec[0] if layout.spec else None
    axes = [("data", "model").index(axis) for axis in ([named] if isinstance(named, str) else named or ())]
    sizes = [layout.sizes[axis] for axis in axes]
    height = BATCH // int(np.prod(sizes))
    rows: set[int] = set()
    for place in devices_of(layout, number, count):
        coordinates = np.unravel_index(place, layout.sizes)
        part = 0
        for axis, size in zip(axes, sizes, strict=True):
            part = part * size + int(coordinates[axis])
        rows |= set(range(part * height, (part + 1) * height))
    return sorted(rows)


def another(name: str) -> str:
    """Another layout with the same settings."""
    return next(other for other in LAYOUTS if other != name and LAYOUTS[other].settings == LAYOUTS[name].settings)
