"""Where a run stands, as a small JSON object, and whether a loader goes on from it with the same data.

Before a step everything follows from the step and the settings, so a state holds the step and what the past depended
on: that is compared, and what differs is named. With the `hash` selector it also holds the counts before the step, so
that nothing is counted again: their differences from what the weights let expect, seven bits a byte, compressed.
"""

import base64
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from flatmix.errors import StateError
from flatmix.order import VERSION, Order, Timeline
from flatmix.order.selector import Phase

STATE_VERSION = 1


class State(msgspec.Struct, forbid_unknown_fields=True):
    """The fields of a state, as JSON holds them. Lists by language are in the sequence of `languages`."""

    version: int
    order: int
    step: int
    slot: int
    seed: str
    selector: str
    streams: int
    timeline: list[tuple[int, int, int]]
    languages: list[str]
    digests: list[str]
    phases: list[tuple[int, list[float]]]
    window: dict[str, int | bool]
    sequences_per_read_block: list[int]
    read_blocks_per_shuffle_buffer: list[int]
    keys: dict[str, str]
    counts: str | None


@dataclass(frozen=True)
class Facts:
    """What the past of a run depends on beside its order: the data, its windows, and keys set by hand."""

    digests: Sequence[str]
    window: Mapping[str, int | bool]
    keys: Mapping[str, int]


def make_state(order: Order, step: int, facts: Facts) -> dict[str, Any]:
    """The state before `step`: plain JSON types, the caller's own."""
    slot = order.timeline.first_slot(step)
    state = State(
        step=int(step),
        slot=slot,
        timeline=list(order.timeline.until(step)),
        phases=_past_phases(order, _reached(order.timeline, step)),
        counts=_packed_counts(order, slot) if order.selector == "hash" else None,
        **_settings(order, facts),
    )
    return msgspec.json.decode(msgspec.json.encode(state))


def _settings(order: Order, facts: Facts) -> dict[str, Any]:
    """The fields that must be equal at every step of a run."""
    shuffles = [order.shuffles.get(index) for index in range(len(order.names))]
    return {
        "version": STATE_VERSION,
        "order": VERSION,
        "seed": str(order.seed),
        "selector": order.selector,
        "streams": order.streams,
        "languages": list(order.names),
        "digests": list(facts.digests),
        "window": dict(facts.window),
        "sequences_per_read_block": [shuffle.block_windows if shuffle else 0 for shuffle in shuffles],
        "read_blocks_per_shuffle_buffer": [shuffle.buffer_blocks if shuffle else 0 for shuffle in shuffles],
        "keys": {name: str(key) for name, key in facts.keys.items()},
    }


def parse_state(state: Mapping[str, Any]) -> State:
    """A state as it was saved. Raises StateError for what is no state of this version."""
    version = state.get("version") if isinstance(state, Mapping) else None
    if version != STATE_VERSION:
        raise StateError(f"a state of version {version!r} was given: this flatmix restores version {STATE_VERSION}")
    try:
        return msgspec.convert(state, State)
    except msgspec.ValidationError as error:
        raise StateError(f"the state is damaged: {error}") from None


def past_timeline(state: State, streams: int) -> Timeline:
    """The timeline of the state. Raises StateError for a damaged one, or another number of streams."""
    if streams != state.streams:
        raise StateError(f"this state belongs to another run: {_difference('streams', state.streams, streams)}")
    try:
        past = Timeline(state.timeline, streams)
        slot = past.first_slot(state.step)
    except ValueError as error:
        raise StateError(f"the state is damaged: {error}") from None
    if slot != state.slot or past.entries[-1][0] > state.step:
        raise StateError(
            f"the state is damaged: its timeline, {list(past.entries)}, does not end with step {state.step} at slot "
            f"{state.slot}"
        )
    return past


def resumed_timeline(state: State, past: Timeline, given: Timeline | None, batch: int) -> Timeline:
    """The past timeline, going on from the state's step in batches of `batch` rows.

    A timeline that the user has given goes on as it is, where the steps before that one take the same slots.
    """
    if given is None:
        return past if past.batch(state.step) == batch else past.with_batch(state.step, batch)
    if given.spans(state.step) != past.spans(state.step):
        raise StateError(
            f"the timeline before step {state.step} was {list(past.entries)}, and is {list(given.entries)} here: "
            f"leave the timeline out, or let it agree up to that step"
        )
    return given


