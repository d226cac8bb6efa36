"""The small stores that flatmix offers to its users' tests."""

from pathlib import Path

import numpy as np
import pytest

from flatmix import FlatTokensParams, MixtureParams, ShufflingLoader, StoreError, TokenBatchParams, open_store
from flatmix.testing import tiny_store


def test_a_tiny_store_holds_numbered_ids(tmp_path: Path):
    store = open_store(tiny_store(tmp_path / "tiny.zarr"))
    assert store.languages == ("ar", "en", "sw")
    assert [store[name]["train"].tokens for name in ("en", "ar", "sw")] == [640, 320, 32]
    out = np.empty(32, np.uint32)
    store["sw"]["train"].reader().read(0, 32, out).result()
    assert (out >> 1).tolist() == list(range(9000, 9032))
    assert np.flatnonzero(out & 1).tolist() == [0, 20]


def test_a_tiny_store_holds_the_documents_it_is_given(tmp_path: Path):
    path = tiny_store(tmp_path / "tiny.zarr", {"xx": [[1, 2, 3], [], [4]]}, split="validation")
    assert open_store(path)["xx"]["validation"].seq_starts(0, 4).tolist() == [0, 3, 3, 4]
    with pytest.raises(StoreError, match="validation"):
        tiny_store(path, {"xx": [[1]]}, split="validation")


def test_a_loader_reads_it_as_it_is(tmp_path: Path):
    params = FlatTokensParams(tiny_store(tmp_path / "tiny.zarr"), streams=2, seed=0)
    with ShufflingLoader("train", params, MixtureParams({"en": 1, "ar": 1}), TokenBatchParams(8, 4)) as loader:
        assert loader.load(0).targets.shape == (4, 8)
