"""text -> token ids: all tokens of the text and nothing else, unless a begin or an end token is asked for.

Who adds special tokens is said in one place, here. What a tokenizer's file would add by itself (special tokens,
padding, a cut at some length, a random dropout) is switched off, and text that reads like a special token stays text.
The begin and end tokens go in as ids, exactly once each, into empty documents too. The identity of all this is kept
with the tokens: a store holds the tokens of one tokenizer.
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from flatmix.errors import ConvertError

BYTES_DEFINITION = b"flatmix bytes 1: ids 0 to 255 are the bytes of the text in UTF-8"
MAX_VOCABULARY = 2**31  # the format keeps one bit of 32 for the start of a document


class Model(NamedTuple):
    """What is needed of a tokenizer, whoever made it."""

    vocabulary: int  # one more than the largest id, added tokens included
    find_id: Callable[[str], int | None]
    find_token: Callable[[int], str | None]
    encode: Callable[[list[str]], list[np.ndarray]]  # uint32[tokens] each, nothing added
    decode: Callable[[list[int]], str]


@dataclass(frozen=True)
class Tokenizer:
    """A loaded tokenizer; `load_tokenizer` makes it.

    identity: what a store keeps. `name`; `sha256` of the definition; `vocabulary`, one more than the largest id, added
        tokens included; `added`, what is put in and where: `{"begin": {"id": 1, "token": "<s>"}, "end": ...}`.
    """

    identity: dict[str, Any]
    model: Model
    begin: int | None
    end: int | None

    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        """The ids of each text, uint32[tokens], with the begin and end token if there is one.

        ConvertError where the tokenizer fails on one of them; it does not say on which.
        """
        plain = self.model.encode(list(texts))
        if self.begin is None and self.end is None:
            return plain
        before = np.array([] if self.begin is None else [self.begin], np.uint32)
        after = np.array([] if self.end is None else [self.end], np.uint32)
        return [np.concatenate([before, ids, after]) for ids in plain]

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """The text of `ids`, special tokens included; what is no whole character becomes U+FFFD."""
        return self.model.decode([int(i) for i in ids])

    @property
    def added_per_document(self) -> int:
        """How many tokens a document gets on top of those of its text: 0, 1 or 2."""
        return (self.begin is not None) + (self.end is not None)


def load_tokenizer(
    spec: str | os.PathLike[str], begin: str | int | None = None, end: str | int | None = None
) -> Tokenizer:
    """The tokenizer `spec`: "bytes", built in, or the path of a tokenizer.json of the `tokenizers` library.

    begin, end: a token put before or after every document: its id (an integer, or a string of digits), or its text as
    the vocabulary has it. Raises ConvertError for a file that is no tokenizer and for a token that is not there.
    """
    if spec == "bytes":
        name, definition, model = "bytes", BYTES_DEFINITION, _BYTES
    else:
        name, definition = Path(spec).name, _read_definition(Path(spec))
        model = _library_model(Path(spec), definition)
    if model.vocabulary > MAX_VOCABULARY:
        raise ConvertError(f"tokenizer {spec}: its largest id is {model.vocabulary - 1}, a store's are below 2**31")
    added: dict[str, dict[str, Any]] = {}
    for place, given in (("begin", begin), ("end", end)):
        if given is not None:
            token_id = _find_added(place, given, name, model)
            added[place] = {"id": token_id, "token": model.find_token(token_id)}
    digest = hashlib.sha256(definition).hexdigest()
    identity = {"name": name, "sha256": digest, "vocabulary": model.vocabulary, "added": added}
    ids = {place: token["id"] for place, token in added.items()}
    return Tokenizer(identity, model, ids.get("begin"), ids.get("end"))


def same_tokenizer(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two identities give the same ids: all but the name, which is only a file's, must be equal."""
    return all(one.get(key) == other.get(key) for key in ("sha256", "vocabulary", "added"))


def describe_tokenizer(identity: dict[str, Any]) -> str:
    """One identity in words, for messages."""
    added = identity.get("added") or {}
    tokens = ", ".join(f"{place} token {token['id']}" for place, token in added.items()) or "no added token"
    digest = str(identity.get("sha256"))[:12]
    return f"{identity.get('name')} (sha256 {digest}, vocabulary {identity.get('vocabulary')}, {tokens})"


def _find_added(place: str, given: str | int, name: str, model: Model) -> int:
    if isinstance(given, bool):
        raise ConvertError(f"the {place} token must be an id or a token's text, not {given}")
    if isinstance(given, str) and not (given.isascii() and given.isdigit()):
        token_id = model.find_id(given)
        if token_id is None:
            raise ConvertError(
                f"the {place} token {given!r} is not in the vocabulary of {name}; its id will do as well"
            )
        return token_id
    token_id = int(given)
    if not 0 <= token_id < model.vocabulary or model.find_token(token_id) is None:
        raise ConvertError(f"the {place} token {token_id} is no id of {name}, whose vocabulary is {model.vocabulary}")
    return token_id


def _byte_id(token: str) -> int | None:
    return ord(token) if len(token) == 1 and token.isascii() else None


def _byte_token(token_id: int) -> str:
    return f"0x{token_id:02x}"


def _encode_bytes(texts: list[str]) -> list[np.ndarray]:
    return [np.frombuffer(text.encode(), np.uint8).astype(np.uint32) for text in texts]


def _decode_bytes(ids: list[int]) -> str:
    if any(not 0 <= i < 256 for i in ids):
        raise ValueError(f"ids {min(ids)} to {max(ids)} are not all bytes: they must be from 0 to 255")
    return bytes(ids).decode(errors="replace")


_BYTES = Model(256, _byte_id, _byte_token, _encode_bytes, _decode_bytes)


def _read_definition(path: Path) -> bytes:
    if path.is_dir():
        raise ConvertError(f"tokenizer {path} is a folder; give the file in it, {path / 'tokenizer.json'}")
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ConvertError(
            f'tokenizer {path}: there is no such file; give the path of a tokenizer.json, or "bytes" (none is fetched)'
        ) from None


def _library_model(path: Path, definition: bytes) -> Model:
    import tokenizers  # here, because the built-in one does not need it

    try:
        library = tokenizers.Tokenizer.from_buffer(definition)
    except Exception as error:  # the library raises no narrower kind in all its versions
        raise ConvertError(f"tokenizer {path} is not a tokenizer.json: {error}") from error
    library.no_padding()
    library.no_truncation()
    library.encode_special_tokens = True  # "<|endoftext|>" in a text is text
    if getattr(library.model, "dropout", None) is not None:
        library.model.dropout = None  # it is random, and equal texts must give equal ids

    def find_id(token: str) -> int | None:
        return library.token_to_id(token)

    def find_token(token_id: int) -> str | None:
        return library.id_to_token(token_id)

    def encode(texts: list[str]) -> list[np.ndarray]:
        try:
            encoded = library.encode_batch_fast(texts, add_special_tokens=False)
        except Exception as error:  # the library raises no narrower kind
            raise ConvertError(f"tokenizer {path} fails on the text: {error}") from error
        return [np.array(one.ids, np.uint32) for one in encoded]

    def decode(ids: list[int]) -> str:
        return library.decode(ids, skip_special_tokens=False)

    # Not the count of tokens: it would be too small for a vocabulary with gaps.
    vocabulary = max(library.get_vocab(with_added_tokens=True).values(), default=-1) + 1
    return Model(vocabulary, find_id, find_token, encode, decode)
