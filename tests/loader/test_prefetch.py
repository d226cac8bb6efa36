"""Batches made ahead: their sequence, how far ahead, errors at their own step, and the end."""

import threading
import time
from collections.abc import Callable
from typing import Any

import pytest
from fakes import Read, watch
from stores import assert_same, host_batches, loader

from flatmix.loader import prefetch
from flatmix.loader.prefetch import Prefetcher


def prefetcher(
    prepare: Callable[[int], Any], start: int = 0, stop: int | None = None, depth: int = 2, finish: Any = str
) -> Prefetcher:
    return Prefetcher(prepare, finish, start, stop, depth, lambda seconds: None)


def background_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("flatmix-prefetch")]


def wait_until(true: Callable[[], bool]) -> None:
    """Fails by the time limit of the test where it never becomes true."""
    while not true():
        time.sleep(0.001)


@pytest.mark.parametrize("depth", [0, 1, 4, 100])
def test_steps_come_in_their_sequence_and_end(depth: int):
    steps = prefetcher(lambda step: 10 * step, 3, 9, depth)
    assert list(steps) == ["30", "40", "50", "60", "70", "80"]
    assert list(steps) == []
    assert list(prefetcher(lambda step: step, 5, 5, depth)) == []
    assert list(prefetcher(lambda step: step, 5, 2, depth)) == []


@pytest.mark.timeout(30)
@pytest.mark.parametrize("depth", [1, 3])
def test_so_many_steps_are_made_ahead_and_no_more(depth: int):
    made: list[int] = []
    steps = prefetcher(made.append, depth=depth)
    for taken in range(4):
        wait_until(lambda taken=taken: len(made) == taken + depth)
        time.sleep(0.01)  # time for one too many
        assert made == list(range(taken + depth))
        next(steps)
    steps.close(ValueError("closed"))


def test_without_prefetch_a_step_is_made_when_it_is_asked_for():
    made: list[int] = []
    before = set(background_threads())
    steps = prefetcher(made.append, depth=0)
    assert made == []
    next(steps)
    assert made == [0]
    assert not set(background_threads()) - before


@pytest.mark.parametrize("depth", [0, 1, 2, 4])
def test_an_error_comes_at_its_own_step_and_again_at_every_later_call(depth: int):
    def prepare(step: int) -> int:
        if step == 3:
            raise OSError("disk")
        return step

    steps = prefetcher(prepare, depth=depth)
    assert [next(steps) for _ in range(3)] == ["0", "1", "2"]
    for _ in range(3):
        with pytest.raises(OSError, match="disk"):
            next(steps)


@pytest.mark.parametrize("depth", [0, 2])
def test_an_error_on_the_way_to_the_devices_is_raised_again_too(depth: int):
    def finish(step: int) -> int:
        return 1 // (2 - step)

    steps = prefetcher(int, depth=depth, finish=finish)
    assert [next(steps), next(steps)] == [0, 1]
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            next(steps)


def test_batches_are_finished_where_they_are_used():
    threads: list[int] = []

    def noted(step: int) -> int:
        threads.append(threading.get_ident())
        return step

    prepared = prefetcher(noted, 0, 3, 2)
    assert list(prepared) == ["0", "1", "2"]
    assert threading.get_ident() not in threads
    threads.clear()
    assert list(prefetcher(int, 0, 3, 2, finish=noted)) == [0, 1, 2]
    assert set(threads) == {threading.get_ident()}


@pytest.mark.timeout(30)
def test_close_ends_the_thread_and_gives_later_calls_its_error():
    before = set(background_threads())
    steps = prefetcher(int)
    next(steps)
    assert set(background_threads()) - before
    steps.close(ValueError("closed"))
    steps.close(ValueError("closed again"))
    for _ in range(2):
        with pytest.raises(ValueError, match=r"^closed$"):
            next(steps)
    wait_until(lambda: not set(background_threads()) - before)


@pytest.mark.timeout(30)
def test_an_iterator_that_is_dropped_leaves_no_thread():
    before = set(background_threads())
    steps = prefetcher(int)
    next(steps)
    del steps
    wait_until(lambda: not set(background_threads()) - before)


@pytest.mark.timeout(30)
def test_close_waits_for_no_step_in_work():
    release = threading.Event()
    in_time: list[bool] = []
    steps = prefetcher(lambda step: in_time.append(release.wait(10)))
    steps.close(ValueError("closed"))
    release.set()
    wait_until(lambda: bool(in_time))
    assert in_time == [True]


