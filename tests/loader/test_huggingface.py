"""A streamed data set: every token once and in order, over any sharding; one way through, and its end."""

import gc
import itertools
import logging
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from converted import save_words, utf8, write_lines
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from processes import outputs, run_python
from stores import FIELDS, Plain, assert_same, plain_batch
from typeguard import suppress_type_checks

from flatmix import (
    HuggingFaceDataLoader,
    HuggingFaceDataParams,
    MixtureParams,
    StateError,
    TokenBatch,
    TokenBatchParams,
    get_loader,
)
from flatmix.loader.huggingface import _preparer, pack

TEXTS = [
    "the cat",
    "",
    "sat on",
    "पर",
    "a mat of some length, over several rows and batches",
    "five5",
    "",
    "",
    "the end",
]
DOCUMENTS = utf8(*TEXTS)
TOKENS = sum(map(len, DOCUMENTS))  # 82
SHAPE = TokenBatchParams(4, 4)
ONCE = "reads its data set once, .*neither jump nor resume: .*convert the data set to a flat-tokens store"


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_lines(tmp_path_factory.mktemp("texts") / "texts.jsonl", TEXTS)


def loader(
    file: Path, shape: TokenBatchParams = SHAPE, sharding: NamedSharding | None = None, **changes: Any
) -> HuggingFaceDataLoader:
    return HuggingFaceDataLoader("train", HuggingFaceDataParams("json", data_files=file, **changes), shape, sharding)


def expected_batches(shape: TokenBatchParams, tokens: int = TOKENS) -> list[Plain]:
    """The rows that fill whole batches, cut token by token."""
    rows = len(range(shape.window, tokens + 1, shape.window_stride))
    first_rows = range(0, rows - shape.batch + 1, shape.batch)
    chosen = [[(0, row) for row in range(first, first + shape.batch)] for first in first_rows]
    return [plain_batch({"text": DOCUMENTS}, ["text"], rows, shape) for rows in chosen]


def assert_all_same(expected: list[Plain], found: list[TokenBatch]) -> None:
    for one, other in zip(expected, found, strict=True):
        assert_same(one, other)


def background_threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("flatmix-prefetch")}


def wait_until(true: Callable[[], bool]) -> None:
    """Fails by the time limit of the test where it never becomes true."""
    while not true():
        time.sleep(0.001)


# What is in the rows


@pytest.mark.parametrize("length", [1, 2, 3, 7])
@pytest.mark.parametrize("extra_tokens", [0, 1, 2])
@pytest.mark.parametrize("stride", [None, 1, 2, 3, 5, 12])
def test_rows_are_cut_from_documents_laid_end_to_end(length: int, extra_tokens: int, stride: int | None):
    """However the tokens are divided into documents, and however many rows a batch has."""
    stream = np.arange(1, 60, dtype=np.uint32)
    for batch, cuts in itertools.product([1, 2, 5], [[], [59], range(1, 59), [1, 2, 30], [20, 21, 58], [8, 16, 24]]):
        shape = TokenBatchParams(length, batch, extra_tokens, stride)
        expected = [stream[s : s + shape.window] for s in range(0, 60 - shape.window, shape.window_stride)]
        found = [rows.copy() for rows in pack(np.split(stream, cuts), shape)]
        assert all(rows.shape == (batch, shape.window) and rows.dtype == np.uint32 for rows in found)
        assert len(found) == len(expected) // batch
        whole = expected[: len(found) * batch]
        np.testing.assert_array_equal(np.concatenate(found) if found else [], whole)


def test_a_batch_is_not_written_again_while_later_ones_are_made():
    batches = list(pack(np.split(np.arange(1000, dtype=np.uint32), range(7, 1000, 7)), SHAPE))
    np.testing.assert_array_equal(np.concatenate(batches).ravel(), np.arange(len(batches) * 16))


