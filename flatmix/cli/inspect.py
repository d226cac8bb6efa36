"""flatmix inspect"""

import json
from typing import Annotated, Any

import typer

_WIDTH = 200  # wider than any line: a pipe gets the same lines as a terminal


def inspect(
    store: Annotated[str, typer.Argument(help="The store.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what is in a store: languages, splits, tokens, documents, bytes, tokenizer, size on disk, complete or not.

    Example: flatmix inspect corpus.zarr
    """
    from flatmix.store import open_store

    opened = open_store(store)
    splits = [_describe(opened, language, split) for language in opened.languages for split in opened[language].splits]
    if as_json:
        print(json.dumps({"store": opened.path, "splits": splits}, ensure_ascii=False, indent=2))
    else:
        _print_table(opened.path, splits)


def _describe(store: Any, language: str, split: str) -> dict[str, Any]:
    status = store.status(language, split)
    described: dict[str, Any] = {"language": language, "split": split, "status": status}
    if status != "complete":
        return described
    opened = store[language][split]
    for name in ("tokens", "documents", "utf8_bytes", "max_token_id", "digest", "tokenizer", "source"):
        described[name] = getattr(opened, name)
    return described | {"bytes_on_disk": opened.size_on_disk()}


def _print_table(path: str, splits: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for name in (
        "language",
        "split",
        "tokens",
        "documents",
        "text bytes",
        "on disk",
        "largest id",
        "tokenizer",
        "status",
    ):
        table.add_column(
            name, justify="left" if name in ("language", "split", "tokenizer", "status") else "right", no_wrap=True
        )
    for split in splits:
        table.add_row(*_cells(split))
    print(f"{path}: {len({split['language'] for split in splits})} languages")
    if splits:
        Console(width=_WIDTH).print(table, crop=False)


def _cells(split: dict[str, Any]) -> list[str]:
    """One line of the table."""
    if split["status"] != "complete":
        return [split["language"], split["split"], *[""] * 6, split["status"]]
    numbers = [split[name] for name in ("tokens", "documents", "utf8_bytes", "bytes_on_disk", "max_token_id")]
    shown = ["unknown" if number is None else f"{number:,}" for number in numbers]
    return [split["language"], split["split"], *shown, (split["tokenizer"] or {}).get("name", "unknown"), "complete"]
