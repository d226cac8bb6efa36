"""Blocks of an array: all entries, once, in memory that is used again."""

from pathlib import Path

import numpy as np
import pytest
from damage import TOKENS, files_of_array, small_pieces, write
from helpers import read

from flatmix.store import Split, open_store
from flatmix.verify import pieces
from flatmix.verify.pieces import Memory, block_entries, read_blocks


@pytest.fixture
def split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Split:
    small_pieces(monkeypatch)
    monkeypatch.setattr(pieces, "_BLOCK", 8)
    write(tmp_path)
    return open_store(tmp_path)["en"]["train"]


def test_blocks_of_any_span_hold_its_entries(split: Split) -> None:
    reader, memory = split.array_reader("encoded_tokens"), Memory()
    expected = read(split.reader(), 0, TOKENS)
    for start, stop in ((0, 0), (0, 1), (0, 8), (0, 9), (5, 40), (32, TOKENS), (0, TOKENS)):
        found = [np.empty(0, np.uint32)]
        for block in read_blocks(reader, start, stop, memory):
            assert block.start == start + sum(map(len, found))
            assert block.entries is not None
            found.append(block.entries.copy())
        np.testing.assert_array_equal(np.concatenate(found), expected[start:stop])


def test_memory_is_that_of_two_blocks_however_long_the_span(split: Split) -> None:
    reader, memory = split.array_reader("encoded_tokens"), Memory()
    places = set()
    for _ in range(3):
        for block in read_blocks(reader, 0, TOKENS, memory):
            assert block.entries is not None
            places.add(block.entries.ctypes.data)
    assert len(places) == 2


def test_a_block_that_fails_says_which_chunks_and_leaves_its_memory_alone(split: Split) -> None:
    files_of_array(Path(split.path), "encoded_tokens")[1].unlink()
    reader, memory = split.array_reader("encoded_tokens"), Memory()
    blocks = list(read_blocks(reader, 0, 40, memory))

    assert [block.entries is None for block in blocks] == [False, False, True, True, False]
    spans = [(damage.start, damage.stop) for block in blocks for damage in block.damages]
    assert spans == [(16, 20), (20, 24), (24, 28), (28, 32)]
    assert "missing" in blocks[2].damages[0].reason


def test_blocks_are_whole_chunks_unless_these_are_too_long(split: Split, monkeypatch: pytest.MonkeyPatch) -> None:
    array = split.arrays["encoded_tokens"]
    for block, longest, expected in ((8, 100, 8), (11, 100, 8), (3, 100, 4), (1, 2, 2)):
        monkeypatch.setattr(pieces, "_BLOCK", block)
        monkeypatch.setattr(pieces, "_LONGEST", longest)
        assert block_entries(array) == expected
