"""Small stores for the tests of those who use flatmix."""

import os
from collections.abc import Mapping, Sequence

from flatmix.store.writer import SplitWriter

# Numbered ids: token n of a language has the id BASE + n, so any id tells its language and place.
_BASES = {"en": 1000, "ar": 5000, "sw": 9000}
_TOKENS = {"en": 640, "ar": 320, "sw": 32}
_DOCUMENT = 20


def tiny_store(
    path: str | os.PathLike[str],
    documents: Mapping[str, Sequence[Sequence[int]]] | None = None,
    split: str = "train",
) -> str:
    """Writes one split of a store with a few short documents, and returns its path. Milliseconds, a few kB.

    documents: the ids of each document of each language. Without it: "en", "ar" and "sw" with 640, 320 and 32 tokens,
        counted up from 1000, 5000 and 9000, in documents of 20 tokens.

    Raises StoreError for a split that is there already, ValueError for ids that cannot be stored.
    """
    if documents is None:
        documents = {name: _numbered(base, _TOKENS[name]) for name, base in _BASES.items()}
    for language, texts in documents.items():
        with SplitWriter(path, language, split) as writer:
            for text in texts:
                writer.add(text)
            writer.finish()
    return os.fspath(path)


def _numbered(base: int, tokens: int) -> list[range]:
    """The ids from `base` on, in documents."""
    stop = base + tokens
    return [range(first, min(first + _DOCUMENT, stop)) for first in range(base, stop, _DOCUMENT)]
