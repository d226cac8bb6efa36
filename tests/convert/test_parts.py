"""Staged parts: there as a whole or not at all, and damage is found before it gets into a store."""

from pathlib import Path

import numpy as np
import pytest
from converted import TINY, files_of, leave_unfinished, write_lines

from flatmix.convert import convert, parts
from flatmix.convert.parts import (
    ENCODED,
    LENGTHS,
    Content,
    Part,
    PartReader,
    Problem,
    part_names,
    part_path,
    read_part,
    write_part,
    written_whole,
)
from flatmix.errors import ReadError

TEXTS = [f"document {number}" for number in range(60)]
TOKENS = np.arange(1000, dtype=np.uint32) * 77_777
SIZES = np.full(10, 100, np.uint32)


def a_part(number: int = 0, last: bool = False) -> Part:
    content = Content(0, "en", "train", 10, 0, 1000, 5000, 5, {})
    problems = [Problem(0, 3, "no text")]
    return Part(0, number, {0: 11}, {0: 1}, problems, 5100, 0.25, last, [content])


def written(folder: Path) -> Path:
    path = part_path(folder, 0, 0)
    write_part(path, a_part(), [{ENCODED: TOKENS, LENGTHS: SIZES}])
    return path


@pytest.mark.parametrize("block", [1000, 999, 64, 1])
def test_values_come_back_from_any_place(tmp_path, monkeypatch, block):
    monkeypatch.setattr(parts, "BLOCK", block)
    reader = PartReader(written(tmp_path), 0)

    for start, stop in ((0, 1000), (0, 1), (999, 1000), (63, 65), (100, 900), (5, 5), (0, 0)):
        assert reader.read(ENCODED, start, stop).tolist() == TOKENS[start:stop].tolist()
    assert reader.read(LENGTHS, 0, 10).tolist() == SIZES.tolist()


def test_a_part_says_what_it_is_of(tmp_path):
    part = read_part(written(tmp_path))

    assert part.contents[0].columns.keys() == {ENCODED, LENGTHS}
    assert [block.values for block in part.contents[0].columns[ENCODED]] == [1000]
    assert (part.records, part.bad, part.problems, part.size) == ({0: 11}, {0: 1}, [Problem(0, 3, "no text")], 5100)
    assert part_names(tmp_path) == ["0000000-00000.part"]


def test_a_part_is_written_once(tmp_path):
    before = written(tmp_path).read_bytes()

    with pytest.raises(FileExistsError):
        write_part(part_path(tmp_path, 0, 0), a_part(last=True), [{ENCODED: TOKENS[:1], LENGTHS: SIZES[:1]}])

    assert files_of(tmp_path) == {"0000000-00000.part": before}


def test_a_part_is_written_once_on_a_file_system_without_links(tmp_path, monkeypatch):
    def refuse(*_):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(parts.os, "link", refuse)

    test_a_part_is_written_once(tmp_path)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_file_that_could_not_be_written_to_its_end_is_not_there(tmp_path, error):
    def fail() -> None:
        with written_whole(tmp_path / "name") as file:
            file.write(b"some")
            raise error

    with pytest.raises(type(error)) as raised:
        fail()

    assert isinstance(error, KeyboardInterrupt) or raised.value.filename == str(tmp_path / "name")
    assert list(tmp_path.iterdir()) == []


def test_parts_come_in_the_sequence_of_units_and_numbers(tmp_path):
    places = [(0, 0), (0, 1), (0, 10), (2, 0), (10, 0), (1_000_000, 3)]
    for unit, number in reversed(places):
        part_path(tmp_path, unit, number).write_bytes(b"")
    (tmp_path / "0000000-00002.part.1234.partial").write_bytes(b"")

    assert part_names(tmp_path) == [part_path(tmp_path, *place).name for place in places]


@pytest.mark.parametrize("change", ["flipped", "zeros"])
def test_a_damaged_block_is_found_when_it_is_read(tmp_path, change):
    path = written(tmp_path)
    raw = bytearray(path.read_bytes())
    raw[100:110] = bytes(10) if change == "zeros" else bytes(byte ^ 1 for byte in raw[100:110])
    path.write_bytes(raw)

    with pytest.raises(ReadError, match=rf"staged part {path} is damaged at byte 0; remove it, and convert again"):
        PartReader(path, 0).read(ENCODED, 0, 1)


@pytest.mark.parametrize("left", [0, 1, 15, 16, 200, -1, -20])
def test_a_part_that_was_cut_is_none(tmp_path, left):
    path = written(tmp_path)
    path.write_bytes(path.read_bytes()[:left])

    with pytest.raises(ReadError, match=rf"staged part {path} cannot be read: .*; remove it, and convert again"):
        read_part(path)


@pytest.mark.parametrize("damage", ["block", "cut", "gone"])
def test_a_conversion_names_the_damaged_part_and_goes_on_once_it_is_removed(tmp_path, damage):
    """In the middle of a unit, whose later parts are there."""
    sources = {"en": write_lines(tmp_path / "en.jsonl", TEXTS)}
    convert(tmp_path / "whole.zarr", sources)
    path = leave_unfinished(tmp_path / "s.zarr", sources)[1]
    assert path.name == "0000000-00001.part"
    raw = path.read_bytes()
    if damage != "gone":
        path.write_bytes(bytes([raw[0] ^ 1]) + raw[1:] if damage == "block" else raw[:-1])
        with pytest.raises(ReadError, match=rf"staged part {path} .*; remove it, and convert again"):
            convert(tmp_path / "s.zarr", sources, workers=1, sizes=TINY)
    path.unlink()

    convert(tmp_path / "s.zarr", sources, workers=1, sizes=TINY)

    assert files_of(tmp_path / "s.zarr") == files_of(tmp_path / "whole.zarr")
