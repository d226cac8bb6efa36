"""How large everything is that is measured: for a full run, and for one of seconds, whose figures mean nothing.

The loaders of all figures are made here, from the same settings.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from flatmix.bench.corpus import SPLIT, Corpus, Recipe, make_corpus
from flatmix.bench.floor import Floor
from flatmix.loader import ShufflingLoader
from flatmix.loader.host import RowFormat
from flatmix.params import FlatTokensParams, MixtureParams, TokenBatchParams

SEED = 7
UNBOUNDED = 2**50  # bytes; more than any buffers take
_FOUR = {"la": (0.5, 100), "lb": (0.25, 50), "lc": (0.15, 30), "ld": (0.1, 20)}  # weight, millions of tokens


@dataclass(frozen=True)
class Settings:
    """`folder` holds the corpora. Times are seconds, sizes as their names say."""

    folder: Path
    rounds: int = 5
    name: str = "full"
    tokens_a_million: int = 1_000_000  # tokens of a corpus for each million that it should have
    length: int = 2048
    batch: int = 64
    streams: int = 8
    block: int = 128  # windows of a read block
    buffer: int = 4  # blocks of a shuffle buffer
    segment: int = 1000  # steps between two looks at the clock
    warm: int = 700  # steps before the first: all first buffers are used up, and all memory has been touched
    steps: int = 2000  # timed one by one
    far_step: int = 1_000_000
    refills: int = 20
    rest: float = 0.1  # before a loader is opened against the clock: another may have left something to be done
    languages: int = 200
    language_block: int = 8  # the same as `block`, of these
    delay: float = 0.05  # of every read
    reads_at_most: int = 20  # under way
    training: float = 0.06  # of a step, in the loop with slow reads
    slow_warm: int = 100
    slow_steps: int = 160

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "folder": str(self.folder)}

    @staticmethod
    def from_json(values: Mapping[str, Any]) -> "Settings":
        return Settings(**{**values, "folder": Path(values["folder"])})

    @property
    def batch_tokens(self) -> int:
        return self.batch * self.length

    @property
    def form(self) -> RowFormat:
        return RowFormat(self.length)

    @property
    def four_recipe(self) -> Recipe:
        tokens = {name: millions * self.tokens_a_million for name, (_, millions) in _FOUR.items()}
        weights = {name: weight for name, (weight, _) in _FOUR.items()}
        return Recipe(f"four-{self.name}", tokens, weights)

    @cached_property
    def four(self) -> Corpus:
        """Four languages of different sizes and weights, as a store and as raw files."""
        return make_corpus(self.folder, self.four_recipe)

    @cached_property
    def many(self) -> Corpus:
        """Many languages of one size, with the weights 1, 1/2, 1/3, ...; a store only."""
        names = [f"m{rank:03}" for rank in range(1, self.languages + 1)]
        weights = {name: 1 / rank for rank, name in enumerate(names, 1)}
        return make_corpus(
            self.folder, Recipe(f"many-{self.name}", dict.fromkeys(names, self.tokens_a_million), weights, raw=False)
        )

    def loader(self, corpus: Corpus, block: int, selector: str = "hash", budget: int | str = "auto") -> ShufflingLoader:
        params = FlatTokensParams(
            corpus.store,
            streams=self.streams,
            seed=SEED,
            sequences_per_read_block=block,
            read_blocks_per_shuffle_buffer=self.buffer,
            memory_budget=budget,
        )
        shape = TokenBatchParams(self.length, self.batch)
        return ShufflingLoader(SPLIT, params, MixtureParams(corpus.recipe.weights, selector), shape)

    def four_loader(self, selector: str = "hash", budget: int | str = "auto") -> ShufflingLoader:
        return self.loader(self.four, self.block, selector, budget)

    def floor(self, slot: int = 0) -> Floor:
        return Floor(self.four.raw_files, self.four.recipe.weights, self.length, self.batch, slot)


def full(folder: Path, rounds: int) -> Settings:
    return Settings(folder, rounds)


def quick(folder: Path, rounds: int) -> Settings:
    """A hundredth of the tokens, shorter rows and few steps: to see that everything runs."""
    return Settings(
        folder,
        min(rounds, 1),
        name="quick",
        tokens_a_million=10_000,
        length=128,
        block=16,
        segment=10,
        warm=20,
        steps=40,
        far_step=10_000,
        refills=1,
        rest=0.01,
        languages=10,
        language_block=2,
        delay=0.01,
        training=0.015,
        slow_warm=5,
        slow_steps=5,
    )


def buffer_bytes(loader: ShufflingLoader) -> int:
    """What the rows of all shuffle buffers take together when each is full."""
    streams, words = loader.order.streams, loader.token_batch_params.window
    return sum(shuffle.buffer_windows for shuffle in loader.order.shuffles.values()) * streams * words * 4


def read_blocks(loader: ShufflingLoader) -> int:
    """The read blocks of all languages."""
    return sum(shuffle.blocks for shuffle in loader.order.shuffles.values())


def bytes_held(loader: ShufflingLoader) -> int:
    """What the loader says that its buffers take at most."""
    return loader.memory()["buffers"]
