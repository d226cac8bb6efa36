"""flatmix inspect"""

import json
from typing import Annotated, Any

import typer


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

    table = Table(title=f"{path}: {len({split['language'] for split in splits})} languages", title_justify="left")
    for name in ("language", "split", "status", "tokenizer"):
        table.add_column(name, overflow="fold")
    for name in ("tokens", "documents", "text bytes", "bytes/token", "largest id", "on disk"):
        table.add_column(name, justify="right")
    for split in splits:
        cells = [split["language"], split["split"], split["status"]]
        if split["status"] == "complete":
            text = split["utf8_bytes"]
            per_token = f"{text / split['tokens']:.2f}" if text is not None and split["tokens"] else "unknown"
            cells += [(split["tokenizer"] or {}).get("name", "unknown"), f"{split['tokens']:,}", f"{split['documents']:,}"]
            cells += ["unknown" if text is None else f"{text:,}", per_token, str(split["max_token_id"])]
            cells += [f"{split['bytes_on_disk']:,}"]
        table.add_row(*cells)
    Console(soft_wrap=True).print(table)
    if not splits:
        print("The store holds no split.")
