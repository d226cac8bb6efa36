"""What a user sets: the shape of a batch, the store and its order, the mixture. Checked when made."""

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

from flatmix.order import SELECTORS, Size, whole_number

Weights = Mapping[str, float]
Files = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]
DataFiles = Files | Mapping[str, Files]

MODES = ("tokens", "content")
_BUILDERS = ("csv", "json", "parquet", "text")  # datasets would look for such files in the current folder
_NO_OPTIONS = ("path", "name", "data_files", "split", "streaming", "trust_remote_code")


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
    sequence_packing: bool = True  # windows over documents laid end to end; False: one document a row, cut and padded
    memory_budget: int | str = "auto"  # bytes of all shuffle buffers; auto: a quarter of what the process may use
    prefetch: int = 2  # batches made ahead by `steps`
    threads: int | None = None  # of the reader; one for each core without it
    vocab_size: int | None = None  # a split with ids at or above it is refused
    language: str | None = None
    storage: Mapping[str, Any] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "filespec", _path(self.filespec, "filespec"))
        if isinstance(self.memory_budget, str) and self.memory_budget != "auto":
            raise ValueError(f'memory_budget is {self.memory_budget!r}: take a number of bytes or "auto"')
        least = {"streams": 1, "seed": 0, "memory_budget": 0, "prefetch": 0, "threads": 1, "vocab_size": 1}
        for name, smallest in least.items():  # as Python's integers: NumPy's would overflow further on
            value = getattr(self, name)
            left_out = (
                value is None if name in ("threads", "vocab_size") else name == "memory_budget" and value == "auto"
            )
            if not left_out:
                object.__setattr__(self, name, whole_number(value, name, smallest))
        if self.seed >= 2**64:
            raise ValueError(f"seed is {self.seed}: it must be below 2^64")


@dataclass(frozen=True)
class HuggingFaceDataParams:
    """A data set of the Hugging Face hub or of this machine, and how its texts become tokens.

    `path` is a name on the hub, a local folder (also one that `save_to_disk` wrote), or "json", "text" or "parquet"
    with the files in `data_files`. Nothing here shuffles: a batch holds the next rows of the data set.
    """

    path: str | os.PathLike[str]
    tokenizer: str | os.PathLike[str] = "bytes"  # or the path of a tokenizer.json
    name: str | None = None  # of the configuration, where the data set has several
    data_files: DataFiles | None = None  # a path, URL or glob, a list of these, or a mapping of splits to these
    text_field: str = "text"
    language: str = "text"  # what the loader's `languages` call it
    begin_token: str | int | None = None  # put before every document: an id, or a token's text
    end_token: str | int | None = None
    prefetch: int = 2  # batches made ahead
    vocab_size: int | None = None  # a tokenizer with ids at or above it is refused
    options: Mapping[str, Any] | None = None  # more for `datasets.load_dataset`: cache_dir, revision, sample_by

    def __post_init__(self) -> None:
        for name in ("path", "tokenizer"):
            object.__setattr__(self, name, _path(getattr(self, name), name))
        if self.data_files is not None:
            object.__setattr__(self, "data_files", _paths(self.data_files))
        for name, value in (("text_field", self.text_field), ("language", self.language)):
            if not isinstance(value, str) or not value:
                raise ValueError(f"{name} is {value!r}: a name is needed")
        object.__setattr__(self, "prefetch", whole_number(self.prefetch, "prefetch", 0))
        if self.vocab_size is not None:
            object.__setattr__(self, "vocab_size", whole_number(self.vocab_size, "vocab_size", 1))
        if self.options is not None:
            object.__setattr__(self, "options", _options(self.options))
        if self.path in _BUILDERS and self.data_files is None and "data_dir" not in (self.options or {}):
            raise ValueError(f"path is {self.path!r}, a kind of file: data_files are needed, which name the files")


def _options(given: object) -> dict[str, Any]:
    """A copy of the arguments for `load_dataset`, none of which is set otherwise."""
    if not isinstance(given, Mapping):
        raise ValueError(f"options are {given!r}: a mapping of arguments of load_dataset is needed")
    for name in given:
        if name in _NO_OPTIONS:
            raise ValueError(
                f"options hold {name!r}: path, name, data_files and split are given apart, reading is always streamed, "
                f"and no code of a data set is run"
            )
    return dict(given)


def _path(value: object, name: str) -> str:
    """A path as text; a ValueError that names it where there is none."""
    path = os.fspath(value) if isinstance(value, str | os.PathLike) else None
    if not isinstance(path, str) or not path or "\0" in path:
        raise ValueError(f"{name} is {value!r}: text or a path is needed")
    return path


