"""Rows of one document each: cut, padded, counted; read as little as a row needs."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from fakes import watch
from stores import FIELDS, assert_same, loader, over_devices, params, write_store

from flatmix import MixtureParams, ShufflingLoader, TokenBatchParams

LENGTHS = [3, 5, 2, 4, 6, 1, 3, 2]


def documents(lengths: Sequence[int], base: int = 100) -> list[list[int]]:
    """Consecutive ids from `base` on, cut into documents of the given lengths."""
    ends = np.cumsum(lengths).tolist()
    return [list(range(base + end - length, base + end)) for end, length in zip(ends, lengths, strict=True)]


def unpacked(path: Any, **changes: Any) -> ShufflingLoader:
    return loader(path, {"en": 1}, sequence_packing=False, **changes)


def expected_row(document: Sequence[int], length: int, extra: int) -> dict[str, list[Any]]:
    """One row, one target at a time."""
    shown = list(document[: length + extra])
    row: dict[str, list[Any]] = {name: [] for name in FIELDS if name != "language"}
    for place in range(extra, length + extra):
        real, starts = place < len(shown), place == 0 and bool(shown)
        before_known = 0 < place <= len(shown)
        row["targets"].append(shown[place] if real else 0)
        row["is_seq_start"].append(starts)
        row["inputs"].append(shown[place - 1] if before_known else 0)
        row["loss_mask"].append(real)
    return row


@pytest.mark.parametrize("extra", [0, 1, 3])
@pytest.mark.parametrize("length", [1, 4, 8])
@pytest.mark.parametrize("block", [1, 4])
def test_each_document_is_a_row_cut_and_padded(tmp_path: Any, length: int, extra: int, block: int):
    """An epoch shows every document once; the second block holds its own documents, from its own place in the store."""
    texts = documents([*LENGTHS, 0, 9, 0, 7, 20, 1, 1, 8])
    path = write_store(tmp_path / "s.zarr", {"en": texts})
    own = unpacked(path, len=length, extra_tokens=extra, batch=4, sequences_per_read_block=block)
    seen = []
    for step in range(12):
        batch = own.load_host(step)
        windows = own.order.rows(step).window.tolist()
        seen += windows
        for row, window in enumerate(windows):
            for name, values in expected_row(texts[window], length, extra).items():
                assert getattr(batch, name)[row].tolist() == values, (name, window)
    assert sorted(seen[:16]) == sorted(seen[16:32]) == list(range(16))
    assert own.metrics()["buffers_filled"] > 0


def test_padding_is_no_document_and_no_loss(tmp_path: Any):
    path = write_store(tmp_path / "s.zarr", {"en": [[5, 6], [], [7]]})
    own = unpacked(path, len=4, batch=3, sequences_per_read_block=3)
    batch = own.load_host(0)
    by_window = {window: row for row, window in enumerate(own.order.rows(0).window.tolist())}
    rows = [by_window[window] for window in range(3)]
    assert batch.targets[rows].tolist() == [[5, 6, 0, 0], [0, 0, 0, 0], [7, 0, 0, 0]]
    assert batch.inputs[rows].tolist() == [[0, 5, 6, 0], [0, 0, 0, 0], [0, 7, 0, 0]]
    assert batch.is_seq_start[rows].astype(int).tolist() == [[1, 0, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0]]
    assert batch.loss_mask[rows].astype(int).tolist() == [[1, 1, 0, 0], [0, 0, 0, 0], [1, 0, 0, 0]]


@pytest.mark.parametrize("extra", [0, 1])
def test_documents_are_the_same_over_devices_with_divided_columns(tmp_path: Any, extra: int):
    import jax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    path = write_store(tmp_path / "s.zarr", {"en": documents([7, 0, 3, 12, 8, 9, 1, 5] * 4)})
    grid = NamedSharding(Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model")), PartitionSpec("data", "model"))
    for sharding in (over_devices(8), grid):
        own = unpacked(path, extra_tokens=extra, sharding=sharding)
        for step in range(6):
            assert_same(own.load_host(step), own.load(step))


def test_a_row_of_a_huge_document_reads_no_more_than_it_shows(tmp_path: Any, monkeypatch: pytest.MonkeyPatch):
    path = write_store(tmp_path / "s.zarr", {"en": documents([200_000, 3, 300_000, 4])}, chunk=2**14)
    disk = watch(monkeypatch)
    own = unpacked(path, len=8, batch=2, sequences_per_read_block=4)
    for step in range(4):  # alone, then as a block
        own.load_host(step)
    assert own.metrics()["buffers_filled"] > 0
    assert {stop - start for _, start, stop in disk.spans()} <= {3, 4, 8, 3 + 8}
    assert ("en", 200_000, 200_003) in disk.spans()


def test_many_long_documents_take_little_memory_beside_their_rows(tmp_path: Any, monkeypatch: pytest.MonkeyPatch):
    """Short gaps are read along, but never a whole block of long documents at once."""
    path = write_store(tmp_path / "s.zarr", {"en": documents([9_000] * 40)}, chunk=2**14)
    disk = watch(monkeypatch)
    own = unpacked(path, len=8, batch=2, sequences_per_read_block=40, read_blocks_per_shuffle_buffer=1)
    for step in range(3):
        own.load_host(step)
    assert own.metrics()["buffers_filled"] >= 1
    assert 100_000 < max(stop - start for _, start, stop in disk.spans()) <= 2**18


def test_neighbouring_documents_are_read_as_one_span(tmp_path: Any, monkeypatch: pytest.MonkeyPatch):
    path = write_store(tmp_path / "s.zarr", {"en": documents([10] * 64)})
    disk = watch(monkeypatch)
    own = unpacked(path, len=8, batch=8, sequences_per_read_block=16, read_blocks_per_shuffle_buffer=4)
    for step in range(4):
        own.load_host(step)
    blocks = {span for span in disk.spans() if span[2] - span[1] > 10}
    assert blocks
    assert blocks <= {("en", 160 * block, 160 * block + 158) for block in range(4)}


def test_a_state_of_packed_rows_is_not_one_of_documents(tmp_path: Any):
    path = write_store(tmp_path / "s.zarr", {"en": documents([8] * 32)})
    state = loader(path, {"en": 1}).state(3)
    with pytest.raises(ValueError, match="window packing: True in the state, False here"):
        unpacked(path).restore(state)
    own = unpacked(path)
    assert own.restore(own.state(3)) == 3


def test_settings_that_documents_cannot_have_are_refused(tmp_path: Any):
    path = write_store(tmp_path / "s.zarr", {"en": documents([8] * 32), "ar": []})
    with pytest.raises(ValueError, match=r"stride=4 with sequence_packing=False.*leave the stride out"):
        unpacked(path, stride=4)
    with pytest.raises(ValueError, match="language 'ar' has no documents: leave it out"):
        loader(path, {"en": 1, "ar": 1}, sequence_packing=False)
    with pytest.raises(ValueError, match="language 'en' has 32 windows: 64 streams"):
        ShufflingLoader(
            "train",
            params(path, sequence_packing=False, streams=64),
            MixtureParams({"en": 1}),
            TokenBatchParams(8, 64),
        )
