"""What the loader refuses when it is built, beyond single bad values; and settings that do not change afterwards."""

from dataclasses import dataclass

import numpy as np
import pytest
from stores import WEIGHTS, assert_same, loader, over_devices, params
from typeguard import suppress_type_checks

from flatmix import MixtureParams, ShufflingLoader, StateError, TokenBatchParams
from flatmix.loader.batch import Layout
from flatmix.loader.host import RowFormat


@dataclass(frozen=True)
class Device:
    process_index: int


AGAIN = [(0, 0, 8), (10, 0, 8)]


def test_a_phase_that_would_change_an_earlier_step_is_refused(standard: str):
    """Where the timeline shows slots again, the slots of a later phase may have been shown already."""
    with pytest.raises(
        ValueError, match=r"the phase of step 12 begins at slot 16, and earlier steps take slots up to 79"
    ):
        loader(standard, phases=[(12, {"sw": 1})], timeline=AGAIN)
    own = loader(standard, phases=[(20, {"sw": 1})], timeline=AGAIN)
    assert own.load_host(19).language.tolist() != [2] * 8 == own.load_host(20).language.tolist()
    assert_same(own.load_host(3), loader(standard).load_host(3))


def test_a_restored_run_may_not_change_what_it_has_shown(standard: str):
    own = loader(standard, phases=[(12, {"sw": 1})])
    later = loader(standard, phases=[(12, {"sw": 1})], timeline=[(0, 0, 8), (30, 240, 8)])
    assert later.restore(own.state(11)) == 11
    with pytest.raises(ValueError, match="the phase of step 12"):
        loader(standard, phases=[(12, {"sw": 1})], timeline=[(0, 0, 8), (11, 0, 8)])


def test_settings_are_those_of_the_time_they_were_given(standard: str):
    weights, phases = dict(WEIGHTS), [(5, {"sw": 1.0})]
    mixture = MixtureParams(weights, phases=phases)
    own = ShufflingLoader("train", params(standard), mixture, TokenBatchParams(8, 8))
    state = own.state(3)
    phases[0][1]["en"] = 9.0
    phases.clear()
    weights.clear()
    assert mixture.phases == ((5, {"sw": 1.0}),)
    assert own.restore(state) == 3
    assert own.load_host(5).language.tolist() == [2] * 8


def test_numpy_integers_become_pythons(standard: str):
    """They would overflow in sums of bytes and slots."""
    with suppress_type_checks():
        given = params(standard, streams=np.int8(2), seed=np.uint64(7), memory_budget=np.int32(10), threads=np.int16(1))
        assert [type(value) for value in (given.streams, given.seed, given.memory_budget, given.threads)] == [int] * 4
        own = ShufflingLoader("train", given, MixtureParams({"en": 1}), TokenBatchParams(np.int8(8), np.int8(8)))
    assert own.load_host(100).targets.shape == (8, 8)


@pytest.mark.parametrize(
    ("phases", "message"),
    [
        ([{"en": 1}], r"phase 0 is \{'en': 1\}: it must be \(step, weights\)"),
        ([(5, {"en": 1}, 3)], "phase 0 is .*it must be"),
        ("abc", "phases are 'abc': a list"),
        (5, "phases are 5: a list"),
        ([(5, None)], "the weights from step 5 on are None: a mapping"),
        ([(5, {})], "the weights from step 5 on are {}"),
        ([("5", {"en": 1})], "the step of phase 0 is '5': a whole number"),
        ([(0, {"en": 1})], "the step of phase 0 is 0: it must be at least 1"),
        ([(5, {"en": 1}), (5, {"ar": 1})], "phase 1 begins at step 5, and the one before it at 5"),
    ],
)
def test_phases_that_are_none_are_refused_by_number(phases, message: str):
    with suppress_type_checks(), pytest.raises(ValueError, match=message):
        MixtureParams(WEIGHTS, phases=phases)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"timeline": [0, 0, 8]}, r"timeline entry 0 is 0: a list of \(first step, first slot, batch\)"),
        ({"timeline": 5}, "the timeline is 5: a list"),
        ({"timeline": [(0, 0, 8), (5, 2**63, 8)]}, r"timeline entry 1 is .*slots up to 2\^62"),
        ({"seed": 2**64}, "seed is 18446744073709551616: it must be below"),
        ({"streams": "auto"}, "streams is 'auto': a whole number"),
        ({"threads": "auto"}, "threads is 'auto': a whole number"),
    ],
)
def test_other_shapes_of_settings_are_refused_in_words(standard: str, changes, message: str):
    with suppress_type_checks(), pytest.raises(ValueError, match=message):
        loader(standard, **changes)


@pytest.mark.parametrize("path", [None, b"store", "", "a\0b"])
def test_a_path_that_is_none_is_refused(path):
    with suppress_type_checks(), pytest.raises(ValueError, match=r"filespec is .*text or a path is needed"):
        params("x").__class__(path, streams=1, seed=0)


def test_a_timeline_in_other_words_is_the_same(standard: str):
    """An entry that changes nothing makes no difference to a state."""
    state = loader(standard).state(8)
    assert loader(standard, timeline=[(0, 0, 8), (5, 40, 8)]).restore(state) == 8
    with pytest.raises(ValueError, match="the timeline before step 8 was"):
        loader(standard, timeline=[(0, 0, 8), (5, 48, 8)]).restore(state)


def test_an_interrupted_iterator_says_so_afterwards(standard: str, monkeypatch: pytest.MonkeyPatch):
    steps = loader(standard).steps()
    next(steps)
    with monkeypatch.context() as patch:
        patch.setattr(steps, "_finish", lambda prepared: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            next(steps)
    with pytest.raises(ValueError, match="this iterator was interrupted: start a new one"):
        next(steps)


def test_more_processes_than_streams_are_told_so_once(
    standard: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    monkeypatch.setattr(Layout, "processes", lambda layout, batch: 4)
    loader(standard, {"en": 1}, streams=4, sharding=over_devices(8))
    assert not caplog.records
    loader(standard, {"en": 1}, streams=2, sharding=over_devices(8))
    assert [record.getMessage() for record in caplog.records] == [
        "4 processes have rows of their own, and there are 2 streams: some read the same blocks. Streams are part of "
        "the order, so take 4 for the next run"
    ]


def test_processes_that_hold_the_same_rows_count_once(standard: str):
    layout = Layout(over_devices(8), RowFormat(8))

    class Elsewhere:
        """A sharding over devices of four processes, two of which hold the rows of the other two."""

        @staticmethod
        def devices_indices_map(shape):
            halves = [(slice(0, 4),), (slice(4, 8),)]
            return {Device(number): halves[number % 2] for number in range(4)}

    assert layout.processes(8) == 1
    layout.row_sharding = Elsewhere
    assert layout.processes(8) == 2


def test_a_state_that_does_not_go_with_later_phases_is_refused_as_a_state(standard: str):
    state = loader(standard, timeline=[(0, 0, 8), (10, 0, 8)]).state(11)
    with pytest.raises(StateError, match="before step 11, does not go with the phases here: the phase of step 12"):
        loader(standard, phases=[(12, {"sw": 1})]).restore(state)
