"""Tokens to windows: how many there are, where each one lies, and block sizes from them."""

import itertools
import re

import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st

from flatmix.order.windows import auto_sizes, window_count, window_span

AROUND_POWERS = [2**k + change for k in range(8, 63) for change in (-1, 0, 1)]


@pytest.mark.parametrize(
    ("tokens", "stride", "count"),
    [
        *[(7, 8, 0), (8, 8, 1), (9, 8, 1), (15, 8, 1), (16, 8, 2), (17, 8, 2), (0, 8, 0)],
        *[(20, 4, 4), (24, 4, 5), (16, 4, 3), (21, 12, 2)],
    ],
)
def test_count_of_windows_of_8_tokens(tokens: int, stride: int, count: int):
    assert window_count(tokens, 8, stride) == count


def test_windows_are_all_that_fit_at_every_small_size():
    for tokens in range(201):
        for window in (1, 2, 7, 8, 9, 64, 200):
            for stride in (1, 3, 4, 7, 8, 12, 300):
                starts = [start for start in range(0, tokens, stride) if start + window <= tokens]
                count = window_count(tokens, window, stride)

                assert count == len(starts) == reference.window_count(tokens, window, stride)
                if starts:
                    assert window_span(0, window, stride) == (0, window)
                    assert window_span(count - 1, window, stride) == (starts[-1], starts[-1] + window)


def test_last_window_fits_and_one_more_would_not():
    window, stride = 2049, 2048
    for tokens in AROUND_POWERS:
        count = window_count(tokens, window, stride)

        assert count == reference.window_count(tokens, window, stride)
        assert window_span(count, window, stride)[1] > tokens
        assert count == 0 or window_span(count - 1, window, stride)[1] <= tokens


def test_windows_of_8_over_documents_laid_end_to_end_are_all_there():
    """Ten documents, 118 tokens with their ends: the count that forgets the last window of each start is 13 and 25."""
    lengths = [14, 12, 10, 12, 14, 7, 13, 7, 10, 9]
    tokens = [token for length in lengths for token in [*range(length), -1]]

    def cut(w: int, stride: int) -> list[int]:
        start, stop = window_span(w, 8, stride)
        return tokens[start:stop]

    apart = [cut(w, 8) for w in range(window_count(len(tokens), 8, 8))]
    overlapping = [cut(w, 4) for w in range(window_count(len(tokens), 8, 4))]

    assert (len(apart), len(overlapping)) == (14, 28)
    assert apart[13] == [7, 8, 9, -1, 0, 1, 2, 3]
    assert [token for window in apart for token in window] == tokens[:112]
    assert overlapping[::2] == apart
    assert all(a[4:] == b[:4] for a, b in itertools.pairwise(overlapping))
    assert overlapping[27] == tokens[108:116]


def test_every_token_but_the_ends_is_a_target_once_when_the_stride_is_the_length():
    """Windows of len + 1 at stride len: the targets are the last len tokens of each."""
    length = 8
    targets = [
        token
        for w in range(window_count(100, length + 1, length))
        for token in range(*window_span(w, length + 1, length))[1:]
    ]

    assert targets == list(range(1, 97))


@pytest.mark.parametrize(
    ("tokens", "window", "stride", "named"),
    [
        (100, 8, 0, "stride"),
        (100, 8, -4, "stride"),
        (100, 0, 8, "window"),
        (100, -1, 8, "window"),
        (-1, 8, 8, "tokens"),
    ],
)
def test_impossible_windows_are_refused_by_name_and_value(tokens: int, window: int, stride: int, named: str):
    value = {"tokens": tokens, "window": window, "stride": stride}[named]

    with pytest.raises(ValueError, match=rf"(?s){named}.*{re.escape(str(value))}"):
        window_count(tokens, window, stride)


def test_auto_sizes_equal_the_reference_at_every_small_size():
    for windows in range(1, 201):
        for streams in range(1, min(windows, 9) + 1):
            for window_tokens in (1, 2048, 2**14, 2**15 + 1, 2**16, 2**17, 2**18, 2**18 + 1, 2**20):
                sizes = auto_sizes(windows, streams, window_tokens)

                assert sizes == reference.auto_sizes(windows, streams, window_tokens)


@given(st.integers(1, 2**50), st.integers(1, 4096), st.integers(1, 2**20))
def test_auto_sizes_use_every_block_and_fill_every_buffer(windows: int, streams: int, window_tokens: int):
    windows = max(windows, streams)
    Q, P = auto_sizes(windows, streams, window_tokens)
    target = max(1, 2**18 // window_tokens)
    blocks_per_stream = windows // Q // streams

    assert reference.auto_sizes(windows, streams, window_tokens) == (Q, P)
    assert blocks_per_stream == max(1, windows // (streams * target))
    assert target <= Q or blocks_per_stream == 1
    assert 1 <= P <= 256
    if blocks_per_stream <= 2**15:
        buffers = -(-blocks_per_stream // P)
        assert P * buffers - blocks_per_stream < buffers <= 128


def test_auto_sizes_around_powers_of_two_equal_the_reference():
    """With targets of 127 and of 128 windows a block, so that buffers are filled to the last block and are not."""
    for windows, streams, tokens in itertools.product(AROUND_POWERS, (1, 8), (2048, 2049)):
        assert auto_sizes(windows, streams, tokens) == reference.auto_sizes(windows, streams, tokens)
    assert auto_sizes(2**15, 1, 2048) == (128, 256)
