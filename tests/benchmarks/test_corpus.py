"""The corpus of the benchmark: the same tokens for one seed, and in the store as in the raw files."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from helpers import documents_of, files_of

from flatmix.bench.corpus import VOCABULARY, Recipe, documents, encoded, make_corpus
from flatmix.store import open_store

RECIPE = Recipe("small", {"la": 30_000, "lb": 10_000}, {"la": 0.7, "lb": 0.3})


def raw(path: Path) -> np.ndarray:
    return np.fromfile(path, "<u2")


def test_one_seed_gives_the_same_bytes_and_another_does_not(tmp_path: Path):
    one = make_corpus(tmp_path / "one", RECIPE)
    two = make_corpus(tmp_path / "two", RECIPE)
    other = make_corpus(tmp_path / "other", replace(RECIPE, seed=RECIPE.seed + 1))

    assert files_of(one.folder) == files_of(two.folder)
    for name, path in one.raw_files.items():
        assert path.read_bytes() != other.raw_files[name].read_bytes()


def test_store_and_raw_files_hold_the_same_tokens(tmp_path: Path):
    corpus = make_corpus(tmp_path, RECIPE)
    store = open_store(corpus.store)

    assert store.languages == tuple(RECIPE.tokens)
    for name, tokens in RECIPE.tokens.items():
        split, values = store[name]["train"], raw(corpus.raw_files[name])
        out = np.empty(tokens, np.uint32)
        split.reader().read(0, tokens, out).result()
        assert split.tokens == tokens == len(values)
        assert values.tolist() == out.tolist()
        assert split.documents == np.count_nonzero(values & 1)


def test_documents_begin_where_the_raw_file_says_and_ids_fit_the_vocabulary(tmp_path: Path):
    corpus = make_corpus(tmp_path, RECIPE)
    values = raw(corpus.raw_files["lb"])
    starts = np.flatnonzero(values & 1)

    lengths = [len(ids) for ids in documents_of(open_store(corpus.store)["lb"]["train"])]

    assert np.diff([*starts, len(values)]).tolist() == lengths
    assert int(values.max() >> 1) < VOCABULARY


def test_frequencies_are_zipf_mandelbrot_and_lengths_lognormal():
    """The rank of each id is known for language 0; 400,000 draws are near their expectation."""
    parts = list(documents(1, 0, 400_000))
    ids = np.concatenate([ids for ids, _ in parts])
    lengths = np.concatenate([lengths for _, lengths in parts])
    expected = 1 / (np.arange(VOCABULARY) + 2.7)
    expected *= len(ids) / expected.sum()

    found = np.bincount(ids, minlength=VOCABULARY)

    assert len(ids) == lengths.sum() == 400_000
    assert np.all(np.abs(found[:50] - expected[:50]) < 6 * np.sqrt(expected[:50]))
    assert 400 < np.median(lengths) < 600
    assert lengths.min() >= 1


def test_languages_differ_in_their_ids_and_documents():
    first, second = (next(documents(1, number, 5000)) for number in (0, 1))

    assert first[1].tolist() != second[1].tolist()
    assert np.bincount(first[0]).argmax() != np.bincount(second[0]).argmax()


def test_start_bits_stand_at_the_first_token_of_each_document():
    ids = np.array([5, 6, 7, 31_999], np.uint16)

    assert encoded(ids, np.array([1, 3])).tolist() == [11, 13, 14, 63_998]


def test_a_corpus_that_is_there_is_taken_and_not_made_again(tmp_path: Path):
    corpus = make_corpus(tmp_path, RECIPE)
    times = {path: path.stat().st_mtime_ns for path in corpus.folder.rglob("*")}

    again = make_corpus(tmp_path, RECIPE)

    assert again == corpus
    assert {path: path.stat().st_mtime_ns for path in corpus.folder.rglob("*")} == times


def test_another_recipe_has_another_folder(tmp_path: Path):
    one, other = (make_corpus(tmp_path, replace(RECIPE, seed=seed)) for seed in (1, 2))

    assert one.folder != other.folder
    assert make_corpus(tmp_path, replace(RECIPE, seed=1)) == one


@pytest.mark.parametrize("content", [None, "{}", "not JSON"])
def test_something_else_in_its_place_is_refused(tmp_path: Path, content: str | None):
    folder = tmp_path / RECIPE.folder
    folder.mkdir()
    if content is not None:
        (folder / "corpus.json").write_text(content)

    with pytest.raises(ValueError, match="is not the corpus that it should be: remove it, or name another folder"):
        make_corpus(tmp_path, RECIPE)


def test_an_unfinished_corpus_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def full(self: Path, *_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_text", full)

    with pytest.raises(OSError, match="No space left"):
        make_corpus(tmp_path, RECIPE)
    assert list(tmp_path.iterdir()) == []


def test_the_description_names_languages_weights_and_tokens(tmp_path: Path):
    described = json.loads((make_corpus(tmp_path, RECIPE).folder / "corpus.json").read_text())

    assert described["languages"] == {
        "la": {"weight": 0.7, "tokens": 30_000},
        "lb": {"weight": 0.3, "tokens": 10_000},
    }
    assert described["vocab"] == VOCABULARY


def test_warming_reads_every_byte(tmp_path: Path):
    corpus = make_corpus(tmp_path, RECIPE)

    assert corpus.warm() == sum(len(content) for content in files_of(corpus.folder).values())
