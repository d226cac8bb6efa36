"""Stretches and runs of documents whose lengths are known."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flatmix.convert.imports import documents

LENGTHS = st.lists(st.integers(0, 12), max_size=30)


@given(lengths=LENGTHS, size=st.integers(1, 60), block=st.integers(1, 7))
def test_stretches_are_all_documents_once_and_as_large_as_asked_for(lengths: list[int], size: int, block: int) -> None:
    blocks = (np.array(lengths[i : i + block], np.int64) for i in range(0, len(lengths), block))

    stretches = documents.cut_documents(blocks, 2, size)

    assert [start for start, _, _ in stretches] == [0, *(stop for _, stop, _ in stretches[:-1])]
    assert stretches[-1][1] == len(lengths)
    for start, stop, taken in stretches:
        assert taken == 2 * sum(lengths[start:stop])
        assert taken - 2 * max(lengths[start:stop], default=0) < size
    assert len(stretches) <= 2 * sum(lengths) // size + 1


@given(lengths=LENGTHS)
def test_runs_are_all_documents_once_and_as_many_as_fit(lengths: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(documents, "RUN", 10)
        spans = list(documents.runs(np.array(lengths, np.int64)))

    assert [i for span in spans for i in range(*span)] == list(range(len(lengths)))
    for i, j in spans:
        assert sum(lengths[i:j]) <= 10 or j == i + 1
        assert j == len(lengths) or sum(lengths[i : j + 1]) > 10
