"""flatmix show"""

import sys
from typing import Annotated, Any

import typer

from flatmix.cli.options import (
    Batch,
    Block,
    Buffer,
    ExtraTokens,
    Language,
    Length,
    Seed,
    Selector,
    Source,
    SplitName,
    Streams,
    Stride,
    Weights,
    run_of,
)
from flatmix.cli.output import print_json

_NS_A_SLOT = 3  # to count draws, on one core
_LONG = 5  # seconds


def show(
    store: Source,
    step: Annotated[int, typer.Option(help="The step whose rows are shown.")],
    weight: Weights = None,
    length: Length = None,
    batch: Batch = None,
    streams: Streams = None,
    seed: Seed = None,
    split: SplitName = None,
    extra_tokens: ExtraTokens = None,
    stride: Stride = None,
    selector: Selector = None,
    block: Block = None,
    buffer: Buffer = None,
    language: Language = None,
    rows: Annotated[str | None, typer.Option(help="Rows to show, as in 0,3,5-7. [default: all]")] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="The tokenizer.json that the store was made with; not needed for bytes.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the text of the rows of a step, with the language, epoch and window of each.

    A run file says everything but the step; options that are given count in place of what it says. With a store,
    --weight, --len, --batch, --streams and --seed are needed.

    \b
    Examples:
      flatmix show run.toml --step 12
      flatmix show corpus.zarr --step 12 --weight en=0.7 --weight sw=0.3 --len 64 --batch 8 --streams 8 --seed 7
    """
    from flatmix.loader import ShufflingLoader

    run = run_of(
        store,
        language=language,
        split=split,
        weights=weight,
        length=length,
        batch=batch,
        extra_tokens=extra_tokens,
        stride=stride,
        streams=streams,
        seed=seed,
        selector=selector,
        block=block,
        buffer=buffer,
    )
    with ShufflingLoader(run.split, run.params, run.mixture, run.token_batch_params, timeline=run.timeline) as loader:
        described = _describe(loader, _decoder(run, tokenizer), step, rows)
    if as_json:
        print_json({"step": step, "rows": described})
        return
    for row in described:
        print(f"row {row['row']}, slot {row['slot']}: {row['language']}, epoch {row['epoch']}, window {row['window']}")
        print(f"    {row['text']!r}")


def _describe(loader: Any, decoder: Any, step: int, rows: str | None) -> list[dict[str, Any]]:
    chosen = _row_numbers(rows, loader.order.timeline.batch(step))
    _tell_cost(loader.order, step)
    addresses = loader.order.rows(step, rows=chosen)
    host = loader.load_host(step, chosen)
    return [
        {
            "row": row,
            "slot": int(addresses.slot[place]),
            "language": loader.languages[host.language[place]],
            "epoch": int(addresses.epoch[place]),
            "window": int(addresses.window[place]),
            "text": decoder.decode(host.targets[place].tolist()),
        }
        for place, row in enumerate(chosen)
    ]


def _tell_cost(order: Any, step: int) -> None:
    """Says how long the draws before a late step take to count, where that is long."""
    from flatmix.order.counts import cores

    slots = order.timeline.first_slot(step)
    seconds = slots * _NS_A_SLOT * 1e-9 / cores()
    if order.selector == "hash" and seconds > _LONG:
        print(
            f"flatmix: counting the draws of {slots:.3g} slots takes about {seconds:,.0f} s; with selector balanced it "
            "would take none",
            file=sys.stderr,
        )


def _row_numbers(given: str | None, batch: int) -> list[int]:
    if given is None:
        return list(range(batch))
    chosen: list[int] = []
    for part in given.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"--rows {given!r}: write numbers and spans, as in 0,3,5-7")
        if not int(first) <= int(last or first) < batch:
            raise ValueError(f"--rows {given!r}: {part.strip()} is not within the rows of this step, 0 to {batch - 1}")
        chosen += range(int(first), int(last or first) + 1)
    return chosen


def _decoder(run: Any, tokenizer: str | None) -> Any:
    """The tokenizer of the store's text, checked to be the one that made it."""
    from flatmix.convert.tokenizer import load_tokenizer
    from flatmix.store import open_store

    loaded = load_tokenizer(tokenizer or "bytes")
    opened = open_store(run.params.filespec, run.params.language, run.params.storage)
    for language, split in opened.open(run.mixture.languages, run.split).items():
        made_with = split.tokenizer
        if made_with is None and tokenizer is None:
            raise ValueError(
                f"language {language!r} does not say which tokenizer made it: give its file with --tokenizer, or "
                f"--tokenizer bytes"
            )
        if made_with is not None and made_with.get("sha256") != loaded.identity["sha256"]:
            raise ValueError(
                f"language {language!r} was made with tokenizer {made_with.get('name', 'unknown')!r} (sha256 "
                f"{made_with.get('sha256', 'unknown')}), not {loaded.identity['name']!r}: give its file with "
                f"--tokenizer"
            )
    return loaded
