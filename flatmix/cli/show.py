"""flatmix show"""

import json
from typing import Annotated, Any

import typer


def show(
    store: Annotated[str, typer.Argument(help="The store.")],
    step: Annotated[int, typer.Option(help="The step whose rows are shown.")],
    weight: Annotated[list[str], typer.Option(metavar="LANGUAGE=WEIGHT", help="The mixture; once for each language.")],
    length: Annotated[int, typer.Option("--len", help="Targets of a row.")],
    batch: Annotated[int, typer.Option(help="Rows of a batch.")],
    streams: Annotated[int, typer.Option(help="Streams of the order.")],
    seed: Annotated[int, typer.Option(help="Seed of the order.")],
    split: Annotated[str, typer.Option(help="The split.")] = "train",
    extra_tokens: Annotated[int, typer.Option(help="Tokens of a window beyond its targets.")] = 0,
    stride: Annotated[int | None, typer.Option(help="Tokens between windows. [default: a window]")] = None,
    selector: Annotated[str, typer.Option(help="hash or balanced.")] = "hash",
    block: Annotated[int | None, typer.Option(help="sequences_per_read_block. [default: auto]")] = None,
    buffer: Annotated[int | None, typer.Option(help="read_blocks_per_shuffle_buffer. [default: auto]")] = None,
    rows: Annotated[str | None, typer.Option(help="Rows to show, as in 0,3,5-7. [default: all]")] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="The tokenizer.json that the store was made with; not needed for bytes.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show the text of the rows of a step, with the language, epoch and window of each.

    Example: flatmix show corpus.zarr --step 12 --weight en=0.7 --weight sw=0.3 --len 64 --batch 8 --streams 8 --seed 7
    """
    from flatmix.loader import ShufflingLoader
    from flatmix.params import FlatTokensParams, MixtureParams, TokenBatchParams

    order = FlatTokensParams(
        store, streams, seed, read_blocks_per_shuffle_buffer=buffer or "auto", sequences_per_read_block=block or "auto"
    )
    mixture = MixtureParams(_weights(weight), selector=selector)
    with ShufflingLoader(split, order, mixture, TokenBatchParams(length, batch, extra_tokens, stride)) as loader:
        decoder = _decoder(store, split, loader.languages, tokenizer)
        chosen = _row_numbers(rows, batch)
        addresses = loader.order.rows(step, rows=chosen)
        host = loader.load_host(step, chosen)
        described = [
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
    if as_json:
        print(json.dumps({"step": step, "rows": described}, ensure_ascii=False, indent=2))
        return
    for row in described:
        print(f"row {row['row']}, slot {row['slot']}: {row['language']}, epoch {row['epoch']}, window {row['window']}")
        print(f"    {row['text']!r}")


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


def _row_numbers(given: str | None, batch: int) -> list[int]:
    if given is None:
        return list(range(batch))
    chosen: list[int] = []
    for part in given.split(","):
        first, dash, last = part.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise ValueError(f"--rows {given!r}: write numbers and spans, as in 0,3,5-7")
        chosen += range(int(first), int(last or first) + 1)
    return chosen


def _decoder(store: str, split: str, languages: tuple[str, ...], tokenizer: str | None) -> Any:
    """The tokenizer of the store's text, checked to be the one that made it."""
    from flatmix.convert.tokenizer import load_tokenizer
    from flatmix.store import open_store

    loaded = load_tokenizer(tokenizer or "bytes")
    opened = open_store(store)
    for language in languages:
        made_with = opened[language][split].tokenizer or {}
        if made_with.get("sha256") != loaded.identity["sha256"]:
            raise ValueError(
                f"language {language!r} was made with tokenizer {made_with.get('name', 'unknown')!r} (sha256 "
                f"{made_with.get('sha256', 'unknown')}), not {loaded.identity['name']!r}: give its file with "
                f"--tokenizer"
            )
    return loaded
