"""a TOML file -> its values, and for messages the line of each key.

`tomllib` tells the lines of broken syntax only. So each line is looked at by itself as well, which finds the headers of
tables, and the keys whose value begins and ends on their line: that is what people write. What a value spread over
several lines holds is not found, and then the line of its key, or of its table, has to do.
"""

import os
import re
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

Keys = tuple[str | int, ...]  # ("mixture", "phases", 0, "step")

_PART = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_KEY = re.compile(rf"\s*({_PART}(?:\s*\.\s*{_PART})*)\s*=")
_HEADER = re.compile(r"\s*(\[\[?)([^\[].*?)\]\]?\s*(?:#.*)?$")


@dataclass(frozen=True)
class TomlFile:
    """A file that has been read. Its errors are ValueErrors that begin with the file and, where known, the line."""

    path: str
    text: str
    values: dict[str, Any]

    @cached_property
    def lines(self) -> dict[Keys, int]:
        return key_lines(self.text)

    def error(self, keys: Keys, message: str) -> ValueError:
        """An error whose sentence begins with the key: error(("batch", "len"), "is missing")."""
        return self._located(keys, f"{dotted(keys)} {message}")

    @contextmanager
    def settings(self, *tables: str, keys: Keys = ()) -> Iterator[None]:
        """ValueErrors that are raised inside get the file's name.

        The line is that of the setting with which the message begins, if one of `tables` has it, or that of `keys`.
        """
        try:
            yield
        except ValueError as error:
            first_word = str(error).split(" ", 1)[0]
            found = [(table, first_word) for table in tables if (table, first_word) in self.lines]
            raise self._located(found[0] if found else keys, str(error)) from None

    def _located(self, keys: Keys, message: str) -> ValueError:
        above = (keys[:end] for end in range(len(keys), 0, -1))
        line = next((self.lines[path] for path in above if path in self.lines), None)
        return ValueError(f"{self.path}{'' if line is None else f', line {line}'}: {message}")


def read_toml(path: str | os.PathLike[str]) -> TomlFile:
    """OSError where there is no such file; ValueError where it is not TOML."""
    path = os.fspath(path)
    if Path(path).is_dir():
        raise ValueError(f"{path} is a folder: a TOML file is needed")
    try:
        text = Path(path).read_bytes().decode()
        return TomlFile(path, text, tomllib.loads(text))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{path} is not TOML: {error}") from None
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not TOML: byte {error.start} is not UTF-8") from None


def dotted(keys: Keys) -> str:
    """A key path as messages have it: mixture.phases[0].step"""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys).removeprefix(".")


def key_lines(text: str) -> dict[Keys, int]:
    """The lines, from 1 on, of the tables and keys of a TOML text."""
    lines: dict[Keys, int] = {}
    elements: dict[Keys, int] = {}  # of each array of tables, the one that is being filled
    table: Keys = ()
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        if (header := _HEADER.match(line)) and (names := _names(header[2])):
            if header[1] == "[[":
                elements[names] = elements.get(names, -1) + 1
            table = _with_elements(names, elements)
            lines.setdefault(table, number)
        elif key := _KEY.match(line):
            for path in _paths(_loads(line) or _loads(f"{key[1]} = 0"), table):
                lines.setdefault(path, number)
    return lines


def _loads(line: str) -> dict[str, Any]:
    try:
        return tomllib.loads(line)
    except tomllib.TOMLDecodeError:
        return {}


def _names(header: str) -> Keys:
    """`a."b.c"` -> ("a", "b.c")"""
    return max(_paths(_loads(f"{header} = 0"), ()), key=len, default=())


def _with_elements(names: Keys, elements: dict[Keys, int]) -> Keys:
    path: Keys = ()
    for end, name in enumerate(names, 1):
        path += (name,) if names[:end] not in elements else (name, elements[names[:end]])
    return path


def _paths(value: Any, above: Keys) -> Iterator[Keys]:
    """The paths of all keys within `value`."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, below in inner:
        yield (*above, key)
        yield from _paths(below, (*above, key))
