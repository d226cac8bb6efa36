"""options of a command -> the settings of a run, from a run file or from the options alone.

A command about a run takes a store and all that its order depends on, or a run file (.toml) in place of the store and
only what shall differ from it. Its options are spelled here, once for all such commands, and `run_of` reads them.
"""

from typing import Annotated, Any

import typer

Source = Annotated[str, typer.Argument(help="The store, or a run file (.toml) that names it.")]
Language = Annotated[
    str | None, typer.Option(metavar="NAME", help="The language of an older store, which does not name it itself.")
]
Weights = Annotated[
    list[str] | None,
    typer.Option("--weight", metavar="LANGUAGE=WEIGHT", help="Shares of tokens, in place of the run file's mixture."),
]
Length = Annotated[int | None, typer.Option("--len", metavar="LEN", help="Targets of a row.")]
Batch = Annotated[int | None, typer.Option(help="Rows of a batch.")]
Streams = Annotated[int | None, typer.Option(help="Streams of the order.")]
Seed = Annotated[int | None, typer.Option(help="Seed of the order.")]
SplitName = Annotated[str | None, typer.Option(help="The split. [default: train]")]
ExtraTokens = Annotated[int | None, typer.Option(help="Tokens of a window beyond its targets. [default: 0]")]
Stride = Annotated[int | None, typer.Option(help="Tokens between windows. [default: a window]")]
Selector = Annotated[str | None, typer.Option(help="hash or balanced. [default: hash]")]
Block = Annotated[int | None, typer.Option(help="sequences_per_read_block. [default: auto]")]
Buffer = Annotated[int | None, typer.Option(help="read_blocks_per_shuffle_buffer. [default: auto]")]


def is_run_file(source: str) -> bool:
    return source.lower().endswith(".toml")


def run_of(
    source: str,
    *,
    language: str | None,
    split: str | None,
    weights: list[str] | None,
    length: int | None,
    batch: int | None,
    extra_tokens: int | None,
    stride: int | None,
    streams: int | None,
    seed: int | None,
    selector: str | None,
    block: int | None,
    buffer: int | None,
) -> Any:
    """The flatmix.runfile.Run of a run file, with the options that were given in place of its own; or of a store.

    ValueError where a store lacks options that only a run file could spare.
    """
    from dataclasses import replace

    from flatmix.params import FlatTokensParams, MixtureParams, TokenBatchParams
    from flatmix.runfile import Run, read_run

    if is_run_file(source):
        run = read_run(source)
    else:
        needed = {"--weight": weights, "--len": length, "--batch": batch, "--streams": streams, "--seed": seed}
        missing = [option for option, value in needed.items() if value is None or value == []]
        if missing:
            raise ValueError(f"{source} is no run file (.toml), so say all of the order: {', '.join(missing)} missing")
        mixture, shape = MixtureParams(_weights(weights)), TokenBatchParams(length, batch)
        run = Run("train", FlatTokensParams(source, streams, seed), mixture, shape)
    mixture = replace(run.mixture, **without_none(selector=selector))
    if weights:
        named = _weights(weights)
        keys = {name: key for name, key in (mixture.keys or {}).items() if name in named}
        mixture = replace(mixture, weights=named, phases=None, mode="tokens", byte_premiums=None, keys=keys)
    return Run(
        run.split if split is None else split,
        replace(
            run.params,
            **without_none(language=language, streams=streams, seed=seed),
            **without_none(sequences_per_read_block=block, read_blocks_per_shuffle_buffer=buffer),
        ),
        mixture,
        replace(
            run.token_batch_params, **without_none(len=length, batch=batch, extra_tokens=extra_tokens, stride=stride)
        ),
        run.timeline,
    )


def without_none(**options: Any) -> dict[str, Any]:
    """The options that were given."""
    return {name: value for name, value in options.items() if value is not None}


def _weights(given: list[str]) -> dict[str, float]:
    weights: dict[str, float] = {}
    for item in given:
        name, _, number = item.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            name = ""
        if not name or name in weights:
            raise ValueError(f"--weight {item!r}: write LANGUAGE=WEIGHT, as in en=0.5, once for each language")
        weights[name] = value
    return weights
