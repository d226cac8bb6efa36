"""tokenizer.json -> Model, by the `tokenizers` library.

The rules of the file for splitting and merging hold; what it would do besides (special tokens, padding, a cut at some
length, a random dropout) is switched off. Cost: some 350 bytes of memory a token while a document is encoded, so one of
a million words takes half a gigabyte to one; the library's own cache of words is bounded.
"""

import numpy as np

from flatmix.convert.models import Model, gather, is_panic
from flatmix.errors import ConvertError


def load(name: str, definition: bytes) -> Model:
    import tokenizers  # here, because the built-in one does not need it

    try:
        library = tokenizers.Tokenizer.from_buffer(definition)
    except BaseException as error:  # the library raises no narrower kind in all its versions
        if isinstance(error, Exception) or is_panic(error):
            raise ConvertError(f"tokenizer {name} is not a tokenizer.json: {error}{_hint(definition)}") from error
        raise
    library.no_padding()
    library.no_truncation()
    library.encode_special_tokens = True  # "<|endoftext|>" in a text is text
    if getattr(library.model, "dropout", None) is not None:
        library.model.dropout = None  # it is random, and equal texts must give equal ids

    def find_id(token: str) -> int | None:
        return library.token_to_id(token)

    def find_token(token_id: int) -> str | None:
        return library.id_to_token(token_id)

    def encode(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        return gather(one.ids for one in library.encode_batch_fast(texts, add_special_tokens=False))

    def decode(ids: list[int]) -> str:
        return library.decode(ids, skip_special_tokens=False)

    # Not the count of tokens: it would be too small for a vocabulary with gaps.
    vocabulary = max(library.get_vocab(with_added_tokens=True).values(), default=-1) + 1
    return Model(vocabulary, find_id, find_token, encode, decode)


def _hint(definition: bytes) -> str:
    if b'"token_bytes"' not in definition[:10_000]:
        return ""
    return " (it looks like a tekken.json, which is not read; save the model's tokenizer as a tokenizer.json first)"
