"""Slow reads: what is read is the same, but each takes its time, and few are under way at once."""

import threading
import time
from pathlib import Path

import numpy as np
import pytest
from helpers import write_split

from flatmix.bench.slow import slow_reads
from flatmix.errors import ReadError
from flatmix.store.split import Split

DELAY = 0.03


@pytest.fixture
def split(tmp_path: Path) -> Split:
    return write_split(tmp_path / "s.zarr", [list(range(1000))])


def begin(reader, spans: int) -> list:
    outs = [np.zeros(10, np.uint32) for _ in range(spans)]
    return [(number, out, reader.read(number * 10, number * 10 + 10, out)) for number, out in enumerate(outs)]


def test_a_read_fills_its_memory_and_not_before_its_time(split: Split):
    with slow_reads(DELAY, 4) as counted:
        reader = split.reader()
        started = time.monotonic()
        ((_, out, future),) = begin(reader, 1)
        assert not future.done()
        with pytest.raises(TimeoutError):
            future.result(0.001)
        future.result()

        assert time.monotonic() - started >= DELAY
        assert future.done()
    assert (out >> 1).tolist() == list(range(10))
    assert (counted.reads, counted.most, counted.under_way) == (1, 1, 0)


def test_no_more_than_the_limit_are_under_way_and_the_others_wait(split: Split):
    with slow_reads(DELAY, 3) as counted:
        started = time.monotonic()
        for number, out, future in begin(split.reader(), 7):
            future.result()
            assert (out >> 1).tolist() == list(range(number * 10, number * 10 + 10))

        assert time.monotonic() - started >= 3 * DELAY
    assert (counted.reads, counted.most) == (7, 3)


def test_readers_of_all_languages_share_the_limit(tmp_path: Path):
    for language in ("en", "sw"):
        write_split(tmp_path / "s.zarr", [list(range(1000))], language)
    from flatmix import open_store

    store = open_store(tmp_path / "s.zarr")
    with slow_reads(DELAY, 2) as counted:
        for _, _, future in [item for name in store.languages for item in begin(store[name]["train"].reader(), 3)]:
            future.result()
    assert (counted.reads, counted.most) == (6, 2)


def test_errors_reach_the_one_who_waits(split: Split):
    (Path(split.path) / "encoded_tokens/c/0").unlink()
    with slow_reads(0.0, 1):
        ((_, _, future),) = begin(split.reader(), 1)
        with pytest.raises(ReadError, match="missing or damaged"):
            future.result()
        assert future.done()


def test_afterwards_readers_are_as_before_and_no_thread_is_left(split: Split):
    threads, reader = set(threading.enumerate()), Split.reader
    with slow_reads(DELAY, 1):
        begin(split.reader(), 3)  # two of them stand in line, and are not made
        assert Split.reader is not reader

    assert Split.reader is reader
    assert set(threading.enumerate()) <= threads
