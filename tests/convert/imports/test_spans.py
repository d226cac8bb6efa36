"""Spans of a file: all that was asked for, or an error."""

from pathlib import Path

import numpy as np
import pytest

from flatmix.convert.imports.spans import SpanFile, size_and_stamp
from flatmix.errors import ConvertError, ReadError


def test_a_span_is_as_long_as_asked_for(tmp_path: Path) -> None:
    np.arange(100, dtype="<u2").tofile(tmp_path / "a")

    with SpanFile(str(tmp_path / "a")) as file:
        assert file.read(4, 3, "<u2").tolist() == [2, 3, 4]
        assert file.read(1, 1, "<u4").tolist() == [0x00020001 << 8 & 0xFFFFFFFF]
        assert file.read(198, 1, "<u2").tolist() == [99]
        assert file.read(1000, 0, "<u2").tolist() == []
        with pytest.raises(ReadError, match="a has 200 bytes, and 202 at least belong to it: it was cut"):
            file.read(198, 2, "<u2")
        with pytest.raises(ReadError, match="a has 200 bytes, and 302 at least belong to it"):
            file.read(300, 1, "<u2")
    with pytest.raises(ValueError, match="closed file"):
        file.read(0, 1, "<u2")


def test_a_folder_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(ReadError, match="cannot be opened: Is a directory"):
        SpanFile(str(tmp_path))


def test_the_stamp_tells_size_and_time_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")

    size, stamp = size_and_stamp(str(tmp_path / "a"))

    assert (size, stamp) == (3, f"3-{(tmp_path / 'a').stat().st_mtime_ns}")
    with pytest.raises(ConvertError, match="none: there is no such file"):
        size_and_stamp(str(tmp_path / "none"))