@pytest.mark.parametrize("prefetch", [0, 2])
def test_targets_of_all_batches_are_all_tokens_once_and_in_order(file: Path, prefetch: int):
    with loader(file, TokenBatchParams(4, 2), prefetch=prefetch) as own:
        batches = list(own.steps())
    targets = np.concatenate([np.asarray(batch.targets).ravel() for batch in batches])
    starts = np.concatenate([np.asarray(batch.is_seq_start).ravel() for batch in batches])

    assert targets.tolist() == [token for ids in DOCUMENTS for token in ids][: len(targets)]
    assert len(targets) == TOKENS // 8 * 8
    assert np.flatnonzero(starts).tolist() == np.cumsum([0, *map(len, filter(None, DOCUMENTS))])[:-1].tolist()


@pytest.mark.parametrize(
    "shape",
    [
        SHAPE,
        TokenBatchParams(3, 2, extra_tokens=1),
        TokenBatchParams(4, 3, extra_tokens=1, stride=4),
        TokenBatchParams(5, 2, extra_tokens=2, stride=1),
        TokenBatchParams(4, 1, stride=11),
        TokenBatchParams(TOKENS, 1),
    ],
    ids=str,
)
def test_batches_are_those_cut_token_by_token(file: Path, shape: TokenBatchParams):
    """Inputs, flags and mask too, which follow the rules of every loader."""
    assert_all_same(expected_batches(shape), list(loader(file, shape).steps()))


def test_a_document_of_many_batches_goes_on_from_one_to_the_next(tmp_path: Path):
    file = write_lines(tmp_path / "long.jsonl", ["a" * 5, "b" * 4000, "c"])
    batches = list(loader(file).steps())
    assert len(batches) == 4006 // 16
    starts = np.concatenate([np.asarray(batch.is_seq_start).ravel() for batch in batches])
    assert np.flatnonzero(starts).tolist() == [0, 5]


def test_more_documents_than_are_tokenized_at_once_come_out_in_order(tmp_path: Path):
    texts = [f"{number:03}" for number in range(600)]
    batches = list(loader(write_lines(tmp_path / "many.jsonl", texts), TokenBatchParams(3, 10)).steps())
    rows = np.concatenate([np.asarray(batch.targets) for batch in batches])
    assert [bytes(row).decode() for row in rows.astype(np.uint8)] == texts


def test_a_tokenizer_of_a_file_and_added_tokens(tmp_path: Path):
    file = write_lines(tmp_path / "words.jsonl", ["a b", "", "c"])
    own = loader(file, TokenBatchParams(9, 1), tokenizer=save_words(tmp_path), begin_token="<bos>", end_token=5)
    batch = own.load(0)
    assert np.asarray(batch.targets).tolist() == [[1, 2, 3, 5, 1, 5, 1, 4, 5]]
    assert np.flatnonzero(np.asarray(batch.is_seq_start)).tolist() == [0, 4, 6]


# Where they lie


@pytest.mark.parametrize("spec", [(), ("data",), (None, "model"), ("data", "model"), (("data", "model"),)], ids=str)
def test_a_sharding_changes_where_rows_lie_and_not_what_they_hold(file: Path, spec: tuple[Any, ...]):
    sharding = NamedSharding(jax.make_mesh((2, 4), ("data", "model")), PartitionSpec(*spec))
    shape = TokenBatchParams(4, 8, extra_tokens=1, stride=4)
    batches = list(loader(file, shape, sharding).steps())
    assert_all_same(expected_batches(shape), batches)
    for name in FIELDS[:-1]:
        assert getattr(batches[0], name).sharding.is_equivalent_to(sharding, 2)


