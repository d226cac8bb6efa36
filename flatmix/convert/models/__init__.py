"""Tokenizers of several makers as one `Model`: text -> ids and back, nothing added, nothing cut off.

`files` finds what a user names; `library` loads a tokenizer.json, `sentence_piece` a model of SentencePiece, and
`rank_file` the ranks of tiktoken; `utf8` is built in.
"""

from array import array
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np


class Model(NamedTuple):
    """What is needed of a tokenizer, whoever made it.

    encode: documents -> ids uint32[tokens of all], lengths int64[documents]. Raises whatever its library raises; where
        a library in Rust panics that is no `Exception`.
    decode: ids -> text, special tokens included. ValueError for what is no id.
    """

    vocabulary: int  # one more than the largest id, added tokens included
    find_id: Callable[[str], int | None]
    find_token: Callable[[int], str | None]
    encode: Callable[[list[str]], tuple[np.ndarray, np.ndarray]]
    decode: Callable[[list[int]], str]


def is_panic(error: BaseException) -> bool:
    """A library in Rust failed; its exception can be imported from nowhere."""
    return type(error).__name__ == "PanicException"


def gather(documents: Iterable[list[int]]) -> tuple[np.ndarray, np.ndarray]:
    """Ids of each document -> ids of all, lengths.

    By way of one list and an `array`: numpy takes three times as long to make numbers of Python's.
    """
    ids: list[int] = []
    lengths: list[int] = []
    for document in documents:
        ids += document
        lengths.append(len(document))
    return np.frombuffer(array("I", ids), np.uint32), np.array(lengths, np.int64)
