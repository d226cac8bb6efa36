"""Pieces of a split: any of them, of whatever parts, holds what the whole split holds there."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from converted import Sizes, leave_unfinished, read_encoded, read_sources, write_lines
from hypothesis import given
from hypothesis import strategies as st

from flatmix.convert import assemble, convert
from flatmix.convert.assemble import ARRAYS, array_length, pieces_of, tasks
from flatmix.convert.outputs import Output, gather, save_layouts
from flatmix.convert.staging import JOB, load_job
from flatmix.store import format as layout
from flatmix.store import open_store

TEXTS = ["", "a", "", *[f"document {number}" * (number % 3) for number in range(40)], ""]


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Output, dict[str, np.ndarray]]:
    """The folder of an unfinished conversion, its output, and the arrays of the finished one."""
    folder = tmp_path_factory.mktemp("staged")
    for file in "ab":
        write_lines(folder / f"in/{file}.jsonl", TEXTS)
    convert(folder / "whole.zarr", {"en": folder / "in"})
    sizes = Sizes(unit_bytes=500, part_documents=2, batch_documents=1)
    leave_unfinished(folder / "s.zarr", {"en": folder / "in"}, sizes=sizes)
    (file,) = Path(folder / "s.zarr.staging").glob(f"*/{JOB}")
    job = load_job(str(file.parent))
    gathered = gather(job)
    save_layouts(file.parent, gathered)
    split = open_store(folder / "whole.zarr")["en"]["train"]
    files, records = zip(*read_sources(folder / "whole.zarr", "en"), strict=True)
    arrays = [read_encoded(split), split.seq_starts(0, split.documents + 1), np.array(files), np.array(records)]
    return str(file.parent), gathered.outputs[0], dict(zip(ARRAYS, arrays, strict=True))


@pytest.mark.parametrize("array", ARRAYS)
def test_values_of_any_stretch_are_those_of_the_whole(staged, array):
    folder, output, arrays = staged
    length = array_length(output, array)
    assert length == len(arrays[array])
    assert len(output.placed) > 30
    rng = np.random.default_rng(3)
    stretches = [(0, length), (0, 1), (length - 1, length), *rng.integers(0, length + 1, (40, 2)).tolist()]

    for first, stop in map(sorted, stretches):
        values = assemble._values(folder, load_job(folder), output, array, first, stop)
        assert values.dtype == np.dtype(layout.DTYPES[array]).newbyteorder("<")
        assert values.tolist() == arrays[array][first:stop].tolist()


@given(counts=st.lists(st.tuples(st.integers(0, 2**27), st.integers(1, 2**26)), min_size=1, max_size=5))
def test_every_piece_is_in_one_task_and_none_is_much_longer_than_others(counts):
    outputs = [
        Output(0, "en", f"s{n}", tokens, documents, 0, 0, 0, 0.0, []) for n, (tokens, documents) in enumerate(counts)
    ]
    pieces = [piece for number, output in enumerate(outputs) for piece in pieces_of(number, output)]

    made = list(tasks(outputs, pieces))

    assert [piece for task in made for piece in task] == pieces
    assert all(made)
    lengths = [
        sum(min(layout.PIECE, array_length(outputs[n], array) - i * layout.PIECE) for n, array, i in task)
        for task in made
    ]
    assert max(lengths) <= layout.PIECE
    for (one, after), task in zip(pairwise(lengths), made, strict=False):
        assert one + after > layout.PIECE / 4 or len(task) > 16


def test_pieces_cover_each_array_to_its_end():
    output = Output(0, "en", "train", 2 * layout.PIECE, layout.PIECE, 0, 0, 0, 0.0, [])

    counts = {array: [piece for _, other, piece in pieces_of(3, output) if other == array] for array in ARRAYS}

    assert counts == {
        layout.ENCODED_TOKENS: [0, 1],
        layout.SEQ_STARTS: [0, 1],
        layout.SOURCE_FILE: [0],
        layout.SOURCE_RECORD: [0],
    }
