"""Shuffle buffers as a cache: what is read, how often, into how much memory, and what a failure leaves behind."""

import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from fakes import Disk, Read, watch
from stores import EN_ALONE, STD, assert_same, chunk_file, expected_batch, host_batches, loader, num, write_store

from flatmix import ReadError

ROW = 8 * 4  # bytes of a row
BUFFER = 8 * ROW  # of 2 blocks of 4 windows


def blocks_read(disk: Disk, window: int = 8) -> list[tuple[str, int, int]]:
    return disk.spans(at_least=window + 1)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    return watch(monkeypatch)


def test_the_first_batch_waits_for_no_block(standard: str, disk: Disk):
    own = loader(standard)
    own.load_host(0)
    assert blocks_read(disk) == []
    assert own.metrics()["rows_read_alone"] == 8
    own.load_host(1)
    assert blocks_read(disk)


def test_a_look_at_a_far_step_reads_rows_alone_and_keeps_the_buffers(standard: str, disk: Disk):
    own = loader(standard, EN_ALONE, read_blocks_per_shuffle_buffer=20)
    for step in range(3):
        own.load_host(step)
    blocks = len(blocks_read(disk))
    own.load_host(1000)
    own.load_host(3)
    own.load_host(4)
    assert len(blocks_read(disk)) == blocks


@pytest.mark.parametrize(("window", "at_most"), [(64, 16), (60, 18)])
def test_each_block_of_an_epoch_is_read_once(tmp_path: Path, disk: Disk, window: int, at_most: int):
    """16 blocks of 64 windows: once each, and not once for each row."""
    store = write_store(tmp_path / "s.zarr", {"en": num(65_536, 0)}, chunk=4096)
    own = loader(store, EN_ALONE, len=window, sequences_per_read_block=64, read_blocks_per_shuffle_buffer=4)
    epoch = own.order.shuffles[0].windows_per_epoch
    for step in range(epoch // 8):
        own.load_host(step)
    blocks = Counter(blocks_read(disk, window))
    assert set(blocks.values()) == {1}
    assert len(blocks) == epoch // 64 <= at_most
    assert own.metrics()["rows_read_alone"] <= 8 * -(-len(blocks) // 4)  # the first batch of each buffer


def test_blocks_are_read_once_for_eight_devices_too(tmp_path: Path, disk: Disk):
    import jax
    from jax.sharding import NamedSharding, PartitionSpec

    store = write_store(tmp_path / "s.zarr", {"en": num(8192, 0)}, chunk=4096)
    sharding = NamedSharding(jax.make_mesh((2, 4), ("data", "model")), PartitionSpec("data"))
    own = loader(store, EN_ALONE, len=64, sequences_per_read_block=16, sharding=sharding)
    for step in range(16):
        own.load(step)
    assert len(set(blocks_read(disk, 64))) == 8
    assert set(Counter(disk.spans()).values()) == {1}


@pytest.mark.parametrize(
    ("budget", "buffered"),
    [
        (0, ""),
        (ROW, ""),
        (BUFFER - 1, "sw"),
        (BUFFER, "en"),
        (BUFFER + 4 * ROW, "en sw"),
        (2 * BUFFER, "en ar"),
        (2 * BUFFER + 4 * ROW - 1, "en ar"),
        (2 * BUFFER + 4 * ROW, "en ar sw"),
        ("auto", "en ar sw"),
    ],
)
def test_buffers_stay_within_the_budget(standard: str, disk: Disk, budget: int | str, buffered: str):
    """The languages of the greatest weights come first; rows of the others are read alone. sw needs half a buffer."""
    own = loader(standard, memory_budget=budget)
    for step in range(25):
        assert_same(expected_batch(own, STD, step), own.load_host(step))
    assert {language for language, _, _ in blocks_read(disk)} == set(buffered.split())
    held = _memory_of_blocks(disk)
    assert held <= (budget if isinstance(budget, int) else 10**9)
    assert held == BUFFER * sum(name in buffered for name in ("en", "ar")) + 4 * ROW * ("sw" in buffered)
    own.close()


def _memory_of_blocks(disk: Disk) -> int:
    """Bytes of all memory that blocks were ever read into: buffers are used again, so that it stays small."""
    addresses: set[int] = set()
    for read in disk.reads:
        if read.tokens > 8:
            first, last = read.memory
            addresses.update(range(first, last, 4))
    return 4 * len(addresses)


def test_the_budget_holds_for_all_streams_together(standard: str, disk: Disk):
    weights = {"en": 0.7, "ar": 0.3}
    for budget, expected in ((4 * BUFFER - 1, {"en"}), (2 * BUFFER - 1, set()), (4 * BUFFER, {"en", "ar"})):
        disk.reads.clear()
        own = loader(standard, weights, streams=2, memory_budget=budget)
        for step in range(15):
            own.load_host(step)
        assert {language for language, _, _ in blocks_read(disk)} == expected
        assert _memory_of_blocks(disk) <= budget


def test_a_language_takes_its_turn_by_its_greatest_weight_of_any_phase(standard: str, disk: Disk):
    own = loader(standard, {"en": 0.6, "ar": 0.4}, phases=[(20, {"en": 0.1, "ar": 0.9})], memory_budget=BUFFER)
    for step in range(10):
        own.load_host(step)
    assert {language for language, _, _ in blocks_read(disk)} == {"ar"}


def test_overlapping_windows_are_held_one_by_one(standard: str, disk: Disk):
    own = loader(standard, EN_ALONE, stride=4, memory_budget=BUFFER)
    for step in range(30):
        assert_same(expected_batch(own, STD, step), own.load_host(step))
    assert own.metrics()["buffers_filled"] > 5


def test_closing_gives_the_memory_back(standard: str):
    own = loader(standard)
    for step in range(4):
        own.load_host(step)
    assert own.metrics()["buffer_fill"] > 0
    own.close()
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
