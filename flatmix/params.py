"""What a user sets: the shape of a batch, the store and its order, the mixture. Checked when made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from flatmix.order import SELECTORS, Size, whole_number

Weights = Mapping[str, float]


@dataclass(frozen=True)
class TokenBatchParams:
    """The shape of a batch: `batch` rows of `len` targets each.

    A row is a window of `len + extra_tokens` tokens; windows begin every `stride` tokens (default: their own length).
    With `extra_tokens=1` the input of the first target is known; `stride=len` then makes every token but the first of a
    split a target once.
    """

    len: int
    batch: int
    extra_tokens: int = 0
    stride: int | None = None

    def __post_init__(self) -> None:
        for name, least in (("len", 1), ("batch", 1), ("extra_tokens", 0)):
            object.__setattr__(self, name, whole_number(getattr(self, name), name, least))
        if self.stride is not None:
            object.__setattr__(self, "stride", whole_number(self.stride, "stride", 1))

    @property
    def window(self) -> int:
        """W, the tokens of a window."""
        return self.len + self.extra_tokens

    @property
    def window_stride(self) -> int:
        """Tokens from the start of one window to that of the next."""
        return self.window if self.stride is None else self.stride


@dataclass(frozen=True)
class FlatTokensParams:
    """Where the tokens are, in which order they come, and what reading them may use.

    The order depends on `streams`, `seed` and the two sizes; the rest changes only how fast a batch comes.
    """

    filespec: str  # the store
    streams: int  # independent shuffles; the largest number of hosts that will read, or a multiple of it
    seed: int  # 0 to 2^64 - 1
    read_blocks_per_shuffle_buffer: Size = "auto"  # more shuffle better, and take more memory; auto: up to 256
    sequences_per_read_block: Size = "auto"  # auto: about 2^18 tokens, some 500 kB to read
    sequence_packing: bool = True  # windows over documents laid end to end
    memory_budget: int | str = "auto"  # bytes of all shuffle buffers; auto: a quarter of what the process may use
    prefetch: int = 2  # batches made ahead by `steps`
    threads: int | None = None  # of the reader; one for each core without it
    vocab_size: int | None = None  # a split with ids at or above it is refused
    language: str | None = None
    storage: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        whole_number(self.prefetch, "prefetch", 0)
        for name, value in (("threads", self.threads), ("vocab_size", self.vocab_size)):
            if value is not None:
                whole_number(value, name, 1)
        if isinstance(self.memory_budget, str):
            if self.memory_budget != "auto":
                raise ValueError(f'memory_budget is {self.memory_budget!r}: take a number of bytes or "auto"')
        else:
            whole_number(self.memory_budget, "memory_budget", 0)
        if not self.sequence_packing:
            raise ValueError("sequence_packing=False: this version makes packed rows only")


@dataclass(frozen=True)
class MixtureParams:
    """How often each language is drawn.

    `weights` hold from the first slot on, `phases` are later ones as (step, weights). Languages stand in the sequence
    of `weights`, then of first mention in `phases`; a phase gives weight 0 to a language that it leaves out. `keys` set
    the shuffle key of a language in place of the one made from seed and name.
    """

    weights: Weights
    selector: str = "hash"
    phases: Sequence[tuple[int, Weights]] | None = None
    keys: Mapping[str, int] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.weights, Mapping) or not self.weights:
            raise ValueError(
                f"weights are {self.weights!r}: a mapping of at least one language to its weight is needed"
            )
        if self.selector not in SELECTORS:
            raise ValueError(f"selector is {self.selector!r}: take one of {', '.join(SELECTORS)}")
        for name in self.languages:
            if not isinstance(name, str):
                raise ValueError(f"a language of the mixture is {name!r}: names are strings (quote it in a file)")

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages, in the sequence that counts."""
        return tuple(
            dict.fromkeys(name for weights in (self.weights, *(w for _, w in self.phases or ())) for name in weights)
        )
