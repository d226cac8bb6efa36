"""Shuffle buffers as a cache: what is read, how often, into how much memory, and what a failure leaves behind."""

import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from fakes import Disk, Read, after_asking, watch
from jax.sharding import NamedSharding, PartitionSpec
from stores import (
    EN_ALONE,
    STD,
    assert_same,
    chunk_file,
    expected_batch,
    host_batches,
    loader,
    num,
    over_devices,
    write_store,
)

from flatmix import ReadError, ShufflingLoader

NEVER = 10**9
LONG = {"en": num(65_536, 0)}  # 16 blocks of 64 windows of 64 tokens, or 17 of 60


def blocks_read(disk: Disk, window: int = 8) -> list[tuple[str, int, int]]:
    return disk.spans(at_least=window + 1)


def run(own: ShufflingLoader, start: int, stop: int) -> list[int]:
    """Loads the steps, and returns how many rows of each were read alone."""
    alone = list[int]()
    for step in range(start, stop):
        before = own.metrics()["rows_read_alone"]
        own.load_host(step)
        alone.append(own.metrics()["rows_read_alone"] - before)
    return alone


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    """A disk whose reads are done when somebody asks."""
    return watch(monkeypatch, arrived=after_asking([0]))


@pytest.fixture(scope="module")
def long(tmp_path_factory: pytest.TempPathFactory) -> str:
    return write_store(tmp_path_factory.mktemp("long") / "s.zarr", LONG, chunk=4096)


def long_loader(store: str, **changes: Any) -> ShufflingLoader:
    standard = {"len": 64, "sequences_per_read_block": 64, "read_blocks_per_shuffle_buffer": 4}
    return loader(store, EN_ALONE, **{**standard, **changes})


def test_the_first_batch_waits_for_no_block(standard: str, disk: Disk):
    own = loader(standard)
    own.load_host(0)
    assert not any(read.waited_for for read in disk.reads if read.tokens > 8)
    assert own.metrics()["rows_read_alone"] == 8
    own.load_host(1)
    assert blocks_read(disk)


def test_rows_are_read_alone_until_the_first_blocks_are_there_and_never_again(long: str, disk: Disk):
    """Over all buffers of two epochs: none of them is waited for, as each is read while the one before it is used."""
    own = long_loader(long)
    alone = run(own, 0, 260)
    assert alone[0] == 8
    assert set(alone[6:]) == {0}
    assert sum(alone) == len(disk.spans(below=65))


def test_blocks_that_take_a_few_steps_are_begun_so_much_before_they_are_needed(
    long: str, monkeypatch: pytest.MonkeyPatch
):
    """A block is looked for once at each step, and has come at the third: nobody waits, and no row is read alone."""
    disk = watch(monkeypatch, arrived=after_asking([2]))
    own = long_loader(long)
    run(own, 0, 32)  # the first buffer
    begun = len(disk.reads)
    assert set(run(own, 32, 250)) == {0}
    blocks = [read for read in disk.reads[begun:] if read.waited_for]
    assert len(blocks) > 20
    assert all(read.in_time for read in blocks)


def test_a_row_whose_block_is_on_its_way_waits_for_it(long: str, monkeypatch: pytest.MonkeyPatch):
    """That is sooner than to read it alone behind the block; so no row is read twice."""
    disk = watch(monkeypatch, arrived=after_asking([NEVER]))
    own = long_loader(long)
    for step in range(100):
        first = own.order.rows(step).window * 64
        np.testing.assert_array_equal(own.load_host(step).targets, first[:, None] + np.arange(64))
    assert any(read.waited_for and not read.in_time for read in disk.reads if read.tokens > 64)
    assert set(Counter(disk.spans()).values()) == {1}


