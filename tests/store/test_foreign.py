"""What is of flatmix in the folder of a split, and what is not."""

from pathlib import Path

import pytest
from helpers import write_split

from flatmix.store.foreign import foreign_in_split


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_nothing_that_a_writer_makes_or_leaves_is_foreign(tmp_path: Path, zarr_format: int) -> None:
    folder = Path(write_split(tmp_path, [[1, 2], [3]], record_sources=True, zarr_format=zarr_format).path)
    part = f"{'0a' * 16}.partial"
    for name in (f"zarr.json.{part}", f".zattrs.{part}", f"encoded_tokens/c/0.{part}", f"seq_starts/zarr.json.{part}"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("")
    assert foreign_in_split(folder) == []


def test_what_is_foreign_is_told_by_its_path(tmp_path: Path) -> None:
    folder = Path(write_split(tmp_path, [[1, 2], [3]]).path)
    for name in ("b", "c", "seq_starts/c/x", "seq_starts/c/1/0.bak", "seq_starts/zarr.json.bak", "piece_digests/c/0/n"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("")
    (folder / "a").mkdir()
    (folder / "a/inside").write_text("")
    (folder / "source_file").symlink_to(folder / "seq_starts")
    assert foreign_in_split(folder) == [
        "a/",
        "b",
        "c",
        "piece_digests/c/0/n",
        "seq_starts/c/1/0.bak",
        "seq_starts/c/x",
        "seq_starts/zarr.json.bak",
        "source_file",
    ]
