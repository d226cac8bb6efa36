"""What a user sets -> checked numbers; a ValueError names the setting, its value and the way out."""

import operator
from collections.abc import Mapping, Sequence

import numpy as np

from flatmix.order.windows import auto_block_windows, auto_buffer_blocks

Size = int | Mapping[str, int] | str  # of blocks and buffers: for all languages, for each, or "auto"


def whole_number(value: object, name: str, least: int) -> int:
    """`value` as an int; a ValueError that names it where it is not a whole number (NumPy's included) >= `least`."""
    try:
        number = operator.index(value)  # pyright: ignore[reportArgumentType]
    except TypeError:
        number = None
    if number is None or isinstance(value, bool | np.bool):
        raise ValueError(f"{name} is {value!r}: a whole number is needed")
    if number < least:
        raise ValueError(f"{name} is {number}: it must be at least {least}")
    return number


def word(value: int, name: str) -> int:
    """A number from 0 to 2^64 - 1."""
    number = whole_number(value, name, 0)
    if number >= 2**64:
        raise ValueError(f"{name} is {number}: it must be below 2^64")
    return number


def language_name(name: object) -> str:
    """A name that can be hashed to a key."""
    if not isinstance(name, str):
        raise ValueError(f"a language is named {name!r}: names are strings")
    try:
        name.encode()
    except UnicodeEncodeError:
        raise ValueError(f"a language is named {name!r}: that is no text that UTF-8 can hold") from None
    return name


def only_known(given: Mapping[str, object], names: Sequence[str], where: str) -> None:
    """Every language of `given` is one of `names`."""
    unknown = [name for name in given if name not in names]
    if unknown:
        raise ValueError(f"{where}: unknown language {unknown[0]!r}; there are {', '.join(map(repr, names)) or 'none'}")


def block_windows(size: Size, names: Sequence[str], name: str, windows: int, streams: int, window: int | None) -> int:
    """Q of a language of `windows` windows; 0 where "auto" finds no window for each stream."""
    given = _size(size, name, names, "sequences_per_read_block")
    if given is not None:
        return given
    if window is None:
        raise ValueError(f'sequences_per_read_block of {name!r} is "auto": that needs window_tokens')
    return auto_block_windows(windows, streams, whole_number(window, "window_tokens", 1))


def buffer_blocks(size: Size, names: Sequence[str], name: str, blocks_per_stream: int) -> int:
    """P of a language with so many blocks for each stream in an epoch."""
    given = _size(size, name, names, "read_blocks_per_shuffle_buffer")
    return auto_buffer_blocks(max(1, blocks_per_stream)) if given is None else given


def _size(size: Size, name: str, names: Sequence[str], setting: str) -> int | None:
    """The size of one language; None for "auto", and for a language that a mapping leaves out."""
    if isinstance(size, Mapping):
        only_known(size, names, setting)
        size = size.get(name, "auto")
    if isinstance(size, str):
        if size != "auto":
            raise ValueError(f'{setting} of {name!r} is {size!r}: take a number, "auto", or a mapping of languages')
        return None
    return whole_number(size, f"{setting} of {name!r}", 1)
