"""(stream, occurrence) -> (epoch, window): every window of an epoch once, other ones left out each time."""

import itertools
from collections import Counter
from typing import Any

import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from order_cases import alone, as_rows, seeds, small

from flatmix.order import Order


def rows_of(config: dict[str, Any], steps: int) -> list[reference.Row]:
    order = Order(**config)
    return list(itertools.chain.from_iterable(as_rows(order.rows(step)) for step in range(steps)))


def by_epoch(rows: list[reference.Row]) -> dict[int, list[int]]:
    windows: dict[int, list[int]] = {}
    for row in rows:
        windows.setdefault(row.epoch, []).append(row.window)
    return windows


AROUND_POWERS = [2**k + change for k in (8, 9) for change in (-1, 0, 1)]


@pytest.mark.parametrize(
    ("block", "buffer", "sizes"),
    [
        (1, 1, [*range(1, 34), 63, 64, 65]),  # every window a buffer of its own: slow
        (3, 4, [*range(9, 201), *AROUND_POWERS]),
        (5, 40, [*range(15, 100)]),
        ("auto", "auto", [*range(3, 201), *AROUND_POWERS]),
    ],
)
@pytest.mark.parametrize("streams", [1, 3])
def test_rows_equal_the_reference_at_every_number_of_windows(streams: int, block: Any, buffer: Any, sizes: list[int]):
    """One epoch and a bit of the next, for every N to 200 that is enough, and around powers of two."""
    sizes = [windows for windows in sizes if windows >= streams]
    for windows in sizes:
        config = alone("en", windows, streams=streams, batch=streams * (windows // streams * 5 // 4 + 3))
        config |= {"sequences_per_read_block": block, "read_blocks_per_shuffle_buffer": buffer, "window_tokens": 2**14}

        assert reference.Order(**config).rows(0) == as_rows(Order(**config).rows(0))


@settings(max_examples=40)
@given(
    windows=st.integers(0, 200),
    block=st.integers(1, 12),
    buffer=st.integers(1, 12),
    streams=st.integers(1, 4),
    seed=seeds,
)
def test_every_epoch_shows_its_windows_once_and_two_in_a_row_show_all(
    windows: int, block: int, buffer: int, streams: int, seed: int
):
    windows += block * streams
    config = alone("en", windows, streams=streams, batch=streams, seed=seed)
    config |= {"sequences_per_read_block": block, "read_blocks_per_shuffle_buffer": buffer}
    order = Order(**config)
    shuffle = order.shuffles[0]
    shown = windows - windows % (block * streams)
    epochs = by_epoch(as_rows(Order(**{**config, "batch": 3 * shown}).rows(0)))

    assert (shuffle.windows, shuffle.block_windows, shuffle.buffer_blocks) == (windows, block, buffer)
    assert (shuffle.blocks, shuffle.windows_per_stream) == (shown // block, shown // streams)
    assert shuffle.left_out == windows - shown
    assert order.left_out == {"en": windows - shown}
    for epoch in range(3):
        assert len(epochs[epoch]) == len(set(epochs[epoch])) == shown
        assert {(epoch * shown + i) % windows for i in range(shown)} == set(epochs[epoch])
    assert set(epochs[0]) | set(epochs[1]) == set(range(windows)) == set(epochs[1]) | set(epochs[2])


@pytest.mark.parametrize("streams", [1, 4])
def test_no_window_is_starved_in_the_long_run(streams: int):
    """After any number of whole epochs the windows differ by at most one showing, although each leaves some out."""
    order = Order(**alone("en", 47, streams=streams, batch=47 // (4 * streams) * 4 * streams))
    assert order.left_out == {"en": 3 if streams == 1 else 15}
    shown: Counter[int] = Counter()
    for epoch in range(60):
        shown.update(row.window for row in as_rows(order.rows(epoch)))
        if epoch > 0:
            assert len(shown) == 47
            assert max(shown.values()) - min(shown.values()) <= 1


def test_windows_left_out_are_reported_for_every_language_of_some_weight():
    order = Order(**small(windows={"en": 83, "ar": 41, "sw": 9, "xx": 5}))

    assert order.left_out == {"en": 3, "ar": 1, "sw": 1}


@pytest.mark.parametrize("batch", [8, 7])
def test_one_language_goes_through_its_epochs_without_loss_or_repeat(batch: int):
    """80 windows in batches of 8, and of 7 with epochs that end within a batch: four epochs, four sequences."""
    rows = rows_of(alone("en", 80, batch=batch), 4 * 80 // batch + 1)[:320]
    epochs = [[row.window for row in rows[start : start + 80]] for start in range(0, 320, 80)]

    assert [sorted(epoch) for epoch in epochs] == [list(range(80))] * 4
    assert len({tuple(epoch) for epoch in epochs}) == 4
    assert [row.epoch for row in rows] == [i // 80 for i in range(320)]


def test_four_windows_fill_batches_of_eight_for_ever():
    """A language smaller than a batch goes round: no end, no wait, every four rows all four windows."""
    rows = rows_of(alone("sw", 4), 3)
    windows = [row.window for row in rows]

    assert Counter(windows) == dict.fromkeys(range(4), 6)
    assert all(sorted(windows[i : i + 4]) == [0, 1, 2, 3] for i in range(0, 24, 4))


def test_small_language_of_large_weight_is_shown_evenly_at_every_step():
    config = small(windows={"en": 80, "ar": 40, "sw": 4}, weights={"en": 0.05, "sw": 0.95}, streams=1)
    order, shown = Order(**config), Counter(dict.fromkeys(range(4), 0))
    draws = 0
    for step in range(200):
        for row in as_rows(order.rows(step)):
            if row.language == 2:
                assert row.occurrence == draws
                assert row.epoch == draws // 4
                draws += 1
                shown[row.window] += 1
                assert max(shown.values()) - min(shown.values()) <= 1
    assert draws > 1400


@pytest.mark.parametrize(("streams", "hosts"), [(1, 2), (2, 2), (4, 2), (4, 4), (8, 8)])
def test_hosts_read_an_epoch_between_them_and_no_row_twice(streams: int, hosts: int):
    """Each host asks for its own rows only; together they are the batch, and 10 steps of 8 are 80 windows once each."""
    order = Order(**alone("en", 80, streams=streams, sequences_per_read_block=2))
    share = 8 // hosts
    by_host: list[list[int]] = [[] for _ in range(hosts)]
    for step in range(10):
        batch = as_rows(order.rows(step))
        for host in range(hosts):
            own = range(host * share, host * share + share)
            rows = as_rows(order.rows(step, rows=own))
            assert rows == [batch[b] for b in own]
            by_host[host] += [row.window for row in rows]

    assert sorted(itertools.chain.from_iterable(by_host)) == list(range(80))


def test_place_says_where_in_its_buffer_a_window_was_read():
    """A buffer holds 2 blocks of 4: places 0-3 are windows in a row, round the end of the 83 too, and so are 4-7."""
    buffers: dict[tuple[int, int, int], dict[int, int]] = {}
    for row in rows_of(alone("en", 83, streams=2), 60):
        buffers.setdefault((row.epoch, row.stream, row.minipoch), {})[row.place] = row.window

    assert len(buffers) == 60
    for windows in buffers.values():
        assert sorted(windows) == list(range(8))
        for place in (1, 2, 3, 5, 6, 7):
            assert windows[place] == (windows[place - 1] + 1) % 83


def test_order_of_a_language_depends_on_no_other_language():
    """Alone, among others, elsewhere in the sequence, under other weights: occurrence k is the same window."""

    def walk(config: dict[str, Any]) -> dict[tuple[int, int], int]:
        names = list(config["windows"])
        rows = rows_of(config, 60)
        return {(row.stream, row.occurrence): row.window for row in rows if names[row.language] == "ar"}

    longest = walk(alone("ar", 43, streams=2))
    others: list[dict[str, Any]] = [
        small(windows={"en": 80, "ar": 43, "sw": 8}),
        small(windows={"en": 999, "sw": 90, "ar": 43}, selector="balanced"),
        small(windows={"ar": 43, "zz": 8}, weights={"ar": 0.2, "zz": 0.1}),
    ]
    for config in others:
        walked = walk(config)
        assert len(walked) > 100
        assert walked == {key: longest[key] for key in walked}
    assert walk(alone("ar", 44, streams=2)) != longest


def flat_tokens_row(step: int, row: int, seed: int, windows: int, batch: int, sizes: tuple[int, int, int]) -> int:
    """The window in a row of the flat-tokens loader that this order descends from, found the way it finds it.

    sizes are (streams, sequences per read block, read blocks per shuffle buffer). One permutation deals the read blocks
    to streams and buffers like cards; another, keyed with the number of the buffer, shuffles what a buffer then holds.
    """
    streams, per_block, per_buffer = sizes
    rows_each = batch // streams
    stream, ahead = row // rows_each, step * rows_each + row % rows_each
    refill, index = ahead // (per_block * per_buffer), ahead % (per_block * per_buffer)
    dealt = reference.fisher_yates(seed, windows // per_block // streams * streams)
    hand = dealt[stream::streams][refill * per_buffer : (refill + 1) * per_buffer]
    held = [block * per_block + i for block in hand for i in range(per_block)]
    return held[reference.fisher_yates(seed + 1 + refill * streams + stream, len(held))[index]]


@pytest.mark.parametrize("sizes", [(1, 4, 2), (2, 4, 4), (4, 3, 5), (3, 1, 7), (2, 5, 100), (6, 2, 1)])
@pytest.mark.parametrize("seed", [0, 7, 10**9])
def test_one_language_with_the_seed_as_key_is_the_flat_tokens_loader_it_descends_from(
    sizes: tuple[int, int, int], seed: int
):
    """All steps of one epoch, last and shorter shuffle buffer included."""
    streams, block, buffer = sizes
    windows, batch = 250, 2 * streams
    config = alone("x", windows, streams=streams, batch=batch, seed=seed, keys={"x": seed})
    order = Order(**{**config, "sequences_per_read_block": block, "read_blocks_per_shuffle_buffer": buffer})
    steps = windows // block // streams * streams * block // batch

    for step in range(steps):
        expected = [flat_tokens_row(step, row, seed, windows, batch, sizes) for row in range(batch)]
        assert expected == order.rows(step).window.tolist()
