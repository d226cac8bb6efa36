"""seed -> a corpus: the same tokens as a flat-tokens store and as raw files, one of each for every language.

Ids are drawn one by one, id of rank r with a probability proportional to 1 / (r + 2.7): the frequencies of text without
its repetitions, so a store of them is larger than one of text. Each language gives the ranks to other ids. Lengths of
documents are lognormal. A raw file holds what the store holds, `2 * id + start`, as uint16: ids stay below 32,000.

A corpus is made in a folder beside its own, which gets its name when all is there; so what has the name is complete.
Cost: 90 ns a token, most of it in the writer of the store.
"""

import hashlib
import json
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatmix.store.documents import encode
from flatmix.store.writer import SplitWriter

VOCABULARY = 32_000
SPLIT = "train"
_MEDIAN, _SPREAD = 500, 1.0  # tokens of a document; standard deviation of the logarithm
_SHIFT = 2.7
_TABLE_BITS = 18
_PIECE = 2**22  # tokens that are made at once
_STORE, _DESCRIPTION = "corpus.zarr", "corpus.json"


@dataclass(frozen=True)
class Recipe:
    """What a corpus is made from. `weights` are those of its mixture, and no part of the tokens."""

    name: str
    tokens: Mapping[str, int]
    weights: Mapping[str, float]
    seed: int = 20_260_101
    raw: bool = True  # raw files too

    @property
    def folder(self) -> str:
        """The name of its folder: another for another recipe."""
        described = json.dumps(self.description(), sort_keys=True).encode()
        return f"{self.name}-{hashlib.sha256(described).hexdigest()[:8]}"

    def description(self) -> dict[str, Any]:
        languages = {name: {"weight": self.weights[name], "tokens": tokens} for name, tokens in self.tokens.items()}
        return {"version": 1, "seed": self.seed, "vocab": VOCABULARY, "raw": self.raw, "languages": languages}


@dataclass(frozen=True)
class Corpus:
    """A corpus that is complete."""

    folder: Path
    recipe: Recipe

    @property
    def store(self) -> Path:
        return self.folder / _STORE

    @property
    def raw_files(self) -> dict[str, Path]:
        return {name: self.folder / f"{name}.bin" for name in self.recipe.tokens} if self.recipe.raw else {}

    def warm(self) -> int:
        """Reads every file once, so that all are in the page cache; how many bytes they have."""
        buffer, total = bytearray(2**22), 0
        for path in sorted(path for path in self.folder.rglob("*") if path.is_file()):
            with path.open("rb", buffering=0) as file:
                while count := file.readinto(buffer):
                    total += count
        return total


def make_corpus(folder: Path, recipe: Recipe) -> Corpus:
    """The corpus in its folder below `folder`: the one that is there, or a new one.

    ValueError where something else is in its place.
    """
    corpus = Corpus(folder / recipe.folder, recipe)
    if not corpus.folder.exists():
        folder.mkdir(parents=True, exist_ok=True)
        unfinished = Path(tempfile.mkdtemp(prefix=f"{recipe.name}.", dir=folder))
        try:
            _write(unfinished, recipe)
            if not corpus.folder.exists():  # another process may have been first
                unfinished.rename(corpus.folder)
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    _check(corpus)
    return corpus


def _check(corpus: Corpus) -> None:
    try:
        found = json.loads((corpus.folder / _DESCRIPTION).read_text("utf-8"))
    except (OSError, ValueError):
        found = None
    if found != corpus.recipe.description():
        raise ValueError(
            f"{corpus.folder} is not the corpus that it should be: remove it, or name another folder with --folder"
        )


def _write(folder: Path, recipe: Recipe) -> None:
    for number, (name, tokens) in enumerate(recipe.tokens.items()):
        with ExitStack() as stack:
            writer = stack.enter_context(SplitWriter(folder / _STORE, name, SPLIT))
            raw = stack.enter_context((folder / f"{name}.bin").open("wb")) if recipe.raw else None
            for ids, lengths in documents(recipe.seed, number, tokens):
                writer.add_many(ids, lengths)
                if raw is not None:
                    raw.write(encoded(ids, lengths).astype("<u2").tobytes())
            writer.finish()
    (folder / _DESCRIPTION).write_text(json.dumps(recipe.description(), indent=2) + "\n", "utf-8")


def documents(seed: int, number: int, tokens: int) -> Iterator[tuple[NDArray[np.uint16], NDArray[np.int64]]]:
    """The documents of language `number`, some at a time: ids uint16[sum of lengths], and lengths int64[documents]."""
    random = np.random.Generator(np.random.Philox([seed, number]))
    lengths = _lengths(random, tokens)
    ends = np.cumsum(lengths)
    ids = _ids_by_probability()
    first = 0
    while first < len(lengths):
        begin = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, begin + _PIECE, side="right")))
        size = int(ends[last - 1]) - begin
        ranks = ids[random.integers(0, 2**_TABLE_BITS, size, dtype=np.uint32)]
        yield (ranks + np.uint16(number * 4_099 % VOCABULARY)) % np.uint16(VOCABULARY), lengths[first:last]
        first = last


def encoded(ids: NDArray[np.uint16], lengths: NDArray[np.int64]) -> NDArray[np.uint16]:
    """2 * id, plus 1 where a document starts: uint16[tokens]."""
    return encode(ids, lengths, 0, "the raw files")[0].astype(np.uint16)


def _lengths(random: np.random.Generator, tokens: int) -> NDArray[np.int64]:
    """Lengths of documents, at least 1 each, that add up to `tokens`; the last is cut."""
    lengths = np.empty(0, np.int64)
    while lengths.sum() < tokens:
        more = random.lognormal(np.log(_MEDIAN), _SPREAD, tokens // _MEDIAN + 16)
        lengths = np.concatenate([lengths, np.maximum(1, more).astype(np.int64)])
    ends = np.cumsum(lengths)
    last = int(np.searchsorted(ends, tokens))
    lengths = lengths[: last + 1].copy()
    lengths[last] -= ends[last] - tokens
    return lengths


@cache
def _ids_by_probability() -> NDArray[np.uint16]:
    """uint16[2^18]: a place drawn evenly holds each rank as often as it should be drawn."""
    reached = np.cumsum(1.0 / (np.arange(VOCABULARY) + _SHIFT))
    places = (np.arange(2**_TABLE_BITS) + 0.5) / 2**_TABLE_BITS
    return np.searchsorted(reached / reached[-1], places).astype(np.uint16)
