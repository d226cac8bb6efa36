"""What a benchmark finds: what was measured, the figures that come of it, and the report of a run."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Measured:
    """One measurement: of flatmix, of the floor in the same run, and what they are to each other.

    `flatmix` is None where it could not be measured, and `note` then says why. `ratio` is the one that the goal is
    about, where it is about one; `limit` the number that the goal comes to here.
    """

    flatmix: float | None
    floor: float | None = None
    ratio: float | None = None
    limit: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Series:
    """Milliseconds of single steps, float each; `filled` counts the shuffle buffers filled so far, at each of them."""

    flatmix: tuple[float, ...]
    floor: tuple[float, ...]
    filled: tuple[int, ...]


@dataclass(frozen=True)
class Figure:
    """A row of the table. `reached` is None where there is no goal, or no measurement; `peers` holds what other loaders
    gave for the same, by their names."""

    name: str
    title: str
    unit: str
    flatmix: float | None
    floor: float | None
    ratio: float | None
    goal: str
    reached: bool | None
    note: str = ""
    peers: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """A run: when, where, with what, by which command; its figures; and the steps of one round, to be drawn."""

    date: str
    command: str
    machine: Mapping[str, Any]
    versions: Mapping[str, str]
    settings: Mapping[str, Any]
    figures: tuple[Figure, ...]
    peers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    series: Series | None = None

    def as_json(self) -> dict[str, Any]:
        values = asdict(self)
        del values["series"]  # thousands of numbers, for the picture
        return values
