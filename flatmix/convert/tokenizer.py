"""text -> token ids: all tokens of the text and nothing else, unless a begin or an end token is asked for.

Who adds special tokens is said in one place, here. What a tokenizer's file would add by itself (special tokens,
padding, a cut at some length, a random dropout) is switched off, and text that reads like a special token stays text.
The begin and end tokens go in as ids, exactly once each, into empty documents too. The identity of all this is kept
with the tokens: a store holds the tokens of one tokenizer.

A document is encoded as a whole, however long it is, because a cut would change tokens. Measured on one core with
tokenizers 0.23, sentencepiece 0.2.3 and tiktoken 0.14: 5,000,000 letters without a space, or 1,000,000 words, take some
10 s and 1 GB at most.
"""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from flatmix.convert.models import Model, is_panic, library, rank_file, sentence_piece, utf8
from flatmix.convert.models.files import Definition, find_definition
from flatmix.errors import ConvertError

MAX_VOCABULARY = 2**31  # the format keeps one bit of 32 for the start of a document


class DocumentError(ConvertError):
    """The tokenizer fails on the text of one document; the others are not to blame."""

    def __init__(self, message: str, index: int) -> None:
        super().__init__(message)
        self.index = index  # which of the texts


@dataclass(frozen=True)
class Tokenizer:
    """A loaded tokenizer; `load_tokenizer` makes it.

    identity: what a store keeps. `name`; `sha256` of the definition; `vocabulary`, one more than the largest id, added
        tokens included; `added`, what is put in and where: `{"begin": {"id": 1, "token": "<s>"}, "end": ...}`.
    spec: loads the same one in any folder, and on any machine that has the file or reaches the hub.
    """

    spec: str
    identity: dict[str, Any]
    model: Model
    begin: int | None
    end: int | None

    def encode_documents(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """The ids of all texts, uint32[tokens], and how many are of each, int64[texts].

        Both with the begin and end token if there is one. DocumentError, which says of which text, where the
        tokenizer fails.
        """
        ids, lengths = self._encode(list(texts))
        if self.added_per_document == 0:
            return ids, lengths
        lengths = lengths + self.added_per_document
        ends = np.cumsum(lengths)
        out = np.empty(len(ids) + self.added_per_document * len(lengths), np.uint32)
        of_text = np.ones(len(out), np.bool_)
        for places, token in ((ends - lengths, self.begin), (ends - 1, self.end)):
            if token is not None:
                out[places] = token
                of_text[places] = False
        out[of_text] = ids
        return out, lengths

    def encode_able(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray, dict[int, str]]:
        """As `encode_documents`, of the texts on which the tokenizer does not fail; and why it does, by place."""
        failed: dict[int, str] = {}
        places = list(range(len(texts)))
        while places:
            try:
                return *self.encode_documents([texts[place] for place in places]), failed
            except DocumentError as error:
                failed[places.pop(error.index)] = str(error)
        return np.empty(0, np.uint32), np.empty(0, np.int64), failed

    def encode_batch(self, texts: Sequence[str]) -> list[np.ndarray]:
        """The ids of each text, as `encode_documents` has them in one."""
        ids, lengths = self.encode_documents(texts)
        ends = np.cumsum(lengths)
        return [ids[end - length : end] for end, length in zip(ends, lengths, strict=True)]

    def _encode(self, texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        try:
            return self.model.encode(texts)
        except BaseException as error:
            if not _is_of_text(error):
                raise
            for index, text in enumerate(texts):  # one by one, to say which
                self._try(text, index)
            raise ConvertError(f"tokenizer {self.identity['name']} fails on texts together: {error}") from error

    def _try(self, text: str, index: int) -> None:
        try:
            self.model.encode([text])
        except BaseException as error:
            if not _is_of_text(error):
                raise
            raise DocumentError(f"tokenizer {self.identity['name']} fails on the text: {error}", index) from error

    def decode(self, ids: Sequence[int] | np.ndarray) -> str:
        """The text of `ids`, special tokens included; what is no whole character becomes U+FFFD."""
        return self.model.decode([int(i) for i in ids])

    @property
    def added_per_document(self) -> int:
        """How many tokens a document gets on top of those of its text: 0, 1 or 2."""
        return (self.begin is not None) + (self.end is not None)


def _is_of_text(error: BaseException) -> bool:
    """A panic is no Exception, and a lack of memory is nothing that a text can be blamed for."""
    return is_panic(error) or (isinstance(error, Exception) and not isinstance(error, MemoryError))


def load_tokenizer(
    spec: str | os.PathLike[str], begin: str | int | None = None, end: str | int | None = None
) -> Tokenizer:
    """The tokenizer `spec`: "bytes", built in; the path of its file, or of a folder with a tokenizer.json or a
    tokenizer.model; or "hf:NAME" or "hf:NAME@REVISION", fetched from the Hugging Face Hub.

    Files: a tokenizer.json of the `tokenizers` library; a model of SentencePiece; a rank file of tiktoken, with a file
    beside it that `models.rank_file` describes. begin, end: a token put before or after every document: its id (an
    integer, or a string of digits), or its text as the vocabulary has it. Raises ConvertError for a file that is no
    tokenizer and for a token that is not there, ReadError for what cannot be read or fetched.
    """
    if spec == "bytes":
        place, name, model, definition = "bytes", "bytes", utf8.MODEL, utf8.DEFINITION
    else:
        found = find_definition(spec)
        place, name = found.spec, found.name
        model, definition = _load_model(found)
    if model.vocabulary > MAX_VOCABULARY:
        raise ConvertError(f"tokenizer {spec}: its largest id is {model.vocabulary - 1}, a store's are below 2**31")
    added: dict[str, dict[str, Any]] = {}
    for which, given in (("begin", begin), ("end", end)):
        if given is not None:
            token_id = _find_added(which, given, name, model)
            added[which] = {"id": token_id, "token": model.find_token(token_id)}
    digest = hashlib.sha256(definition).hexdigest()
    identity = {"name": name, "sha256": digest, "vocabulary": model.vocabulary, "added": added}
    ids = {which: token["id"] for which, token in added.items()}
    return Tokenizer(place, identity, model, ids.get("begin"), ids.get("end"))


def _load_model(found: Definition) -> tuple[Model, bytes]:
    """By what is in the file, because names say little: a tokenizer.model may be of SentencePiece or of tiktoken."""
    if found.content.lstrip().startswith(b"{") or found.path.suffix == ".json":
        return library.load(str(found.path), found.content), found.content
    if rank_file.is_rank_file(found.path, found.content):
        return rank_file.load(found.path, found.content)
    return sentence_piece.load(str(found.path), found.content), found.content


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
