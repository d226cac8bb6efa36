"""`flatmix verify`: reads a store back -> a table of its splits, and what is wrong with them, one fault a line.

With --repair, what is damaged is made again from its source before the table is printed.
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from flatmix.cli.convert import files_of_language, token_settings
from flatmix.cli.output import Bar, pace, print_json, print_table, progress_bars
from flatmix.errors import ConvertError

_TEXT_COLUMNS = ("language", "split", "verdict")


def verify(
    store: Annotated[str, typer.Argument(help="The store.", show_default=False)],
    language: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME",
            help="A language to verify, or that of an older store. With --repair also NAME=FILES, or NAME/SPLIT=FILES, "
            "its source. [default: all]",
        ),
    ] = None,
    split: Annotated[list[str] | None, typer.Option(metavar="NAME", help="A split to verify. [default: all]")] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Pieces read at once. [default: processors + 2, at most 8]")
    ] = None,
    repair: Annotated[bool, typer.Option("--repair", help="Make what is damaged again, from its source.")] = False,
    config: Annotated[
        str | None, typer.Option(metavar="FILE", help="With --repair: the file that named the sources to convert.")
    ] = None,
    tokenizer: Annotated[
        str | None, typer.Option(help="With --repair: the tokenizer that it was converted with. [default: bytes]")
    ] = None,
    begin_token: Annotated[
        str | None, typer.Option(metavar="TOKEN", help="With --repair: the token put before every document.")
    ] = None,
    end_token: Annotated[
        str | None, typer.Option(metavar="TOKEN", help="With --repair: the token put after every document.")
    ] = None,
    tokens: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="With --repair: what files of tokens do not say; see convert."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Read everything in a store back, and say what is damaged or wrong.

    Every chunk must be readable and every piece of 2^24 values have the digest that was taken when it was written;
    documents must start where both arrays say so, the largest id be the one that is told, and sources exist. Exit
    status 0 says that no fault was found, 1 that there are some: each is one line, with the shard and the tokens that
    it is about. Leftovers and foreign files are told, and are no faults. Nothing is changed, but with --repair.

    --repair makes just the damaged pieces again, from the source that is named as it was for convert, and writes those
    whose digests prove them; then it verifies these splits once more. The status is 0 if all is well now. What cannot
    be proven stays as it is, and a line says why. Damaged digests are repaired without a source. Training may go on
    meanwhile.

    \b
    Examples:
      flatmix verify corpus.zarr
      flatmix verify corpus.zarr --language sw --language en --split train --json
      flatmix verify corpus.zarr --repair --config conversion.toml
      flatmix verify corpus.zarr --repair --language en=texts/en --tokenizer tokenizer.json
    """
    from flatmix.verify import verify as verify_store

    given = {"config": config, "tokenizer": tokenizer, "begin-token": begin_token, "end-token": end_token}
    given["tokens"] = tokens
    if not repair:
        for name, value in given.items():
            if value is not None:
                raise ConvertError(f"--{name} says how to make damaged pieces again; give --repair as well")
    languages, files = _named(language or []) if repair else (language or [], {})
    sources = _sources(files, split or [], given) if repair else None
    mended, doing = None, "verified"
    try:
        with _progress("verifying") as report:
            found = verify_store(store, languages or None, split or None, threads=threads, progress=report)
        if sources is not None and not found.sound:
            from flatmix.convert.repair import repair as repair_store

            doing = "repaired; what was is proven, and the same command goes on"
            with _progress("verifying again") as report:
                mended = repair_store(found, **sources, threads=threads, progress=report)
            found = mended.after
    except KeyboardInterrupt:
        print(f"flatmix: interrupted: not everything was {doing}", file=sys.stderr)
        raise typer.Exit(130) from None
    if as_json:
        print_json(found.as_dict() if mended is None else mended.as_dict())
    else:
        _print(found, () if mended is None else mended.splits)
    if not found.sound:
        raise typer.Exit(1)


def _named(given: Sequence[str]) -> tuple[list[str], dict[str, list[str]]]:
    """NAME, NAME=FILES and NAME/SPLIT=FILES -> the languages, and the files of each name that has some."""
    names: list[str] = []
    files: dict[str, list[str]] = {}
    for one in given:
        if "=" not in one:
            names.append(one)
            continue
        name, pattern = files_of_language(one)
        files.setdefault(name, []).append(pattern)
        names.append(name.partition("/")[0])
    return list(dict.fromkeys(names)), files


def _sources(files: dict[str, list[str]], splits: Sequence[str], given: dict[str, Any]) -> dict[str, Any]:
    """What `repair` needs: from the file that is named, or from the options; an option goes before the file."""
    from flatmix.convert.plan import source_specs

    config = given["config"]
    if config is not None and files:
        raise ConvertError(f"--config {config} names the sources; leave out the files of --language, or the option")
    if config is not None and given["tokens"] is not None:
        raise ConvertError(f"--config {config} says what files of tokens are; leave out --tokens, or the option")
    settings = None
    if config is None:
        split = splits[0] if len(splits) == 1 else "train"
        tokens = None if given["tokens"] is None else token_settings(given["tokens"])
        specs = source_specs(files, split, text_field="text", language_field=None, tokens=tokens, download=False)
    else:
        from flatmix.convert.config import load_config

        settings = load_config(config)
        specs = list(settings.sources)
    chosen = {name: given[name.replace("_", "-")] for name in ("tokenizer", "begin_token", "end_token")}
    usual = {name: getattr(settings, name, None) for name in chosen}
    return {"specs": specs, **{name: usual[name] if chosen[name] is None else chosen[name] for name in chosen}}


def _print(found: Any, repairs: Sequence[Any]) -> None:
    splits = found.splits.values()
    if splits:
        headings = ("language", "split", "tokens", "documents", "seconds", "verdict")
        print_table(headings, map(_cells, splits), _TEXT_COLUMNS)
    for note in found.notes:
        print(f"note: {note}")
    for one in repairs:
        place = f"language {one.language!r}, split {one.split!r}"
        for array, pieces in one.repaired.items():
            print(f"repaired: {place}: {array}: piece{'s' * (len(pieces) > 1)} {', '.join(map(str, pieces))}")
        for reason in one.refused:
            print(f"not repaired: {place}: {reason}")
    for finding in found.findings:
        print(f"fault: {finding}")
    tokens = sum(split.tokens or 0 for split in splits)
    count = len(found.findings)
    verdict = f"{count} fault{'s' if count != 1 else ''}" if count else "no faults"
    print(f"{found.store}: {len(splits)} split{'s' if len(splits) != 1 else ''}, {tokens:,} tokens, {verdict}")


def _cells(split: Any) -> list[str]:
    counts = ["unknown" if count is None else f"{count:,}" for count in (split.tokens, split.documents)]
    return [split.language, split.split, *counts, f"{split.seconds:.1f}", split.verdict]


@contextmanager
def _progress(task: str) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on standard error, where that is a terminal."""
    say = pace()
    with progress_bars() as show:
        yield None if show is None else lambda done, total: show([Bar(task, done, total, say(done, total))])
