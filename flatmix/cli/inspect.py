"""flatmix inspect"""

from dataclasses import asdict, replace
from typing import Annotated, Any

import typer

from flatmix.cli.options import Language, Source, is_run_file
from flatmix.cli.output import print_json, print_table

_TEXT_COLUMNS = ("language", "split", "tokenizer", "status")
_STATES = ("complete", "incomplete")  # any other status is the reason why a split is refused: below the table


def inspect(
    store: Source,
    language: Language = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Show what is in a store: languages, splits, tokens, documents, bytes, tokenizer, size on disk, complete or not.

    With a run file, also what its weights become: of each language the share that was asked for and that of the
    tokens, by phase; and what its shuffle buffers take on this machine.

    \b
    Examples:
      flatmix inspect corpus.zarr
      flatmix inspect run.toml
      flatmix inspect older.zarr --language en
    """
    from flatmix.runfile import read_run
    from flatmix.store import open_store

    run = read_run(store) if is_run_file(store) else None
    if run is None:
        opened = open_store(store, language)
    else:
        opened = open_store(run.params.filespec, language or run.params.language, run.params.storage)
    splits = [_describe(opened, name, split) for name in opened.languages for split in opened[name].splits]
    described = {"store": opened.path, "splits": splits}
    if run is not None:
        described["mixture"] = _describe_mixture(run, opened)
        described["memory"] = _describe_memory(run, language)
    if as_json:
        print_json(described)
        return
    print(f"{opened.path}: {len({split['language'] for split in splits})} languages")
    if splits:
        headings = ("language", "split", "tokens", "documents", "text bytes", "on disk", "largest id", "tokenizer")
        print_table((*headings, "status"), map(_cells, splits), _TEXT_COLUMNS)
    for reason in (split["status"] for split in splits if split["status"] not in _STATES):
        print("refused: " + " ".join(reason.splitlines()))
    if run is not None:
        _print_mixture(described["mixture"])
        print("\n" + _memory_line(described["memory"]))


def _describe(store: Any, language: str, split: str) -> dict[str, Any]:
    status = store.status(language, split)
    described: dict[str, Any] = {"language": language, "split": split, "status": status}
    if status != "complete":
        return described
    opened = store[language][split]
    for name in ("tokens", "documents", "utf8_bytes", "max_token_id", "digest", "tokenizer", "source"):
        described[name] = getattr(opened, name)
    return described | {"bytes_on_disk": opened.size_on_disk()}


def _describe_mixture(run: Any, store: Any) -> dict[str, Any]:
    from flatmix.mixing import describe

    phases = describe(run.mixture, store.open(run.mixture.languages, run.split))
    return {"split": run.split, "mode": run.mixture.mode, "phases": [asdict(phase) for phase in phases]}


def _describe_memory(run: Any, language: str | None) -> dict[str, Any]:
    """That of a process which has all rows; or why there can be no loader."""
    from flatmix.loader import ShufflingLoader

    params = replace(run.params, language=language or run.params.language)
    try:
        with ShufflingLoader(run.split, params, run.mixture, run.token_batch_params, timeline=run.timeline) as loader:
            return loader.memory()
    except ValueError as error:
        return {"error": str(error)}


def _memory_line(memory: dict[str, Any]) -> str:
    if "error" in memory:
        return f"no loader can be made of this run: {memory['error']}"
    languages = memory["languages"].values()
    whole = sum(language["whole"] for language in languages)
    parts = [
        (sum(language["times_read"] == 1 and not language["read_alone"] for language in languages), "held whole"),
        (sum(language["times_read"] > 1 for language in languages), "held in parts, their blocks read several times"),
        (sum(language["read_alone"] > 0 for language in languages), "read row by row, at least in part"),
    ]
    told = "; ".join(f"{count} {what}" for count, what in parts if count)
    held = sum(language["held"] for language in languages)
    return (
        f"memory of the shuffle buffers: {held:,} bytes of rows, of {whole:,} that there are, and up to "
        f"{memory['buffers']:,} with blocks on their way, of a budget of {memory['budget']:,}. Languages: {told}"
    )


def _print_mixture(mixture: dict[str, Any]) -> None:
    """The shares of each phase; what only mode "content" uses is left out of the others."""
    content = mixture["mode"] == "content"
    columns = {"asked": "content", "byte_premium": "byte premium", "bytes_per_token": "bytes/token"} if content else {}
    columns["tokens"] = "tokens"
    for phase in mixture["phases"]:
        print(f"\nmixture of split {mixture['split']!r} from step {phase['step']} on, in shares of {mixture['mode']}:")
        rows = (
            [share["language"], *("-" if share[name] is None else f"{share[name]:.6f}" for name in columns)]
            for share in phase["languages"]
        )
        print_table(("language", *columns.values()), rows, _TEXT_COLUMNS)


def _cells(split: dict[str, Any]) -> list[str]:
    """One line of the table of splits."""
    if split["status"] != "complete":
        status = split["status"] if split["status"] in _STATES else "refused"
        return [split["language"], split["split"], *[""] * 6, status]
    numbers = [split[name] for name in ("tokens", "documents", "utf8_bytes", "bytes_on_disk", "max_token_id")]
    shown = ["unknown" if number is None else f"{number:,}" for number in numbers]
    return [split["language"], split["split"], *shown, (split["tokenizer"] or {}).get("name", "unknown"), "complete"]
