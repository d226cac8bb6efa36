"""The metadata of one split -> its counts and origin, checked against its arrays, and readers of them.

Counts appear twice in a split, in its attributes and in the shapes of its arrays, and a damaged or half-copied one
seldom agrees with itself; so they are compared here, once. What lies in the arrays is not looked at: that is what the
checksum of each chunk and the digests of the pieces are for.

Cost: four small files on opening. Each reader is a handle without open files.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from flatmix.errors import ReadError, StoreError
from flatmix.store import format as layout
from flatmix.store import metadata as meta
from flatmix.store.reader import Reader, TensorStoreReader


@dataclass(frozen=True)
class Split:
    """One split: what its attributes say, checked against its arrays. `path` is its folder."""

    path: str
    store_path: str
    language: str
    name: str
    tokens: int
    documents: int
    max_token_id: int
    utf8_bytes: int | None  # of the text before tokenizing; None when unknown
    digest: str  # the identity of the content: 64 hexadecimal digits
    tokenizer: dict[str, Any] | None = field(repr=False, hash=False)
    source: dict[str, Any] | None = field(repr=False, hash=False)
    arrays: dict[str, meta.ArrayMetadata] = field(repr=False, compare=False)

    def reader(self, threads: int | None = None) -> Reader:
        """A new reader of encoded_tokens, uint32[tokens]; all readers with the same `threads` share that many."""
        return self.array_reader(layout.ENCODED_TOKENS, threads)

    def array_reader(self, name: str, threads: int | None = None) -> TensorStoreReader:
        """A new reader of any of the arrays of the split."""
        place = place_of(self.store_path, self.language, self.name)
        return TensorStoreReader(self.path, self.arrays[name], place, threads)

    def seq_starts(self, start: int, stop: int) -> np.ndarray:
        """Entries [start, stop) of seq_starts, uint64[stop - start]; there are documents + 1 of them.

        IndexError outside that; ReadError when they cannot be read, or are no rising sequence from 0 to `tokens`.
        """
        starts = self._read(layout.SEQ_STARTS, start, stop)
        if len(starts):
            fair = bool(np.all(starts[1:] >= starts[:-1])) and int(starts[-1]) <= self.tokens
            fair = fair and (start > 0 or starts[0] == 0) and (stop <= self.documents or int(starts[-1]) == self.tokens)
            if not fair:
                place = place_of(self.store_path, self.language, self.name)
                raise ReadError(
                    f"seq_starts of {place}: entries [{start}, {stop}) do not rise from 0 to the {self.tokens} tokens"
                )
        return starts

    def sources(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray] | None:
        """source_file and source_record of those documents, uint32 and uint64[stop - start]; None if not kept."""
        if layout.SOURCE_FILE not in self.arrays:
            return None
        return self._read(layout.SOURCE_FILE, start, stop), self._read(layout.SOURCE_RECORD, start, stop)

    def piece_digests(self) -> np.ndarray:
        """What the content must hash to, uint8[pieces, 32]: the pieces of encoded_tokens, then of seq_starts."""
        return self._read(layout.PIECE_DIGESTS, 0, self.arrays[layout.PIECE_DIGESTS].shape[0])

    def size_on_disk(self) -> int:
        """Bytes of all files of the split."""
        return sum(file.stat().st_size for file in Path(self.path).rglob("*") if file.is_file())

    def _read(self, name: str, start: int, stop: int) -> np.ndarray:
        reader = self.array_reader(name)
        reader.check_span(start, stop)
        out = np.empty((stop - start, *reader.metadata.shape[1:]), reader.dtype)
        reader.read(start, stop, out).result()
        return out


def load_split(store_path: str, language: str, name: str, group: dict[str, Any]) -> Split | None:
    """The group metadata of a split -> the split, checked against its arrays; None when it was not completed."""
    place = place_of(store_path, language, name)
    folder = Path(store_path, language, name)
    attribute = meta.flatmix_attribute(group, place)
    if attribute is None:
        held = "attribute 'flatmix'" if (folder / layout.ENCODED_TOKENS).exists() else layout.ENCODED_TOKENS
        raise StoreError(f"{place} holds no {held}: it is not a split of a flat-tokens store")
    said = meta.split_attributes(attribute, place)
    if said is None:
        return None
    largest = group["attributes"].get("max_token_id")
    if type(largest) is not int or not 0 <= largest < layout.ID_LIMIT:
        raise StoreError(f"{place}: max_token_id is {largest!r}, not an integer from 0 to {layout.ID_LIMIT - 1}")
    if said.tokens and not said.documents:
        raise StoreError(f"{place}: its attributes count {said.tokens} tokens in no documents")
    pieces = layout.piece_count(said.tokens) + layout.piece_count(said.documents + 1)
    shapes = {
        layout.ENCODED_TOKENS: (said.tokens,),
        layout.SEQ_STARTS: (said.documents + 1,),
        layout.PIECE_DIGESTS: (pieces, layout.DIGEST_BYTES),
    }
    if (folder / layout.SOURCE_FILE).exists():
        shapes |= {layout.SOURCE_FILE: (said.documents,), layout.SOURCE_RECORD: (said.documents,)}
    return Split(
        path=str(folder),
        store_path=store_path,
        language=language,
        name=name,
        tokens=said.tokens,
        documents=said.documents,
        max_token_id=largest,
        utf8_bytes=said.utf8_bytes,
        digest=said.digest,
        tokenizer=said.tokenizer,
        source=said.source,
        arrays={array: meta.array_metadata(folder, array, shape, place) for array, shape in shapes.items()},
    )


def place_of(store_path: str, language: str, split: str) -> str:
    return f"language {language!r}, split {split!r} of store {store_path}"
