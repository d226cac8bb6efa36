"""Segments and single steps against a clock that the steps move on."""

import pytest

from flatmix.bench import clock


@pytest.fixture
def step(monkeypatch: pytest.MonkeyPatch):
    """Takes 1, 2, 3, ... seconds, and half of that of a processor."""
    now, calls = [0.0], []
    monkeypatch.setattr(clock.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr(clock.time, "process_time", lambda: now[0] / 2)

    def step() -> None:
        calls.append(None)
        now[0] += len(calls)

    return step


def test_a_segment_leaves_the_first_steps_out(step):
    first = clock.UNCLOCKED + 1
    found = clock.segment(step, 3)

    assert found == clock.Segment(3, 3 * first + 3, (3 * first + 3) / 2)
    assert found.speed(10**6) == pytest.approx(3 / found.seconds)
    assert found.cost(2 * 10**6) == pytest.approx(found.cpu / 6)


def test_each_step_has_its_own_milliseconds(step):
    first = clock.UNCLOCKED + 1

    assert clock.each(step, 3).tolist() == [1000.0 * (first + number) for number in range(3)]


def test_the_ratio_is_that_of_the_rounds_and_not_of_the_medians():
    ours, floor = [1.0, 20.0, 9.0], [1.0, 10.0, 3.0]

    assert clock.ratio(ours, floor) == 2.0
    assert clock.middle(ours) / clock.middle(floor) == 3.0