@pytest.mark.timeout(30)
def test_who_waits_for_a_step_when_it_is_closed_gets_the_step_or_the_error():
    started, release = threading.Event(), threading.Event()

    def prepare(step: int) -> int:
        started.set()
        release.wait(10)
        return step

    steps = prefetcher(prepare)
    got: list[object] = []

    def use() -> None:
        try:
            got.append(next(steps))
        except BaseException as error:
            got.append(str(error))

    user = threading.Thread(target=use)
    user.start()
    started.wait()
    steps.close(ValueError("closed"))
    release.set()
    user.join()
    assert got in (["0"], ["closed"])
    with pytest.raises(ValueError, match="closed"):
        next(steps)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("prefetch", [0, 2])
@pytest.mark.parametrize("when", ["on_read", "on_result"])
def test_a_failed_block_read_reaches_the_caller_at_its_step(
    standard: str, monkeypatch: pytest.MonkeyPatch, prefetch: int, when: str
):
    expected = host_batches(loader(standard), 0, 40)
    blocks: list[Read] = []

    def fail_at_the_fifth(read: Read) -> None:
        if read.tokens > 8:
            blocks.append(read)
            if len(blocks) == 5:
                raise ValueError("disk")

    watch(monkeypatch, **{when: fail_at_the_fifth})
    with loader(standard, prefetch=prefetch) as own:
        steps, given = own.steps(), 0
        with pytest.raises(ValueError, match="disk"):  # noqa: PT012  the batches before it are right
            for batch in steps:
                assert_same(expected[given], batch)
                given += 1
        assert 0 < given < 40
        for _ in range(2):
            with pytest.raises(ValueError, match="disk"):
                next(steps)
        for step, batch in enumerate(own.steps(given, given + 5), given):
            assert_same(expected[step], batch)


@pytest.mark.timeout(60)
@pytest.mark.parametrize("prefetch", [1, 2])
def test_a_loader_closes_while_a_read_hangs(standard: str, monkeypatch: pytest.MonkeyPatch, prefetch: int):
    before = set(background_threads())
    hanging, release, too_late = threading.Event(), threading.Event(), threading.Event()

    def hang(read: Read) -> None:
        hanging.set()
        if not too_late.is_set() and not release.wait(10):
            too_late.set()

    watch(monkeypatch, on_result=hang)
    own = loader(standard, prefetch=prefetch)
    own.steps(4)
    hanging.wait()
    own.close()
    assert not too_late.is_set()
    release.set()
    wait_until(lambda: not set(background_threads()) - before)


def test_an_iterator_of_a_closed_loader_says_so(standard: str):
    """To end without a word would look like the end of the data."""
    own = loader(standard, prefetch=2)
    steps = own.steps()
    next(steps)
    own.close()
    with pytest.raises(ValueError, match="closed"):
        next(steps)


def test_restore_does_not_change_an_iterator_that_has_begun(standard: str):
    expected = host_batches(loader(standard), 0, 12)
    with loader(standard, prefetch=2) as own:
        steps = own.steps(0, 12)
        for step in range(12):
            if step == 4:
                own.restore(loader(standard, batch=16).state(3))
            assert_same(expected[step], next(steps))


def test_two_iterators_and_single_loads_do_not_disturb_each_other(standard: str):
    expected = host_batches(loader(standard), 0, 40)
    with loader(standard, prefetch=2) as own:
        for step, (one, other) in enumerate(zip(own.steps(0, 10), own.steps(30, 40), strict=True)):
            assert_same(expected[step], one)
            assert_same(expected[30 + step], other)
            assert_same(expected[20], own.load(20))


def test_a_loop_that_waits_for_its_data_is_told_once_in_words(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """The clock is the test's: a step takes 1 s and waits for a share of it; the first batch may take its time."""
    for share, told in ((0.04, 0), (0.2, 1)):
        caplog.clear()
        watch, now = prefetch._Watch(), [100.0]
        monkeypatch.setattr(prefetch.time, "monotonic", lambda now=now: now[0])
        watch.add(30.0)
        for _ in range(100):
            now[0] += 1
            watch.add(share)
        messages = [record.getMessage() for record in caplog.records]
        assert len(messages) == told
        assert all("waited for data 20 % of its time (4.2 of 21.0 s): raise `prefetch`" in text for text in messages)