def test_a_process_takes_its_own_rows_out_of_all():
    """With what a process asks for that holds the last two of four rows."""

    class LastTwo:
        def own_rows(self, batch: int) -> list[int]:
            return [batch - 2, batch - 1]

        def to_devices(self, batch: int, own: list[int], rows: np.ndarray, language: np.ndarray) -> Any:
            return batch, own, rows.tolist(), language.tolist()

    with suppress_type_checks():
        prepare = _preparer(pack([np.arange(100, dtype=np.uint32)], TokenBatchParams(2, 4)), LastTwo(), 4)
        assert prepare(0) == (4, [2, 3], [[4, 5], [6, 7]], [0, 0])
        assert prepare(1) == (4, [2, 3], [[12, 13], [14, 15]], [0, 0])


def test_a_batch_that_the_mesh_does_not_divide_is_refused(file: Path):
    sharding = NamedSharding(Mesh(jax.devices(), "data"), PartitionSpec("data"))
    with pytest.raises(ValueError, match="does not divide into 8 parts"):
        loader(file, SHAPE, sharding)


# One way through


@pytest.mark.parametrize("prefetch", [0, 2])
def test_single_loads_and_iterators_take_turns(file: Path, prefetch: int):
    """What an iterator that was left has made ahead is not lost."""
    shape = TokenBatchParams(2, 2)
    own = loader(file, shape, prefetch=prefetch)
    found = [own.load(0), own.load(1)]
    found += itertools.islice(own.steps(2), 3)
    found += own.steps(5, 9)
    found += [*own.steps(9, 9), *own.steps(9, 4), own.load(9)]
    found += own.steps(10)
    assert_all_same(expected_batches(shape), found)


def test_any_step_but_the_next_is_refused(file: Path):
    own = loader(file)
    own.load(0)
    for step in (0, 2, 10**6):
        with pytest.raises(ValueError, match=rf"step is {step}, and the next step is 1: this loader {ONCE}"):
            own.load(step)
    with pytest.raises(ValueError, match=rf"start is 0, and the next step is 1: this loader {ONCE}"):
        own.steps()
    overtaken = own.steps(1)
    own.load(1)
    with pytest.raises(ValueError, match="step is 1, and the next step is 2"):
        next(overtaken)
    with suppress_type_checks():
        for step, words in ((-1, "at least 0"), (True, "a whole number is needed"), ("2", "a whole number is needed")):
            with pytest.raises(ValueError, match=words):
                own.load(step)
            with pytest.raises(ValueError, match=words):
                own.steps(2, step)
    assert_same(expected_batches(SHAPE)[2], own.load(2))


def test_there_is_no_state(file: Path):
    own = loader(file)
    with pytest.raises(StateError, match=f"there is no state of step 3: this loader {ONCE}"):
        own.state(3)
    with pytest.raises(StateError, match=f"no state can be restored: this loader {ONCE}"):
        own.restore({"version": 1})


@pytest.mark.parametrize("prefetch", [0, 2])
def test_the_end_is_told_once_with_what_is_left_out(file: Path, prefetch: int, caplog: pytest.LogCaptureFixture):
    own = loader(file, TokenBatchParams(4, 8), prefetch=prefetch)  # 20 rows, and 2 tokens
    words = r"texts.jsonl', split 'train' ends after 2 batches of 8 rows: it has 9 documents with 82 tokens, of which "
    words += "the last 18, enough for 4 rows, fill no batch and are left out"
    with caplog.at_level(logging.INFO, "flatmix"):
        assert own.metrics()["tokens_left_out"] == 0
        assert len(list(own.steps())) == 2
        assert list(own.steps(2)) == []
        for _ in range(2):
            with pytest.raises(ValueError, match=rf"there is no step 2: .*{words}\. To read it again, make a new"):
                own.load(2)
    (record,) = caplog.records
    assert words in record.message
    metrics = own.metrics()
    assert metrics.pop("seconds_waited") > 0
    assert metrics == {"documents": 9, "tokens": 82, "rows": 16, "rows_left_out": 4, "tokens_left_out": 18}


