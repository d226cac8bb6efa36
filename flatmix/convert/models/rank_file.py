"""A rank file of tiktoken (*.tiktoken: a line for each token, base64 of its bytes and its rank) -> Model.

Such a file says neither where text is split nor which special tokens there are. Both come from `tiktoken` for the files
that it knows by name and content (cl100k_base.tiktoken, o200k_base.tiktoken, p50k_base.tiktoken, r50k_base.tiktoken);
for any other a file beside it, with ".json" behind the whole name, must say them, in the words of `tiktoken.Encoding`:
{"pat_str": "...", "special_tokens": {"<|endoftext|>": 1000}}. Both are part of the digest. Special tokens never come
from a text. Where a pattern needs more stack than there is, as for millions of spaces, the library panics, and the
document is refused.
"""

import base64
import binascii
import hashlib
import json
import re
import types
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from flatmix.convert.models import Model, gather, is_panic
from flatmix.errors import ConvertError, ReadError

MAX_RANK = 2**32 - 1
KNOWN = ("cl100k_base", "o200k_base", "p50k_base", "r50k_base")
_FIRST_LINE = re.compile(rb"[A-Za-z0-9+/]+={0,2} \d+\r?(\n|$)")


class Rules(msgspec.Struct, forbid_unknown_fields=True):
    """What a rank file leaves out."""

    pat_str: str
    special_tokens: dict[str, int] = {}


def is_rank_file(path: Path, definition: bytes) -> bool:
    """By its name, or by its first line: some models come with one called tokenizer.model."""
    return path.suffix == ".tiktoken" or _FIRST_LINE.match(definition) is not None


def load(path: Path, definition: bytes) -> tuple[Model, bytes]:
    """The model, and its definition: the file and what it leaves out."""
    try:
        import tiktoken  # here, because it is an extra
    except ImportError:
        raise ConvertError(
            f"tokenizer {path} is a rank file of tiktoken, and tiktoken is not installed: pip install "
            '"flatmix[tiktoken]"'
        ) from None
    ranks = _parse(path, definition)
    beside = path.with_name(path.name + ".json")
    if beside.is_file():
        rules = _read_rules(beside)
        said = json.dumps(msgspec.to_builtins(rules), sort_keys=True)
    else:
        rules, said = _known_rules(path, definition, beside), path.stem
    try:
        library = tiktoken.Encoding(
            path.stem, pat_str=rules.pat_str, mergeable_ranks=ranks, special_tokens=rules.special_tokens
        )
    except BaseException as error:
        if isinstance(error, Exception) or is_panic(error):
            raise ConvertError(f"tokenizer {path} with its pattern and special tokens is refused: {error}") from error
        raise
    return _model(library, path.name), definition + b"\n" + said.encode()


def _parse(path: Path, definition: bytes) -> dict[bytes, int]:
    ranks: dict[bytes, int] = {}
    for number, line in enumerate(definition.splitlines(), 1):
        if not line.strip():
            continue
        try:
            token, rank = line.split()
            ranks[base64.b64decode(token, validate=True)] = int(rank)
        except (ValueError, binascii.Error):
            raise ConvertError(
                f'tokenizer {path}, line {number}: {line[:80]!r} is not a token in base64 and its rank, as "IQ== 0" is'
            ) from None
    if not ranks:
        raise ConvertError(f"tokenizer {path} is empty")
    if not 0 <= min(ranks.values()) <= max(ranks.values()) <= MAX_RANK:
        raise ConvertError(f"tokenizer {path}: ranks must be from 0 to {MAX_RANK}, not {max(ranks.values())}")
    if len(set(ranks.values())) != len(ranks):
        raise ConvertError(f"tokenizer {path} gives a rank to two tokens; each needs its own")
    return ranks


def _read_rules(beside: Path) -> Rules:
    try:
        return msgspec.json.decode(beside.read_bytes(), type=Rules)
    except OSError as error:
        raise ReadError(f"{beside} could not be read: {error}") from error
    except msgspec.DecodeError as error:
        raise ConvertError(
            f'{beside} does not say how text is split, as {{"pat_str": "...", "special_tokens": {{"<|end|>": 1000}}}} '
            f"does: {error}"
        ) from error


def _known_rules(path: Path, definition: bytes, beside: Path) -> Rules:
    """As the library has them for the file of this name, if it is that file."""
    if path.stem not in KNOWN:
        raise ConvertError(
            f"tokenizer {path}: a rank file does not say how text is split; write {beside} with "
            '{"pat_str": "...", "special_tokens": {"...": id}}, as the model\'s code has them'
        )
    from tiktoken_ext import openai_public

    def use_ours(_: str, expected_hash: str | None = None) -> dict[bytes, int]:
        found = hashlib.sha256(definition).hexdigest()
        if found != expected_hash:
            raise ConvertError(
                f"tokenizer {path} is not the {path.stem} that tiktoken knows (sha256 {found[:12]}, not "
                f"{str(expected_hash)[:12]}); fetch it again, or if it is another one rename it, and write its rules "
                "beside it"
            )
        return {}

    # The library's function would fetch the file: it is called with another one in the place of the one that fetches.
    known = getattr(openai_public, path.stem)
    found: dict[str, Any] = types.FunctionType(known.__code__, {**vars(openai_public), "load_tiktoken_bpe": use_ours})()
    return Rules(found["pat_str"], found["special_tokens"])


def _model(library: Any, name: str) -> Model:
    def find_id(token: str) -> int | None:
        try:
            return library.encode_single_token(token)
        except KeyError:
            return None

    def find_token(token_id: int) -> str | None:
        try:
            return library.decode_single_token_bytes(token_id).decode(errors="backslashreplace")
        except KeyError:
            return None

    def encode(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        return gather(map(library.encode_ordinary, texts))

    def decode(ids: list[int]) -> str:
        try:
            return library.decode(ids)
        except (KeyError, OverflowError) as error:
            raise ValueError(f"ids {min(ids)} to {max(ids)} are not all of {name}: {error}") from error

    return Model(library.max_token_value + 1, find_id, find_token, encode, decode)
