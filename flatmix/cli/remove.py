"""`flatmix remove`: deletes a split or a language, after asking."""

import sys
from typing import Annotated, Any

import typer

from flatmix.cli.output import print_table


def remove(
    store: Annotated[str, typer.Argument(help="The store.", show_default=False)],
    language: Annotated[str, typer.Argument(help="The language that goes, or has the split.", show_default=False)],
    split: Annotated[
        str | None, typer.Option(metavar="NAME", help="The split that goes. [default: all, and the language]")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Delete a split of a language, or a language with all its splits; nothing brings them back.

    Asks first, with what will go; where there is no terminal to ask on, --yes must be given. Splits that were not
    completed go, too. One that is being written does not, nor does anything while there is something in its folder
    that is not of flatmix. A removal that was interrupted goes on when the command is given again.

    \b
    Examples:
      flatmix remove corpus.zarr sw --split validation
      flatmix remove corpus.zarr sw --yes
    """
    from flatmix.store.remove import remove as remove_from_store
    from flatmix.store.remove import what_would_go

    planned = what_would_go(store, language, split)
    if not yes:
        _ask(planned)
    print(f"deleted {_said(remove_from_store(store, language, split))}")


def _ask(planned: Any) -> None:
    """Ends the command unless a person agrees."""
    if not sys.stdin.isatty():
        raise ValueError(f"this would delete {_said(planned)}, and there is no terminal to ask on; give --yes")
    if planned.splits:
        print_table(("split", "tokens", "documents", "MB"), map(_cells, planned.splits), ("split",))
    if not typer.confirm(f"Delete {_said(planned)}?"):
        print("nothing was deleted")
        raise typer.Exit(1)


def _cells(split: Any) -> list[str]:
    counts = ["unknown" if count is None else f"{count:,}" for count in (split.tokens, split.documents)]
    return [split.name, *counts, f"{split.bytes_on_disk / 1e6:,.1f}"]


def _said(removal: Any) -> str:
    """What goes, in words."""
    names = ", ".join(repr(one.name) for one in removal.splits)
    what = f"split {names} of language {removal.language!r}"
    if removal.whole:
        what = f"language {removal.language!r} with " + (f"its splits {names}" if names else "no splits")
    known = [one for one in removal.splits if one.tokens is not None]
    counts = [f"{sum(one.tokens for one in known):,} tokens", f"{sum(one.documents for one in known):,} documents"]
    size = sum(one.bytes_on_disk for one in removal.splits)
    unknown = len(removal.splits) - len(known)
    told = (counts if known else []) + [f"{size / 1e6:,.1f} MB"]
    told += [f"{unknown} of them incomplete or damaged"] if unknown else []
    return f"{what} from {removal.store} ({', '.join(told)})"
