"""(store, splits, tokenizer) -> nothing, or what stands against it: checks that cost little and come first."""

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from flatmix.convert.find import Source
from flatmix.convert.listing import would_match
from flatmix.convert.tokenizer import describe_tokenizer, same_tokenizer
from flatmix.errors import ConvertError, StoreError
from flatmix.store import local_folder, open_store
from flatmix.store.folders import is_leftover
from flatmix.store.locks import is_being_written


def check_apart(sources: Sequence[Source], store: str, staging: str | None = None) -> None:
    """Refuses a file of two languages or splits, and an output among its own input: the next run would read it."""
    owners: dict[tuple[Any, ...], tuple[int, str]] = {}
    folder = os.path.abspath(local_folder(store))  # noqa: PTH100  as it is named
    root = Path(os.path.realpath(folder))
    outputs = {f"the store {store}": folder}
    if staging is not None:
        outputs[f"what is staged in {staging}"] = os.path.join(os.path.abspath(staging), "parts")  # noqa: PTH100, PTH118
    for number, source in enumerate(sources):
        whose = f"{source.language or '*'}/{source.split}"
        for what, place in outputs.items():
            within = [path for path in source.folders if Path(os.path.realpath(place)).is_relative_to(path)]
            within += [pattern for pattern in source.globs if would_match(pattern, place)]
            if within:
                raise ConvertError(f"{what} would lie in {within[0]}, which is its input; choose another place")
        for found in source.inputs:
            where = found.path if "://" in found.path else os.path.realpath(found.path)
            if Path(where).is_relative_to(root):
                raise ConvertError(
                    f"the input {found.path} lies in the store {store}; choose another place for one of them"
                )
            part = (where, found.options.get("split"), found.options.get("shard"))  # where a path has several of them
            owner, other = owners.setdefault(part, (number, whose))
            if owner != number:
                raise ConvertError(
                    f"{found.path} is named for {other} and for {whose}; a file is of one language and split, unless "
                    "its records name the language"
                )


def check_output(
    store: str,
    targets: Sequence[tuple[str, str]],
    tokenizer: dict[str, Any] | None,
    *,
    replace: bool,
    zarr_format: int,
) -> None:
    """Refuse a folder that is not ours, splits that are there, and a store of another tokenizer or version of Zarr.

    targets: the (language, split) that will be written. Raises ConvertError and touches nothing.
    """
    wanted: dict[str, set[str]] = {}
    for language, split in targets:
        wanted.setdefault(language, set()).add(split)
    check_case("languages", wanted)
    for splits in wanted.values():
        check_case("splits", splits)
    folder = local_folder(store)
    _check_writable(folder)
    if not os.path.lexists(folder) or _is_empty(folder):
        return
    try:
        there = open_store(store)
    except (StoreError, OSError) as error:
        raise ConvertError(f"{store} is there and cannot be added to, nothing in it was touched: {error}") from error
    if there.zarr_format != zarr_format:
        raise ConvertError(
            f"{store} is of Zarr v{there.zarr_format}, and a store is of one version: ask for "
            f"--zarr-format {there.zarr_format}, or choose another store"
        )
    check_case("languages", {*wanted, *there.languages})
    for language, split in targets:
        # Of all first: what another process has completed is not to be replaced while it goes on with the next.
        if is_being_written(folder / language / split):
            raise ConvertError(
                f"{store}: {language}/{split} is being written by another process; wait until it is done"
            )
    for language, split in targets:
        splits = there[language].splits if language in there.languages else ()
        check_case("splits", {*wanted[language], *splits})
        if language not in there.languages:
            _check_absent(folder / language)
        if split in splits and not replace:
            state = "" if there.status(language, split) == "complete" else ", though not complete"
            raise ConvertError(
                f"{store} has {language}/{split} already{state}; give another --split, or --replace to write it anew"
            )
        if split not in splits:
            _check_absent(folder / language / split)
    for language, name in _others(there, targets):
        _check_tokenizer(f"{store}: {language}/{name}", _tokenizer_of(there, language, name), tokenizer)


def _others(there: Any, targets: Sequence[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """The splits that will still be there."""
    for language in there.languages:
        for name in there[language].splits:
            if (language, name) not in targets:
                yield language, name


def _check_writable(folder: Path) -> None:
    """The first folder above, or `folder` itself, that is there must take new files."""
    there = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if not there.is_dir():
        raise ConvertError(f"{there} is a file, and the store is a folder; choose another place")
    if not os.access(there, os.W_OK | os.X_OK):
        raise ConvertError(f"{there} cannot be written to; choose another place, or ask for the right")


def _check_absent(folder: Path) -> None:
    """What lies where a group will be must be nothing, or an empty folder."""
    if os.path.lexists(folder) and not _is_empty(folder):
        raise ConvertError(f"{folder} is there and is not ours; nothing in it was touched, move it away first")


def _is_empty(folder: Path) -> bool:
    """Whether nothing lies in a folder but what a killed writer of its metadata has left."""
    return folder.is_dir() and all(is_leftover(entry.name) for entry in folder.iterdir())


def _tokenizer_of(store: Any, language: str, split: str) -> dict[str, Any] | None:
    try:
        return store[language][split].tokenizer
    except StoreError:  # not complete: it holds no tokens that could be mixed with others
        return None


def _check_tokenizer(where: str, there: dict[str, Any] | None, ours: dict[str, Any] | None) -> None:
    if there is not None and ours is not None and not same_tokenizer(there, ours):
        raise ConvertError(
            f"{where} was made with {describe_tokenizer(there)}, this conversion uses {describe_tokenizer(ours)}; "
            "a store holds the tokens of one tokenizer: use the same, or another store"
        )


def check_case(what: str, names: Iterable[str]) -> None:
    """ConvertError for two names that some file systems take for one."""
    seen: dict[str, str] = {}
    for name in sorted(names):
        other = seen.setdefault(name.casefold(), name)
        if other != name:
            raise ConvertError(f"{what} {other!r} and {name!r} differ only in case, and some file systems hold but one")
