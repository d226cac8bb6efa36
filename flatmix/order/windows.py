"""Token count -> window count; window -> token span [start, stop); and the sizes called `auto`."""

BLOCK_TOKENS = 2**18
BUFFER_BLOCKS = 256


def window_count(tokens: int, window: int, stride: int) -> int:
    """How many windows of `window` tokens, one every `stride` tokens, lie within `tokens` tokens.

    Raises ValueError for a negative count, and for a window or stride below 1.
    """
    for name, value, least in (("tokens", tokens, 0), ("window", window, 1), ("stride", stride, 1)):
        if value < least:
            raise ValueError(f"{name} is {value}: it must be at least {least}")
    return 0 if tokens < window else (tokens - window) // stride + 1


def window_span(index: int, window: int, stride: int) -> tuple[int, int]:
    """The tokens [start, stop) of window `index`."""
    return index * stride, index * stride + window


def auto_block_windows(windows: int, streams: int, window_tokens: int) -> int:
    """Q: blocks near 2^18 tokens that leave no stream without one; 0 where there are fewer windows than streams."""
    target = max(1, BLOCK_TOKENS // window_tokens)
    blocks_per_stream = max(1, windows // (streams * target))
    return windows // (streams * blocks_per_stream)


def auto_buffer_blocks(blocks_per_stream: int) -> int:
    """P: at most 256 blocks, in buffers of nearly equal size."""
    buffers = -(-blocks_per_stream // BUFFER_BLOCKS)
    return -(-blocks_per_stream // buffers)


def auto_sizes(windows: int, streams: int, window_tokens: int) -> tuple[int, int]:
    """(Q, P) of a language of `windows` windows of `window_tokens` tokens; it must have a window for each stream."""
    block = auto_block_windows(windows, streams, window_tokens)
    return block, auto_buffer_blocks(windows // block // streams)
