"""settings, however they are given -> a loader.

`ShufflingLoader` takes every setting as an object. `get_loader` also takes a run file, and where nothing has to be
mixed it needs no mixture. A Hugging Face data set has a loader of its own, for the same batches.
"""

import os

from jax.sharding import NamedSharding

from flatmix.loader import ShufflingLoader
from flatmix.loader.huggingface import HuggingFaceDataLoader
from flatmix.params import FlatTokensParams, HuggingFaceDataParams, MixtureParams, TokenBatchParams
from flatmix.runfile import read_run
from flatmix.store import open_store

_LISTED = 20


def get_loader(
    split: str | None,
    config: FlatTokensParams | HuggingFaceDataParams | str | os.PathLike[str],
    token_batch_params: TokenBatchParams | None = None,
    mixture: MixtureParams | None = None,
    sharding: NamedSharding | None = None,
) -> ShufflingLoader | HuggingFaceDataLoader:
    """A loader of the data that `config` says.

    Args:
        split: of the store or data set; None is the one of the run file.
        config: FlatTokensParams, HuggingFaceDataParams, or the path of a run file.
        token_batch_params: the shape of a batch; None is that of the run file.
        mixture: None is that of the run file; without one, a store's only language is read alone, as a data set is.
        sharding: how the rows lie on the devices; everything on one device of this process without it.

    What is given here counts, not what the run file says of it. Raises ValueError for settings that are missing or
    wrong, StoreError (a ValueError) for a store, OSError for a run file that is not there.
    """
    timeline = None
    if isinstance(config, str | os.PathLike):
        run = read_run(config)
        split = run.split if split is None else split
        token_batch_params = run.token_batch_params if token_batch_params is None else token_batch_params
        mixture = run.mixture if mixture is None else mixture
        config, timeline = run.params, run.timeline
    if not isinstance(config, FlatTokensParams | HuggingFaceDataParams):
        raise ValueError(
            f"config is {config!r}: FlatTokensParams, HuggingFaceDataParams or the path of a run file is needed"
        )
    for name, value in (("split", split), ("token_batch_params", token_batch_params)):
        if value is None:
            raise ValueError(f"{name} is None: only a run file can stand in for it, and config is none")
    if isinstance(config, HuggingFaceDataParams):
        if mixture is not None:
            raise ValueError("a mixture is given, and a Hugging Face data set is read alone: leave it out")
        return HuggingFaceDataLoader(split, config, token_batch_params, sharding)
    if mixture is None:
        mixture = _only_language(config)
    return ShufflingLoader(split, config, mixture, token_batch_params, sharding, timeline)


def _only_language(config: FlatTokensParams) -> MixtureParams:
    languages = open_store(config.filespec, config.language, config.storage).languages
    if len(languages) == 1:
        return MixtureParams({languages[0]: 1.0})
    if not languages:
        raise ValueError(f"store {config.filespec} has no languages")
    more = f" and {len(languages) - _LISTED} more" if len(languages) > _LISTED else ""
    raise ValueError(
        f"store {config.filespec} has {len(languages)} languages, {', '.join(map(repr, languages[:_LISTED]))}{more}: "
        f"say how much of each with a mixture, such as MixtureParams({{{languages[0]!r}: 0.7, {languages[1]!r}: 0.3}})"
    )
