"""a conversion file (TOML) -> what `convert` takes: sources and settings, each error with its file, line and key.

The file says what is converted and how; where to, and with how many workers, is for the command. Relative paths count
from the folder of the file, so that it can lie beside the data. Nothing is guessed: a key that is not known and a value
of another kind are refused before anything is looked at, and a language is text, since `nan` and `1e2` are languages.
"""

import glob
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import msgspec

from flatmix.convert.hold_out import check_hold_out
from flatmix.convert.imports.settings import check_settings
from flatmix.convert.plan import SourceSpec
from flatmix.errors import ConvertError
from flatmix.store.format import Compression, check_compression, check_name, check_zarr_format
from flatmix.tomlfile import Keys, TomlFile, read_toml


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """What a conversion file says. Paths are absolute; addresses and names at the hub are as they were written."""

    sources: tuple[SourceSpec, ...]
    tokenizer: str | None = None
    begin_token: str | int | None = None
    end_token: str | int | None = None
    hold_out: dict[str, float] = {}
    strict: bool = False
    zarr_format: int = 3
    compression: Compression = "fast"


def load_config(path: str | os.PathLike[str]) -> Config:
    """Reads and checks a conversion file; no input is looked at.

    Raises ConvertError, naming file, line and key, for what is none; OSError where there is no file.
    """
    try:
        file = read_toml(path)
        _check_keys(file, (), file.values, {**_SETTINGS, "source": None}, "a conversion file")
        sources = _sources(file)
        settings = {key: _SETTINGS[key](file, (key,), file.values[key]) for key in file.values if key != "source"}
    except ValueError as error:
        raise ConvertError(str(error)) from None
    return Config(sources=sources, **settings)


def _sources(file: TomlFile) -> tuple[SourceSpec, ...]:
    given = file.values.get("source", [])
    if not isinstance(given, list) or not all(isinstance(table, dict) for table in given):
        raise file.error(("source",), "must be tables: write [[source]]")
    if not given:
        raise file.error(("source",), "is missing: write [[source]], with its language and its data")
    sources = tuple(_source(file, ("source", number), table) for number, table in enumerate(given))
    first: dict[tuple[str, str], int] = {}
    for number, source in enumerate(sources):
        if source.language is not None:
            before = first.setdefault((source.language, source.split), number)
            if before != number:
                name = f"{source.language}/{source.split}"
                raise file.error(("source", number), f"is of {name}, as source[{before}] is; name all its data there")
    return sources


def _source(file: TomlFile, keys: Keys, table: Mapping[str, Any]) -> SourceSpec:
    _check_keys(file, keys, table, _SOURCE, "a source")
    if "data" not in table:
        raise file.error((*keys, "data"), 'is missing: name files, as in data = "en/*.jsonl"')
    if ("language" in table) == ("language_field" in table):
        state = "has both language and" if "language" in table else "has neither language nor"
        raise file.error(keys, f"{state} language_field: say one of them")
    return SourceSpec(**{key: _SOURCE[key](file, (*keys, key), value) for key, value in table.items()})


def _check_keys(file: TomlFile, keys: Keys, table: Mapping[str, Any], known: Mapping[str, Any], what: str) -> None:
    for key in table:
        if key not in known:
            raise file.error((*keys, key), f"is not known: {what} takes {', '.join(known)}")


def _text(file: TomlFile, keys: Keys, value: Any) -> str:
    if not isinstance(value, str):
        raise file.error(keys, f'is {_spelt(value)}: text in quotes is needed, "..."')
    if not value:
        raise file.error(keys, "is empty")
    return value


def _flag(file: TomlFile, keys: Keys, value: Any) -> bool:
    if not isinstance(value, bool):
        raise file.error(keys, f"is {_spelt(value)}: true or false is needed, without quotes")
    return value


def _name(kind: str) -> Callable[[TomlFile, Keys, Any], str]:
    def check(file: TomlFile, keys: Keys, value: Any) -> str:
        if not isinstance(value, str):
            raise file.error(keys, f"is {_spelt(value)}: a name is text, in quotes")
        with file.settings(keys=keys):
            check_name(kind, value)
        return value

    return check


def _token(file: TomlFile, keys: Keys, value: Any) -> str | int:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise file.error(keys, f"is {_spelt(value)}: the text of a token, or its id, is needed")
    return value


def _data(file: TomlFile, keys: Keys, value: Any) -> list[str]:
    if not isinstance(value, list):
        return [_place(file, _text(file, keys, value))]
    if not value:
        raise file.error(keys, "is empty: name at least one file")
    return [_place(file, _text(file, (*keys, number), one)) for number, one in enumerate(value)]


def _tokenizer(file: TomlFile, keys: Keys, value: Any) -> str:
    return value if value == "bytes" else _place(file, _text(file, keys, value))


def _place(file: TomlFile, given: str) -> str:
    """A path, from the folder of the file on; an address or a name at the hub as it is."""
    if "://" in given or given.startswith("hf:"):
        return given
    folder = Path(file.path).absolute().parent
    path = folder / given
    literal = path.exists() or not glob.has_magic(given)
    return str(path if literal or path == Path(given) else Path(glob.escape(str(folder)), given))


def _tokens(file: TomlFile, keys: Keys, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise file.error(keys, f'is {_spelt(value)}: a table is needed, as in {{ type = "uint16", document_end = 0 }}')
    with file.settings(keys=keys):
        check_settings(value, str(value.get("format", "")), "tokens")
    return value


def _hold_out(file: TomlFile, keys: Keys, value: Any) -> dict[str, float]:
    if not isinstance(value, dict):
        raise file.error(keys, f"is {_spelt(value)}: a table of shares is needed, as in {{ validation = 0.01 }}")
    for split, share in value.items():
        if isinstance(share, bool) or not isinstance(share, int | float):
            raise file.error((*keys, split), f"is {_spelt(share)}: a share of the documents is a number")
        with file.settings(keys=(*keys, split)):
            check_hold_out({split: share})
    with file.settings(keys=keys):
        return check_hold_out(value)


def _zarr_format(file: TomlFile, keys: Keys, value: Any) -> int:
    if type(value) is not int:
        raise file.error(keys, f"is {_spelt(value)}: 3 or 2 is needed, without quotes")
    with file.settings(keys=keys):
        check_zarr_format(value)
    return value


def _compression(file: TomlFile, keys: Keys, value: Any) -> Any:
    with file.settings(keys=keys):
        check_compression(_text(file, keys, value))
    return value


def _spelt(value: Any) -> str:
    """A value as TOML has it, more or less."""
    return str(value).lower() if isinstance(value, bool) else repr(value)


_SETTINGS: dict[str, Callable[[TomlFile, Keys, Any], Any]] = {
    "tokenizer": _tokenizer,
    "begin_token": _token,
    "end_token": _token,
    "hold_out": _hold_out,
    "strict": _flag,
    "zarr_format": _zarr_format,
    "compression": _compression,
}
_SOURCE: dict[str, Callable[[TomlFile, Keys, Any], Any]] = {
    "data": _data,
    "language": _name("language"),
    "language_field": _text,
    "split": _name("split"),
    "text_field": _text,
    "tokens": _tokens,
    "download": _flag,
}