@pytest.mark.parametrize(
    ("shape", "rows", "tokens"),
    [
        (TokenBatchParams(41, 2), 0, 0),
        (TokenBatchParams(41, 3), 2, 82),
        (TokenBatchParams(4, 10, extra_tokens=1, stride=4), 0, 1),
        (TokenBatchParams(3, 10, extra_tokens=1, stride=2), 0, 0),
        (TokenBatchParams(3, 11, extra_tokens=1, stride=2), 7, 14),
        (TokenBatchParams(4, 1, stride=80), 0, 2),
        (TokenBatchParams(4, 1, stride=90), 0, 0),
        (TokenBatchParams(4, 3, stride=11), 2, 16),
        (TokenBatchParams(83, 1), 0, 82),
    ],
    ids=str,
)
def test_rows_and_tokens_left_out_are_counted(
    file: Path, shape: TokenBatchParams, rows: int, tokens: int, caplog: pytest.LogCaptureFixture
):
    own = loader(file, shape)
    given = len(list(own.steps()))
    metrics = own.metrics()
    assert (metrics["rows_left_out"], metrics["tokens_left_out"]) == (rows, tokens)
    assert metrics["rows"] == given * shape.batch
    assert bool(caplog.records) == bool(tokens)


def test_data_for_less_than_a_batch_says_so(file: Path, caplog: pytest.LogCaptureFixture):
    with pytest.raises(
        ValueError, match=r"there is no step 0: .* ends after 0 batches of 30 rows: .*enough for 20 rows"
    ):
        loader(file, TokenBatchParams(4, 30)).load(0)
    assert not caplog.records  # once is enough


# Opening and closing


def test_get_loader_gives_it(file: Path):
    own = get_loader("train", HuggingFaceDataParams("json", data_files=file, language="hi"), SHAPE)
    assert own.languages == ("hi",)
    assert_all_same(expected_batches(SHAPE), list(own.steps()))


def test_get_loader_refuses_a_mixture_beside_it(file: Path):
    params = HuggingFaceDataParams("json", data_files=file)
    with pytest.raises(ValueError, match="a mixture is given, and a Hugging Face data set is read alone: leave it out"):
        get_loader("train", params, SHAPE, MixtureParams({"text": 1.0}))
    with pytest.raises(ValueError, match="split is None"):
        get_loader(None, params, SHAPE)


def test_a_split_must_have_a_name(file: Path):
    with pytest.raises(ValueError, match="split is '': the name of a split"):
        HuggingFaceDataLoader("", HuggingFaceDataParams("json", data_files=file), SHAPE)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("prefetch", [0, 2])
def test_a_closed_loader_says_so_and_ends_its_thread(file: Path, prefetch: int):
    before = background_threads()
    with loader(file, prefetch=prefetch) as own:
        steps = own.steps()
        next(steps)
    with pytest.raises(ValueError, match="closed"):
        next(steps)
    for use in (lambda: own.load(1), lambda: own.steps(1)):
        with pytest.raises(ValueError, match="this loader is closed: make a new one"):
            use()
    wait_until(lambda: not background_threads() - before)
    own.close()
    unused = loader(file)
    unused.close()
    with pytest.raises(ValueError, match="closed"):
        unused.load(0)


@pytest.mark.timeout(30)
def test_a_loader_starts_no_thread_before_it_is_used_and_leaves_none_when_it_is_dropped(file: Path):
    before = background_threads()
    own = loader(file, TokenBatchParams(1, 1))
    assert not background_threads() - before
    own.load(0)
    assert background_threads() - before
    gc.disable()  # it must go by itself
    try:
        del own
        wait_until(lambda: not background_threads() - before)
    finally:
        gc.enable()


IMPORTS = """
import sys
import flatmix
flatmix.HuggingFaceDataParams("json", data_files="texts.jsonl")
flatmix.get_loader
print(*(name in sys.modules for name in ("flatmix.loader.huggingface", "datasets", "zarr")))
"""


def test_datasets_is_not_imported_before_a_loader_is_made():
    assert outputs(run_python(IMPORTS))[0].split() == ["True", "False", "False"]
