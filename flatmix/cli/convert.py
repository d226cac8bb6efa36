"""`flatmix convert`: files of documents -> splits of a store, and a table of what came of them."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from flatmix.cli.output import print_json
from flatmix.errors import ConvertError


def convert(
    store: Annotated[str, typer.Argument(help="Folder of the store; made, or added to.", show_default=False)],
    files: Annotated[
        list[str] | None, typer.Argument(help="With --language-field: files, folders or globs.", show_default=False)
    ] = None,
    language: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=FILES", help="A language and its file, folder or glob; may be repeated."),
    ] = None,
    language_field: Annotated[
        str | None, typer.Option(metavar="FIELD", help="The field of each record in FILES that names its language.")
    ] = None,
    split: Annotated[str, typer.Option(help="The split to write.")] = "train",
    tokenizer: Annotated[
        str, typer.Option(help='"bytes" (256 ids, built in) or the path of a tokenizer.json.')
    ] = "bytes",
    text_field: Annotated[str, typer.Option(help="The field of a JSON line that holds the text.")] = "text",
    begin_token: Annotated[
        str | None, typer.Option(metavar="TOKEN", help="Put this token (its text, or its id) before every document.")
    ] = None,
    end_token: Annotated[
        str | None, typer.Option(metavar="TOKEN", help="Put this token (its text, or its id) after every document.")
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Count broken records and leave them out, instead of an error.")
    ] = False,
    replace: Annotated[
        bool,
        typer.Option(
            "--replace", help="Write splits anew that are there already; each old one stays until the new is complete."
        ),
    ] = False,
    zarr_format: Annotated[
        int, typer.Option(help="The version of Zarr; 2 is for readers that know no other, and has no checksums.")
    ] = 3,
    compression: Annotated[
        str, typer.Option(help='"fast", or "small": 15 to 30 % smaller, at nearly twice the CPU time of reading.')
    ] = "fast",
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Convert documents to a flat-tokens store.

    Reads JSON lines (.jsonl, .json, .ndjson: an object a line, the text in --text-field) and plain text (.txt: a file
    is one document), in UTF-8. A folder stands for all files in it and below, a glob for the files and folders that it
    matches, both sorted by name. Links are followed; hidden files and folders, whose names begin with a dot, are
    skipped. Anything else that cannot be read or is no such file ends the command: all input is checked before
    anything is written.

    The tokens of a document are those of its text and no others, unless --begin-token or --end-token adds one. An
    empty text is a document without tokens; a text that is null or missing is a broken record.

    \b
    Examples:
      flatmix convert corpus.zarr --language en=texts/en --tokenizer tokenizer.json
      flatmix convert corpus.zarr --language sw='sw-*.jsonl' --language sw=more.txt
      flatmix convert corpus.zarr --language-field lang data.jsonl --split validation
    """
    from flatmix.convert import convert as convert_documents

    sources = _sources(language or [], files or [], language_field)
    with _watched(store, split, replace) as report:
        summary = convert_documents(
            store,
            sources,
            split,
            tokenizer,
            text_field=text_field,
            language_field=language_field,
            begin_token=begin_token,
            end_token=end_token,
            skip_bad=skip_bad,
            replace=replace,
            zarr_format=zarr_format,
            compression=_compression(compression),
            progress=report,
        )
    if as_json:
        print_json(summary.as_dict())
    else:
        _print_table(summary)
    for message in summary.bad_examples:
        print(f"flatmix: left out: {message}", file=sys.stderr)
    if summary.bad > len(summary.bad_examples):
        print(f"flatmix: left out: {summary.bad - len(summary.bad_examples)} more", file=sys.stderr)


def _sources(
    languages: Sequence[str], files: Sequence[str], language_field: str | None
) -> dict[str, list[str]] | list[str]:
    if language_field is not None:
        if languages:
            raise ConvertError("give --language or --language-field, not both; a second run can add to the store")
        if not files:
            raise ConvertError("--language-field needs files, after its field: --language-field lang data.jsonl")
        return list(files)
    if files:
        raise ConvertError(f"which language is {files[0]}? Say --language NAME={files[0]}, or give --language-field")
    sources: dict[str, list[str]] = {}
    for given in languages:
        name, equals, pattern = given.partition("=")
        if not (name and equals and pattern):
            raise ConvertError(f"--language {given}: say which files, as in --language en=FILES")
        sources.setdefault(name, []).append(pattern)
    if not sources:
        raise ConvertError("nothing to convert: give --language NAME=FILES, or --language-field FIELD FILES")
    return sources


def _compression(given: str) -> Any:
    from flatmix.store.format import check_compression

    check_compression(given)
    return given


@contextmanager
def _watched(store: str, split: str, replace: bool) -> Iterator[Callable[[str, int, int], None]]:
    """What to tell the progress to. An interruption becomes one line that says what it leaves, and exit status 130."""
    stage = "checking"
    try:
        with _progress() as bars:

            def report(now: str, done: int, total: int) -> None:
                nonlocal stage
                stage = now
                if bars is not None:
                    bars(now, done, total)

            yield report
    except KeyboardInterrupt:
        left = "nothing was written"
        if stage == "converting":
            state = "is incomplete or still the old one" if replace else "is incomplete"
            again = "run the same command again" + ("" if replace else ", with --replace")
            left = f"the split {split!r} that was being written in {store} {state}: {again}"
        print(f"flatmix: interrupted: {left}", file=sys.stderr)
        raise typer.Exit(130) from None


@contextmanager
def _progress() -> Iterator[Callable[[str, int, int], None] | None]:
    """A bar on standard error for each stage, where that is a terminal."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description:>10}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        tasks: dict[str, Any] = {}

        def report(stage: str, done: int, total: int) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(stage, total=total)
            bars.update(tasks[stage], completed=done)

        yield report


def _print_table(summary: Any) -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(f"{summary.store}, split {summary.split}"), title_justify="left")
    table.add_column("language")
    for heading in ("documents", "empty", "bad", "tokens", "bytes", "bytes/token"):
        table.add_column(heading, justify="right")
    for one in summary.languages:
        ratio = "-" if one.bytes_per_token is None else f"{one.bytes_per_token:.2f}"
        counts = (one.documents, one.empty, one.bad, one.tokens, one.utf8_bytes)
        table.add_row(escape(one.language), *(f"{count:,}" for count in counts), ratio)
    if len(summary.languages) > 1 or summary.bad:
        table.add_section()
        every = summary.languages
        tokens, utf8_bytes = sum(one.tokens for one in every), sum(one.utf8_bytes for one in every)
        documents, empty = sum(one.documents for one in every), sum(one.empty for one in every)
        ratio = f"{utf8_bytes / tokens:.2f}" if tokens else "-"
        table.add_row("all", *(f"{count:,}" for count in (documents, empty, summary.bad, tokens, utf8_bytes)), ratio)
    Console().print(table)