def _paths(files: object) -> DataFiles:
    """Data files with their paths as text. ValueError where there are none, or it is something else."""
    if isinstance(files, Mapping) and files:
        return {split: _paths(those) for split, those in files.items()}
    if isinstance(files, Sequence) and not isinstance(files, str | bytes) and files:
        return [_path(file, "a file of data_files") for file in files]
    return _path(files, "data_files")


@dataclass(frozen=True)
class MixtureParams:
    """How often each language is drawn.

    `weights` hold from the first slot on, `phases` are later ones as (step, weights). Languages stand in the sequence
    of `weights`, then of first mention in `phases`; a phase gives weight 0 to a language that it leaves out. `keys` set
    the shuffle key of a language in place of the one made from seed and name.

    With mode "tokens" weights are shares of the tokens, that is of the rows. With "content" they are shares of what is
    said, which `flatmix.mixing` turns into shares of the tokens; each language of some weight then needs its byte
    premium: how many bytes it takes to say what one reference, English for example, says in one.
    """

    weights: Weights
    selector: str = "hash"
    phases: Sequence[tuple[int, Weights]] | None = None
    keys: Mapping[str, int] | None = None
    mode: str = "tokens"
    byte_premiums: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", _weights(self.weights, "weights"))
        if self.phases is not None:
            object.__setattr__(self, "phases", _phases(self.phases))
        if self.selector not in SELECTORS:
            raise ValueError(f"selector is {self.selector!r}: take one of {', '.join(SELECTORS)}")
        for name in self.languages:
            if not isinstance(name, str):
                raise ValueError(f"a language of the mixture is {name!r}: names are strings (quote it in a file)")
        _check_mode(self)

    @property
    def languages(self) -> tuple[str, ...]:
        """The languages, in the sequence that counts."""
        return tuple(
            dict.fromkeys(name for weights in (self.weights, *(w for _, w in self.phases or ())) for name in weights)
        )


def _weights(given: object, what: str) -> Weights:
    """A copy: what is set does not change with what it was set from."""
    if not isinstance(given, Mapping) or not given:
        raise ValueError(f"{what} are {given!r}: a mapping of at least one language to its weight is needed")
    return dict(given)


def _phases(given: object) -> tuple[tuple[int, Weights], ...]:
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise ValueError(f"phases are {given!r}: a list of (step, weights) is needed")
    result: list[tuple[int, Weights]] = []
    for number, phase in enumerate(given):
        if not isinstance(phase, Sequence) or len(phase) != 2:
            raise ValueError(f"phase {number} is {phase!r}: it must be (step, weights)")
        step = whole_number(phase[0], f"the step of phase {number}", 1)
        if result and step <= result[-1][0]:
            raise ValueError(
                f"phase {number} begins at step {step}, and the one before it at {result[-1][0]}: steps rise"
            )
        result.append((step, _weights(phase[1], f"the weights from step {step} on")))
    return tuple(result)


def _check_mode(mixture: MixtureParams) -> None:
    """Byte premiums: all that are needed, and none that is not."""
    premiums = mixture.byte_premiums
    if mixture.mode not in MODES:
        raise ValueError(f"mode is {mixture.mode!r}: take one of {', '.join(MODES)}")
    if mixture.mode == "tokens":
        if premiums is not None:
            raise ValueError('byte_premiums are given, and mode is "tokens": they belong to mode "content"')
        return
    if not isinstance(premiums, Mapping):
        raise ValueError(f'byte_premiums are {premiums!r}: mode "content" needs a mapping of languages to theirs')
    for name, premium in premiums.items():
        if name not in mixture.languages:
            listed = ", ".join(map(repr, mixture.languages))
            raise ValueError(f"byte_premiums: {name!r} is no language of the mixture, which has {listed}")
        if not _above_zero(premium):
            raise ValueError(f"the byte premium of {name!r} is {premium!r}: it must be a finite number above 0")
    for weights in (mixture.weights, *(weights for _, weights in mixture.phases or ())):
        for name, weight in weights.items():
            if weight and name not in premiums:
                raise ValueError(
                    f'language {name!r} has no byte premium, and mode "content" needs one for each language of some '
                    f"weight: add it to byte_premiums (1.0 if it needs as many bytes as the reference)"
                )


def _above_zero(value: object) -> bool:
    """Whether `value` is a finite number above 0; NumPy's are numbers, truth values are none."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return False
    try:
        return 0 < float(value) < math.inf
    except OverflowError:
        return False