def check_past(state: State, past: Timeline, order: Order, facts: Facts) -> None:
    """Raises StateError, naming every setting that differs with both values, where the past of `order` is another."""
    differing: list[str] = []
    for name, ours in _settings(order, facts).items():
        theirs = getattr(state, name)
        if isinstance(ours, dict):
            both = {key: (theirs.get(key), ours.get(key)) for key in theirs | ours}
        elif isinstance(ours, list) and name != "languages" and state.languages == list(order.names):
            if len(theirs) != len(ours):
                raise StateError(f"the state is damaged: {len(theirs)} {name} of {len(ours)} languages")
            both = {f"of {key!r}": pair for key, *pair in zip(order.names, theirs, ours, strict=True)}
        else:
            both = {"": (theirs, ours)}
        differing += [_difference(f"{name} {key}".strip(), a, b) for key, (a, b) in both.items() if a != b]
    phases = _past_phases(order, _reached(past, state.step))
    if state.languages == list(order.names) and _thresholds(state) != [
        (first, Phase.of(first, weights).thresholds) for first, weights in phases
    ]:
        differing.append(_difference("weights (first slot, by language)", state.phases, phases))
    if differing:
        raise StateError(
            f"this state, before step {state.step}, belongs to another run. It differs in " + "; ".join(differing)
        )


def _difference(name: str, theirs: object, ours: object) -> str:
    return f"{name}: {theirs!r} in the state, {ours!r} here"


def _thresholds(state: State) -> list[tuple[int, tuple[int, ...]]]:
    """What of the weights the draws depend on."""
    for first, weights in state.phases:
        if len(weights) != len(state.languages) or not any(weights) or not all(0 <= w < math.inf for w in weights):
            raise StateError(f"the state is damaged: weights {weights} from slot {first} on")
    return [(first, Phase.of(first, weights).thresholds) for first, weights in state.phases]


def _reached(timeline: Timeline, step: int) -> int:
    """The first slot that neither a step before `step` nor the counts before it depend on."""
    return max([timeline.first_slot(step), *(end for _, _, end in timeline.spans(step))])


def _past_phases(order: Order, reached: int) -> list[tuple[int, list[float]]]:
    """The phases that begin before a slot; the first always."""
    return [(phase.first_slot, list(phase.weights)) for phase in order.phases if phase.first_slot < max(1, reached)]


def restore_counts(state: State, order: Order) -> None:
    """Tells the order the counts of the state, so that it counts on from there. Raises StateError for damaged ones."""
    if (state.counts is None) != (order.selector == "balanced"):
        raise StateError(f"the state is damaged: counts are {state.counts!r} with the selector {order.selector!r}")
    if state.counts is None:
        return
    try:
        unpacker, most = zlib.decompressobj(), 9 * order.streams * len(order.names)  # a small text must not fill memory
        packed = np.frombuffer(unpacker.decompress(base64.b85decode(state.counts), most), np.uint8)
        if not unpacker.eof:
            raise ValueError(f"they do not end after {len(packed)} bytes")
        order.remember(state.slot, _expected(order, state.slot) + _signed_from_bytes(packed, order))
    except (ValueError, zlib.error) as error:
        raise StateError(f"the counts in the state are damaged: {error}") from None


def _packed_counts(order: Order, slot: int) -> str:
    return base64.b85encode(zlib.compress(_bytes_of_signed(order.counts(slot) - _expected(order, slot)), 9)).decode()


def _expected(order: Order, slot: int) -> NDArray[np.int64]:
    """The counts to expect before a slot, by the thresholds, in exact integers: int64[streams, languages]."""
    expected = [0] * len(order.names)
    ends = [phase.first_slot for phase in order.phases[1:]] + [slot]
    for phase, end in zip(order.phases, ends, strict=True):
        positions = max(0, min(slot, end) - phase.first_slot) // order.streams
        for language, (low, high) in enumerate(pairwise((0, *phase.thresholds))):
            expected[language] += positions * (high - low) >> 64
    return np.tile(np.array(expected, np.int64), (order.streams, 1))


def _bytes_of_signed(values: NDArray[np.int64]) -> bytes:
    """Each value v as 2v, or -2v - 1 below 0; seven bits a byte, low bits first; the top bit says "goes on"."""
    left = ((values << 1) ^ (values >> 63)).reshape(-1)
    columns = [left & 127]
    while (left := left >> 7).any():
        columns[-1] |= (left > 0).astype(np.int64) << 7
        columns.append(np.where(left > 0, left & 127, -1))
    table = np.stack(columns, axis=1).reshape(-1)
    return table[table >= 0].astype(np.uint8).tobytes()


def _signed_from_bytes(packed: NDArray[np.uint8], order: Order) -> NDArray[np.int64]:
    shape = (order.streams, len(order.names))
    ends = np.flatnonzero(packed < 128)
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1])
    lengths = ends - starts + 1
    if len(ends) != shape[0] * shape[1] or ends[-1] != len(packed) - 1 or lengths.max() > 9:
        raise ValueError(
            f"{len(ends)} counts where {shape[0]} streams of {shape[1]} languages need {shape[0] * shape[1]}"
        )
    place = np.arange(len(packed)) - np.repeat(starts, lengths)
    words = np.add.reduceat((packed & 127).astype(np.int64) << 7 * place, starts)
    return ((words >> 1) ^ -(words & 1)).reshape(shape)
