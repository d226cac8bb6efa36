"""The metadata of one split -> its counts and origin, checked against its arrays, and readers of them.

Counts appear twice in a split, in its attributes and in the shapes of its arrays, and a damaged or half-copied one
seldom agrees with itself; so they are compared here, once. What lies in the arrays is not looked at: that is what the
checksum of each chunk and the digests of the pieces are for. An older store says less of itself; what it does not say
stays unknown.

Cost: six small files on opening, the group's among them (four without sources, one more in Zarr v2); of an older store
three, and two chunks. Each reader is a handle without open files.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from flatmix.errors import ReadError, StoreError
from flatmix.store import format as layout
from flatmix.store import metadata as meta
from flatmix.store.arrays import ArrayMetadata, array_metadata
from flatmix.store.older import WEAK, undo_delta, weak_digest
from flatmix.store.reader import Future, Reader, TensorStoreReader


@dataclass(frozen=True)
class Split:
    """One split: what its attributes say, checked against its arrays. `path` is its folder.

    `weak` says that the split is of an older store, whose digest does not depend on all of the content.
    """

    path: str
    store_path: str
    language: str
    name: str
    tokens: int
    documents: int
    max_token_id: int
    utf8_bytes: int | None  # of the text before tokenizing; None when unknown
    digest: str  # the identity of the content: 64 hexadecimal digits, after "weak-" where it is weak
    tokenizer: dict[str, Any] | None = field(repr=False, hash=False)
    source: dict[str, Any] | None = field(repr=False, hash=False)
    arrays: dict[str, ArrayMetadata] = field(repr=False, compare=False)
    weak: bool = False
    attributes: dict[str, Any] | None = field(default=None, repr=False, compare=False)  # None while it is written

    @property
    def identity(self) -> str:
        """The digest as states keep it: its first 16 digits, after "weak-" where it is weak."""
        return self.digest[: 16 + self.weak * len(WEAK)]

    def reader(self, threads: int | None = None) -> Reader:
        """A new reader of encoded_tokens, uint32[tokens]; all readers with the same `threads` share that many."""
        return self.array_reader(layout.ENCODED_TOKENS, threads)

    def array_reader(self, name: str, threads: int | None = None) -> TensorStoreReader:
        """A new reader of any of the arrays of the split, as it is stored: where it says `delta`, of differences."""
        place = place_of(self.store_path, self.language, self.name)
        return TensorStoreReader(self.path, self.arrays[name], place, threads, self.attributes)

    def seq_starts(self, start: int, stop: int) -> np.ndarray:
        """Entries [start, stop) of seq_starts, uint64[stop - start]; there are documents + 1 of them.

        IndexError outside that; ReadError when they cannot be read, or are no rising sequence from 0 to `tokens`.
        """
        return self.start_seq_starts(start, stop, self.array_reader(layout.SEQ_STARTS)).result()

    def start_seq_starts(self, start: int, stop: int, reader: TensorStoreReader) -> "ArrayRead":
        """Begins to read entries [start, stop) of seq_starts with a reader of that array. Raises as `seq_starts`."""
        if self.weak and not self.tokens:  # all are 0, and need not have been written
            reader.check_span(start, stop)
            return ArrayRead(None, lambda: np.zeros(stop - start, np.uint64))
        read = _start(reader, start, stop)

        def checked() -> np.ndarray:
            starts = read.result()
            if len(starts):
                fair = bool(np.all(starts[1:] >= starts[:-1])) and int(starts[-1]) <= self.tokens
                fair = fair and (start > 0 or starts[0] == 0)
                fair = fair and (stop <= self.documents or int(starts[-1]) == self.tokens)
                if not fair:
                    place = place_of(self.store_path, self.language, self.name)
                    span = f"entries [{start}, {stop})"
                    raise ReadError(f"seq_starts of {place}: {span} do not rise from 0 to the {self.tokens} tokens")
            return starts

        return ArrayRead(read.future, checked)

    def sources(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray] | None:
        """source_file and source_record of those documents, uint32 and uint64[stop - start]; None if not kept."""
        if layout.SOURCE_FILE not in self.arrays:
            return None
        return self._read(layout.SOURCE_FILE, start, stop), self._read(layout.SOURCE_RECORD, start, stop)

    def piece_digests(self) -> np.ndarray:
        """What the content must hash to, uint8[pieces, 32]: the pieces of encoded_tokens, then of seq_starts.

        StoreError for a weak split, which has none.
        """
        if self.weak:
            place = place_of(self.store_path, self.language, self.name)
            raise StoreError(f"{place} has no {layout.PIECE_DIGESTS}: older stores cannot prove their content")
        return self._read(layout.PIECE_DIGESTS, 0, self.arrays[layout.PIECE_DIGESTS].shape[0])

    def size_on_disk(self) -> int:
        """Bytes of all files of the split."""
        return sum(file.stat().st_size for file in Path(self.path).rglob("*") if file.is_file())

    def _read(self, name: str, start: int, stop: int) -> np.ndarray:
        return _start(self.array_reader(name), start, stop).result()


@dataclass(frozen=True)
class ArrayRead:
    """Entries of an array that are under way."""

    future: Future | None  # None where there is nothing to wait for
    finish: Callable[[], np.ndarray]

    def done(self) -> bool:
        """Whether `result` would wait for nothing."""
        return self.future is None or self.future.done()

    def result(self) -> np.ndarray:
        """The entries; ReadError where they could not be read, or are not what they should be."""
        return self.finish()


def _start(reader: TensorStoreReader, start: int, stop: int) -> ArrayRead:
    """Begins to read entries [start, stop) of an array, as they are meant."""
    reader.check_span(start, stop)
    array = reader.metadata
    first, last = start, stop
    if array.delta:  # differences count from the start of their chunk
        first, last = start // array.chunk * array.chunk, min(-(-stop // array.chunk) * array.chunk, array.shape[0])
    out = np.empty((last - first, *array.shape[1:]), reader.dtype)
    future = reader.read(first, last, out)

    def finish() -> np.ndarray:
        future.result()
        if array.delta:
            undo_delta(out, array.chunk)
        return out[start - first : stop - first]

    return ArrayRead(future, finish)


def load_split(
    store_path: str, language: str, name: str, group: meta.Group, folder: Path | None = None
) -> Split | None:
    """The group of a split -> the split, checked against its arrays; None when it was not completed.

    `folder` is where it lies while it is written, if not in its place.
    """
    place = place_of(store_path, language, name)
    attributes = group.attributes if folder is None else None
    folder = Path(store_path, language, name) if folder is None else folder
    attribute = meta.flatmix_attribute(group.attributes, place)
    if attribute is None:
        held = "attribute 'flatmix'" if (folder / layout.ENCODED_TOKENS).exists() else layout.ENCODED_TOKENS
        raise StoreError(f"{place} holds no {held}: it is not a split of a flat-tokens store")
    said = meta.split_attributes(attribute, place)
    if said is None:
        return None
    largest = meta.largest_id(group.attributes, place)
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
        arrays={
            array: array_metadata(folder, array, shape, place, group.zarr_format) for array, shape in shapes.items()
        },
        attributes=attributes,
    )


def load_older_split(store_path: str, language: str, name: str, group: meta.Group, identified: bool = True) -> Split:
    """The group of a split of an older store -> the split; reads its first and last chunk, and no document starts.

    Unless it is to be `identified`: then it reads no chunk, and the digest is empty.
    """
    place = place_of(store_path, language, name)
    folder = Path(store_path, name)
    if "flatmix" in group.attributes:
        raise StoreError(f"{place} is of format 1, and no part of an older store")
    largest = meta.largest_id(group.attributes, place)
    arrays = {
        array: array_metadata(folder, array, None, place, group.zarr_format, delta=array == layout.SEQ_STARTS)
        for array in (layout.ENCODED_TOKENS, layout.SEQ_STARTS)
    }
    tokens, documents = arrays[layout.ENCODED_TOKENS].shape[0], arrays[layout.SEQ_STARTS].shape[0] - 1
    if documents < 0 or (tokens and not documents):
        raise StoreError(f"{place}: {layout.SEQ_STARTS} has {documents + 1} entries for {tokens} tokens")
    digest = ""
    if identified:
        reader = TensorStoreReader(str(folder), arrays[layout.ENCODED_TOKENS], place, None, group.attributes)
        digest = weak_digest(reader, documents, largest)
    return Split(
        path=str(folder),
        store_path=store_path,
        language=language,
        name=name,
        tokens=tokens,
        documents=documents,
        max_token_id=largest,
        utf8_bytes=None,
        digest=digest,
        tokenizer=None,
        source=None,
        arrays=arrays,
        weak=True,
        attributes=group.attributes,
    )


def place_of(store_path: str, language: str, split: str) -> str:
    return f"language {language!r}, split {split!r} of store {store_path}"