@pytest.mark.parametrize(("window", "at_most"), [(64, 16), (60, 18)])
def test_each_block_of_an_epoch_is_read_once(long: str, disk: Disk, window: int, at_most: int):
    """16 blocks of 64 windows: once each, and not once for each row. The next epoch's may have been begun."""
    own = long_loader(long, len=window)
    epoch = own.order.shuffles[0].windows_per_epoch
    run(own, 0, epoch // 8)
    blocks = Counter(blocks_read(disk, window))
    order = own.order.shuffles[0]
    mine = {("en", window * int(first), window * int(first + 64)) for first in order.block_order(0) * 64}
    assert mine <= set(blocks)
    assert {blocks[block] for block in mine} <= {1, 2}  # twice where the next epoch begins with it
    assert sum(blocks.values()) <= len(mine) + 4
    assert len(mine) == epoch // 64 <= at_most
    run(own, epoch // 8, 10 * epoch // 8)
    assert sum(Counter(blocks_read(disk, window)).values()) <= 11 * len(mine)


@pytest.mark.parametrize("sizes", [(8,), (2, 4), (4, 2)])
def test_blocks_are_read_once_for_eight_devices_too(tmp_path: Path, disk: Disk, sizes: tuple[int, ...]):
    store = write_store(tmp_path / "s.zarr", {"en": num(8192, 0)}, chunk=4096)
    names = ("data", "model")[: len(sizes)]
    sharding = NamedSharding(jax.make_mesh(sizes, names), PartitionSpec("data"))
    reads: list[list[tuple[str, int, int]]] = []
    for devices in (None, sharding):
        disk.reads.clear()
        own = loader(store, EN_ALONE, len=64, sequences_per_read_block=16, sharding=devices)
        for step in range(16):
            own.load(step)
        reads.append(disk.spans())
    assert reads[0] == reads[1]
    assert len(set(blocks_read(disk, 64))) == 8


def with_times_read(store: str, times: int, **changes: Any) -> ShufflingLoader:
    """A loader whose budget has its buffers go through so many sections."""
    with long_loader(store, **changes) as whole:
        most = whole.memory()["buffers"]
    for part in range(100, 0, -1):
        own = long_loader(store, memory_budget=most * part // 100, **changes)
        if own.memory()["languages"]["en"]["times_read"] == times:
            return own
    raise AssertionError(f"no budget has blocks read {times} times")


@pytest.mark.parametrize("times", [2, 3])
def test_with_half_or_a_third_of_the_memory_blocks_are_read_twice_or_three_times(long: str, disk: Disk, times: int):
    changes = {"read_blocks_per_shuffle_buffer": 16, "len": 64}
    own = with_times_read(long, times, **changes)
    language = own.memory()["languages"]["en"]
    assert language["held"] == 4 * 64 * -(-1024 // times)
    assert language["whole"] == 4 * 64 * 1024
    assert language["read_alone"] == 0
    alone = run(own, 0, 3 * 128)
    assert set(alone[16:]) == {0}  # there is room for few blocks on their way
    assert 3 * times * 16 <= len(blocks_read(disk, 64)) <= (3 * times + 1) * 16


def test_a_look_at_a_far_step_reads_rows_alone_and_keeps_the_buffers(standard: str, disk: Disk):
    own = loader(standard, EN_ALONE, read_blocks_per_shuffle_buffer=20)
    run(own, 0, 5)
    blocks, fill = len(blocks_read(disk)), own.metrics()["buffer_fill"]
    assert run(own, 1000, 1001) == [8]
    assert own.metrics()["buffer_fill"] == fill
    assert set(run(own, 5, 9)) == {0}
    assert len(blocks_read(disk)) - blocks <= 20  # of the next epoch; none twice
    assert max(Counter(blocks_read(disk)[:20]).values()) == 1


def test_looks_here_and_there_never_move_the_buffers(standard: str, disk: Disk):
    own = loader(standard, EN_ALONE, read_blocks_per_shuffle_buffer=20)
    run(own, 0, 5)
    for step, look in zip(range(5, 9), (5000, 900, 70_000, 2000), strict=True):
        assert run(own, look, look + 1) == [8]
        assert run(own, step, step + 1) == [0]


def test_the_second_step_that_follows_a_look_moves_the_buffers(standard: str, disk: Disk):
    own = loader(standard, EN_ALONE, read_blocks_per_shuffle_buffer=20)
    run(own, 0, 5)
    assert run(own, 1000, 1002) == [8, 8]
    assert set(run(own, 1002, 1010)[4:]) == {0}
    assert run(own, 5, 6) == [8]  # they are there now, and stay
    assert set(run(own, 1010, 1030)) == {0}


def test_a_small_jump_keeps_the_blocks_that_are_still_needed(long: str, disk: Disk):
    own = long_loader(long, read_blocks_per_shuffle_buffer=16)
    run(own, 0, 20)
    for step in (25, 40, 47, 60):
        run(own, step, step + 5)
    blocks = Counter(blocks_read(disk, 64))
    assert len(blocks) == 16
    assert set(blocks.values()) == {1}


def test_a_step_that_is_repeated_is_served_from_the_buffers(long: str, disk: Disk):
    own = long_loader(long)
    run(own, 0, 20)
    expected = own.load_host(20)
    before = own.metrics()["rows_read_alone"]
    for rows in (None, [3, 1], None, []):
        found = own.load_host(20, rows)
        np.testing.assert_array_equal(found.targets, expected.targets[slice(None) if rows is None else rows])
    assert own.metrics()["rows_read_alone"] == before
    assert set(run(own, 21, 30)) == {0}


def test_of_two_iterators_one_has_the_buffers_and_both_are_right(standard: str, disk: Disk):
    own = loader(standard, prefetch=0)
    one, other = own.steps(0), own.steps(500)
    for step in range(25):
        assert_same(expected_batch(own, STD, step), next(one))
        assert_same(expected_batch(own, STD, 500 + step), next(other))
    assert 200 <= own.metrics()["rows_read_alone"] <= 200 + 8 * 6


def test_a_resumed_run_reads_only_blocks_that_are_still_needed(long: str, disk: Disk):
    """Here three steps before the end of an epoch that is one shuffle buffer."""
    own = long_loader(long, read_blocks_per_shuffle_buffer=100, len=60)  # the blocks of each epoch are others
    stop = own.order.shuffles[0].windows_per_epoch // 8
    assert own.restore(own.state(stop - 3)) == stop - 3
    run(own, stop - 3, stop)
    first = {60 * int(block) * 64 for block in own.order.shuffles[0].block_order(0)}
    needed = {60 * (int(window) // 64 * 64) for step in range(stop - 3, stop) for window in own.order.rows(step).window}
    read = {start for _, start, _ in blocks_read(disk, 60)}
    assert read & first
    assert read & first <= needed < first


@pytest.mark.parametrize("part", [0, 0.001, 0.1, 0.5, 0.9, 1, 2])
@pytest.mark.parametrize("streams", [1, 2])
def test_blocks_are_read_into_no_more_memory_than_the_budget(standard: str, disk: Disk, part: float, streams: int):
    weights = {"en": 0.7, "ar": 0.3}
    with loader(standard, weights, streams=streams) as whole:
        budget = int(part * whole.memory()["buffers"])
    own = loader(standard, weights, streams=streams, memory_budget=budget)
    for step in range(60):
        assert_same(expected_batch(own, STD, step), own.load_host(step))
    memory = own.memory()
    assert memory["budget"] == budget
    held = sum(language["held"] for language in memory["languages"].values())
    assert held + memory_of_blocks(disk) <= memory["buffers"] <= budget
    assert bool(blocks_read(disk)) is bool(held)
    assert bool(held) is (part >= 0.5) or part == 0.1


def memory_of_blocks(disk: Disk) -> int:
    """Bytes of all memory that blocks were ever read into: it is used again, so that it stays small."""
    addresses: set[int] = set()
    for read in disk.reads:
        if read.tokens > 8:
            first, last = read.memory
            addresses.update(range(first, last, 4))
    return 4 * len(addresses)


def test_a_language_takes_its_turn_by_its_greatest_weight_of_any_phase(standard: str, disk: Disk):
    weights, later = {"en": 0.6, "ar": 0.4}, {"en": 0.1, "ar": 0.9}
    own = loader(standard, weights, phases=[(20, later)])
    need = own.memory()["buffers"]
    for part in range(99, 0, -1):
        own = loader(standard, weights, phases=[(20, later)], memory_budget=need * part // 100)
        held = {name: language["held"] for name, language in own.memory()["languages"].items()}
        assert held["ar"] >= held["en"]
        if held["ar"] > held["en"] == 0:
            break
    else:
        raise AssertionError("no budget has one of the languages held alone")
    run(own, 0, 10)
    assert {language for language, _, _ in blocks_read(disk)} == {"ar"}


def test_overlapping_windows_are_held_one_by_one(standard: str, disk: Disk):
    own = loader(standard, EN_ALONE, stride=4)
    for step in range(60):
        assert_same(expected_batch(own, STD, step), own.load_host(step))
    assert own.metrics()["buffers_filled"] > 10
    assert own.memory()["languages"]["en"]["whole"] == 8 * 4 * 8


def test_closing_gives_the_memory_back(standard: str):
    own = loader(standard)
    run(own, 0, 6)
    assert own.metrics()["buffer_fill"] > 0
    own.close()
    assert own.metrics()["buffer_fill"] == 0


class ClosedAtItsEnd:
    """A lock; just before it is given back, another thread closes what it guards."""

    def __init__(self, close: Any):
        self._lock, self._close = threading.Lock(), close

    def acquire(self, blocking: bool = True) -> bool:
        return self._lock.acquire(blocking)

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        closing = threading.Thread(target=self._close)
        closing.start()
        closing.join()
        self._lock.release()


def test_closing_gives_the_memory_back_while_a_batch_is_just_being_finished(standard: str):
    own = loader(standard)
    run(own, 0, 6)
    own._buffers._lock = ClosedAtItsEnd(own._buffers.close)
    own._buffers.fetch(own.order, 6, None, np.empty((8, 8), np.uint32))
    assert own.metrics()["buffer_fill"] == 0


def test_who_waits_for_a_loader_that_is_closed_meanwhile_is_told_so(standard: str, monkeypatch: pytest.MonkeyPatch):
    """Two threads load, the first hangs in a read, the second behind it; closing waits for neither."""
    hangs, goes_on = threading.Event(), threading.Event()

    def hang(read: Read) -> None:
        hangs.set()
        assert goes_on.wait(20)

    disk = watch(monkeypatch)
    own, given = loader(standard), list[Any]()
    run(own, 0, 4)
    disk.on_result = hang

    def load(step: int) -> None:
        try:
            given.append((step, own.load_host(step)))
        except ValueError as error:
            given.append(str(error))

    threads = [threading.Thread(target=load, args=(step,)) for step in (700, 5)]
    for thread in threads:
        thread.start()
        assert hangs.wait(20)
    deadline = time.monotonic() + 20
    while not own._buffers._lock.locked() and time.monotonic() < deadline:
        time.sleep(0.001)
    own.close()
    assert threads[0].is_alive()
    goes_on.set()
    for thread in threads:
        thread.join(20)
    assert own.metrics()["buffer_fill"] == 0
    for result in given:
        if isinstance(result, tuple):
            assert_same(expected_batch(own, STD, result[0]), result[1])
        else:
            assert "this loader is closed" in result
    assert len(given) == 2


def step_of(own: ShufflingLoader, block: tuple[str, int, int], first: int) -> int:
    """The first step from `first` on that has a row of a block."""
    for step in range(first, first + 200):
        order = own.order.rows(step)
        for language, window in zip(order.language.tolist(), order.window.tolist(), strict=True):
            if own.languages[language] == block[0] and block[1] <= 8 * window < block[2]:
                return step
    raise AssertionError("no row of it")


@pytest.mark.parametrize("when", ["on_read", "on_result"])
@pytest.mark.parametrize("number", [0, 4, 11])
@pytest.mark.parametrize("delays", [[0], [3], [NEVER]])
def test_the_error_of_a_block_comes_at_the_step_of_its_first_row(
    standard: str, monkeypatch: pytest.MonkeyPatch, when: str, number: int, delays: list[int]
):
    """The batches before it are right, and so is the same step when it is asked for again."""
    failed: list[tuple[int, Read]] = []  # with the step that was being loaded
    blocks = [0]

    def fail(read: Read) -> None:
        if read.tokens > 8 and read.stop - read.start == 32:
            blocks[0] += 1
            if blocks[0] == number + 1:
                failed.append((step, read))
                raise OSError("disk")

    watch(monkeypatch, arrived=after_asking(delays), **{when: fail})
    own, raised = loader(standard, read_blocks_per_shuffle_buffer=10), list[int]()
    for step in range(60):
        try:
            batch = own.load_host(step)
        except OSError:
            raised.append(step)
            batch = own.load_host(step)
        assert_same(expected_batch(own, STD, step), batch)
    ((at, read),) = failed
    block = read.language, read.start, read.stop
    (step,) = raised
    assert step in (step_of(own, block, at), step_of(own, block, at + 1))  # rows of step `at` may have been there


@pytest.mark.parametrize("devices", [1, 8])
def test_an_iterator_raises_the_error_of_a_block_at_its_step_and_again(
    standard: str, monkeypatch: pytest.MonkeyPatch, devices: int
):
    """With batches made ahead; the fifth block fails."""
    blocks = [0]

    def fail(read: Read) -> None:
        blocks[0] += read.tokens > 8
        if read.tokens > 8 and blocks[0] == 5:
            raise ValueError("disk")

    watch(monkeypatch, on_result=fail)
    with loader(standard, prefetch=2, sharding=over_devices(devices)) as own:
        steps, given = own.steps(), 0
        with pytest.raises(ValueError, match=r"^disk$"):  # noqa: PT012  the batches before it are right
            for batch in steps:
                assert_same(expected_batch(own, STD, given), batch)
                given += 1
        for _ in range(3):
            with pytest.raises(ValueError, match=r"^disk$"):
                next(steps)
        for step, batch in enumerate(own.steps(given, given + 20), given):
            assert_same(expected_batch(own, STD, step), batch)


def test_closing_waits_for_no_read_that_hangs(standard: str, monkeypatch: pytest.MonkeyPatch):
    hangs, goes_on = threading.Event(), threading.Event()

    def hang(read: Read) -> None:
        if read.tokens > 8:
            hangs.set()
            assert goes_on.wait(20)

    watch(monkeypatch, on_result=hang)
    own = loader(standard, prefetch=2)
    steps = own.steps()
    try:
        assert hangs.wait(20)
        own.close()  # returns, though `goes_on` is not set
        assert not goes_on.is_set()
        with pytest.raises(ValueError, match="this loader is closed"):
            for _ in steps:
                pass
    finally:
        goes_on.set()
    deadline = time.monotonic() + 20
    while own.metrics()["buffer_fill"] and time.monotonic() < deadline:
        time.sleep(0.01)
    assert own.metrics()["buffer_fill"] == 0


@pytest.mark.parametrize("when", ["on_read", "on_result"])
def test_after_a_failed_read_the_same_batch_can_be_asked_for_again(
    standard: str, monkeypatch: pytest.MonkeyPatch, when: str
):
    expected = host_batches(loader(standard), 0, 30)
    failing = {17, 18, 30, 40, 41, 60, 61}

    def fail(read: Read) -> None:
        if read.number in failing:
            raise OSError(f"disk {read.number}")

    watch(monkeypatch, **{when: fail})
    own, failed = loader(standard), 0
    for step in range(30):
        for _ in range(5):
            try:
                batch = own.load_host(step)
            except OSError:
                failed += 1
            else:
                break
        assert_same(expected[step], batch)
    assert failed >= 3


@pytest.mark.parametrize("when", ["on_read", "on_result"])
@pytest.mark.parametrize("error", [OSError, KeyboardInterrupt])
def test_memory_that_a_read_may_still_write_into_is_never_used_again(
    standard: str, monkeypatch: pytest.MonkeyPatch, when: str, error: type[BaseException]
):
    """After an error, or ctrl-C in a notebook, reads that nobody waited for may be under way."""

    def fail_now_and_then(read: Read) -> None:
        if read.tokens > 8 and read.number % 4 == 0:
            raise error("now")

    disk = watch(monkeypatch, **{when: fail_now_and_then})
    own, failed = loader(standard), 0
    for step in [step for step in range(0, 120, 5) for _ in range(3)]:
        try:
            own.load_host(step)
        except error:
            failed += 1
    assert failed > 5
    lost: list[tuple[int, int]] = []
    for read in disk.reads:
        first, last = read.memory
        assert not any(first < other_last and other_first < last for other_first, other_last in lost), read
        if not read.waited_for:
            lost.append((first, last))


@pytest.mark.parametrize("content", [5, 0, None])
def test_a_damaged_file_is_named_and_the_batch_comes_once_it_is_put_back(own_standard: Path, content: int | None):
    """Cut to 5 bytes, emptied, or gone."""
    expected = host_batches(loader(own_standard), 0, 30)
    file = chunk_file(own_standard, "ar", 1)
    whole = file.read_bytes()
    file.unlink()
    if content is not None:
        file.write_bytes(whole[:content])
    own, failed = loader(own_standard), []
    for step in range(30):
        try:
            batch = own.load_host(step)
        except ReadError as error:
            failed.append((step, str(error)))
            file.write_bytes(whole)
            batch = own.load_host(step)
            file.write_bytes(whole if len(failed) > 3 else whole[: content or 0])
        assert_same(expected[step], batch)
    assert failed
    for _, message in failed:
        assert "language 'ar', split 'train'" in message
        assert "encoded_tokens" in message
        assert "(in shard 1)" in message
        assert "tokens [100, 150)" in message or "tokens [150, 200)" in message


def test_an_iterator_goes_on_from_the_step_that_failed(own_standard: Path):
    expected = host_batches(loader(own_standard), 0, 30)
    file = chunk_file(own_standard, "ar", 1)
    whole = file.read_bytes()
    file.write_bytes(b"")
    with loader(own_standard, prefetch=2) as own:
        steps, given = own.steps(), 0
        with pytest.raises(ReadError, match="language 'ar'"):  # noqa: PT012  the batches before it are right
            for batch in steps:
                assert_same(expected[given], batch)
                given += 1
        file.write_bytes(whole)
        for step, batch in enumerate(own.steps(given, 30), given):
            assert_same(expected[step], batch)


def test_a_slow_read_delays_a_batch_and_changes_none(standard: str, monkeypatch: pytest.MonkeyPatch):
    expected = host_batches(loader(standard), 0, 12)
    random = np.random.default_rng(5)
    watch(monkeypatch, on_result=lambda read: time.sleep(float(random.random()) / 1000))
    with loader(standard, prefetch=3) as own:
        for step, batch in enumerate(own.steps(0, 12)):
            assert_same(expected[step], batch)
