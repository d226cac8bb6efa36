"""Documents -> the arrays of one split, in the sequence they are added, the mark of completion last.

The tokens of all documents are laid end to end, so how they were handed over (one by one, or many at once) leaves no
trace: equal documents give files that are equal byte for byte. A shard is written once, when it is full. What has
been written is read back through the reader that loaders use, and compared with digests taken on the way in; only
then does the split say that it is complete. Whatever stops a writer before that leaves a split that readers refuse, or
the one that was to be replaced as it was (`claim`).

Cost: memory for what one shard of each array has gathered, at most 64 or 128 MB each; some 15 ns a token to write, and
8 ns to read back.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import zarr

from flatmix.errors import ConvertError, StoreError
from flatmix.store import Split, local_folder, open_store
from flatmix.store import format as layout
from flatmix.store.claim import Claim
from flatmix.store.documents import encode, one_document, plain_json, source_numbers
from flatmix.store.folders import create_array, create_language, create_store, write_attributes
from flatmix.store.metadata import Group, read_group
from flatmix.store.reader import digest_array
from flatmix.store.shards import write_shard
from flatmix.store.split import load_split, place_of


class SplitWriter:
    """Writes one split of one language, making store and language where they do not exist.

    `tokenizer` and `source` are plain JSON objects, kept as the format describes them. With `record_sources`, the
    file and the record that each document came from are kept too. `replace` puts it in the place of an existing split
    of that name, at the end of `finish`; until then both are on disk. `zarr_format=2` is for readers that know no
    other: larger chunks, and no checksums. `compression="small"` writes a split that is 15 to 30 % smaller than "fast"
    does, and takes nearly twice the CPU time to read; what is in it, its digest and how it is opened are the same.

    A context manager: leaving it before `finish` has returned leaves the split incomplete, or the old one as it was.
    After an error it refuses all further calls. ConvertError for a folder that is not ours to write, StoreError for a
    split that exists, and for one that another writer has: until it is left or has finished, a writer excludes others.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        language: str,
        split: str,
        *,
        tokenizer: dict[str, Any] | None = None,
        source: dict[str, Any] | None = None,
        record_sources: bool = False,
        replace: bool = False,
        zarr_format: int = 3,
        compression: layout.Compression = "fast",
    ) -> None:
        layout.check_name("language", language)
        layout.check_name("split", split)
        layout.check_zarr_format(zarr_format)
        layout.check_compression(compression)
        self._origin = {"tokenizer": plain_json("tokenizer", tokenizer), "source": plain_json("source", source)}
        self._root, self._language, self._split = local_folder(path), language, split
        self._place = place_of(str(self._root), language, split)
        self._failure: BaseException | None = None
        self._zarr_format, self._compression = zarr_format, compression
        self._tokens = self._documents = self._largest = 0
        self._utf8_bytes: int | None = 0
        create_store(self._root, zarr_format)
        create_language(self._root / language, zarr_format)
        self._claim = Claim(self._root / language / split, self._place, replace, zarr_format)
        self._folder = self._claim.folder
        names = [layout.ENCODED_TOKENS, layout.SEQ_STARTS]
        names += [layout.SOURCE_FILE, layout.SOURCE_RECORD] if record_sources else []
        # None of them once the writer is closed.
        self._columns = {name: _Column(self._folder, name, zarr_format, compression) for name in names}
        self._columns[layout.SEQ_STARTS].append(np.zeros(1, np.uint64))

    def __enter__(self) -> "SplitWriter":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: Any) -> None:
        self._close()

    def add(self, ids: Any, utf8_bytes: int | None = None, source_file: int = 0, source_record: int = 0) -> None:
        """Adds one document: its ids, any one-dimensional integers or none, and the bytes of its text, if known.

        ValueError, naming the document by its number in the split, for an id that is no integer of [0, 2^31).
        """
        with self._attempt():
            ids = one_document(ids, self._documents, self._place)
            self._add(ids, np.array([ids.size]), utf8_bytes, [source_file], [source_record])

    def add_many(
        self,
        ids: np.ndarray,
        lengths: np.ndarray,
        utf8_bytes: int | None = None,
        source_file: Any = None,
        source_record: Any = None,
    ) -> None:
        """Adds documents: the ids of all, int[tokens], how many each has, int[documents], and the bytes of all texts.

        `source_file` and `source_record`, int[documents], are needed by a writer that records them. Errors as for
        `add`.
        """
        with self._attempt():
            self._add(np.asarray(ids), np.asarray(lengths), utf8_bytes, source_file, source_record)

    def finish(self) -> Split:
        """Writes what is left, reads everything back, marks the split as complete, and returns it, opened.

        StoreError when something does not read back as it was written, or the split is no longer this writer's;
        ReadError when it does not read back at all.
        """
        with self._attempt():
            digests = {name: column.close() for name, column in self._columns.items()}
            proof = digests[layout.ENCODED_TOKENS] + digests[layout.SEQ_STARTS]
            self._write_digests(proof)
            attributes = self._attributes(proof)
            self._read_back(attributes, digests, proof)
            self._check_own()
            write_attributes(self._claim.group, attributes)
            self._claim.publish()
        self._close()
        return open_store(self._root)[self._language][self._split]

    def _add(self, ids: np.ndarray, lengths: np.ndarray, utf8_bytes: Any, files: Any, records: Any) -> None:
        encoded, ends = encode(ids, lengths, self._documents, self._place)
        new = {layout.ENCODED_TOKENS: encoded, layout.SEQ_STARTS: (ends + self._tokens).astype(np.uint64)}
        for name, numbers in ((layout.SOURCE_FILE, files), (layout.SOURCE_RECORD, records)):
            if name in self._columns:
                new[name] = source_numbers(name, numbers, len(ends), self._place)
        if utf8_bytes is not None and (
            isinstance(utf8_bytes, bool) or not isinstance(utf8_bytes, int | np.integer) or utf8_bytes < 0
        ):
            raise ValueError(f"utf8_bytes must be a number of bytes or None, not {utf8_bytes!r}")
        if len(ends):
            known = utf8_bytes is not None and self._utf8_bytes is not None
            self._utf8_bytes = self._utf8_bytes + int(utf8_bytes) if known else None
        for name, values in new.items():
            self._columns[name].append(values)
        self._largest = max(self._largest, int(ids.max(initial=0)))
        self._tokens += len(ids)
        self._documents += len(ends)

    def _attributes(self, proof: bytes) -> dict[str, Any]:
        return layout.complete_attributes(
            largest=self._largest,
            tokens=self._tokens,
            documents=self._documents,
            utf8_bytes=self._utf8_bytes,
            tokenizer=self._origin["tokenizer"],
            proof=proof,
            source=self._origin["source"],
        )

    def _write_digests(self, proof: bytes) -> None:
        digests = np.frombuffer(proof, np.uint8).reshape(-1, layout.DIGEST_BYTES)
        folder = self._folder / layout.PIECE_DIGESTS
        create_array(folder, digests.shape, digests.dtype, self._zarr_format, self._compression)[:] = digests

    def _read_back(self, attributes: dict[str, Any], digests: dict[str, bytes], proof: bytes) -> None:
        group = Group(self._zarr_format, attributes)
        split = load_split(str(self._root), self._language, self._split, group, self._folder)
        found = {name: digest_array(split.array_reader(name)) for name in digests}
        wrong = [name for name in digests if found[name] != digests[name]]
        if split.piece_digests().tobytes() != proof:
            wrong.append(layout.PIECE_DIGESTS)
        if wrong:
            raise StoreError(f"{wrong[0]} of {self._place} does not read back as it was written; {self._left}")

    def _check_own(self) -> None:
        """StoreError where the split does not say what this writer has made it say; no lock reaches every writer."""
        group = read_group(self._folder, self._zarr_format)
        if group is None or group.attributes != layout.incomplete_attributes():
            raise StoreError(f"{self._place} was changed by another process while it was written; it is left as it is")

    @property
    def _left(self) -> str:
        """What becomes of the split when this writer fails."""
        return "the old one stays" if self._claim.replaces else "it is left incomplete"

    def _close(self) -> None:
        self._columns.clear()
        self._claim.release()

    @contextlib.contextmanager
    def _attempt(self) -> Iterator[None]:
        """Whatever goes wrong inside is the end of this writer: nothing is written after it."""
        if self._failure is not None:
            raise ConvertError(f"the writer of {self._place} has failed, and writes nothing more") from self._failure
        if not self._columns:
            raise ConvertError(f"the writer of {self._place} is closed")
        try:
            yield
        except BaseException as error:
            self._failure = error
            self._claim.release()
            if isinstance(error, OSError) and error.errno is not None:
                reason = f"{error.strerror}; {self._place}: {self._left}"
                raise OSError(error.errno, reason, error.filename or str(self._folder)) from error
            raise


class _Column:
    """The values of one array on their way to the store: one file of them at most is in memory."""

    def __init__(self, folder: Path, name: str, zarr_format: int, compression: layout.Compression) -> None:
        self._path = folder / name
        self._zarr_format, self._compression = zarr_format, compression
        self._shard = layout.values_per_file(zarr_format)  # in Zarr v2, one chunk
        self._buffer = np.empty(0, layout.DTYPES[name])
        self._filled = self._written = 0
        self._array: zarr.Array | None = None
        self._digests = layout.PieceDigests()

    def append(self, values: np.ndarray) -> None:
        self._digests.update(values)
        while len(values):
            part = values[: self._shard - self._filled]
            self._reserve(self._filled + len(part))
            self._buffer[self._filled : self._filled + len(part)] = part
            self._filled += len(part)
            values = values[len(part) :]
            if self._filled == self._shard:
                self._flush()

    def _reserve(self, size: int) -> None:
        """Makes room for `size` values; by doubling, so that hundreds of writers of little take little."""
        if size > len(self._buffer):
            grown = np.empty(min(self._shard, max(size, 2 * len(self._buffer))), self._buffer.dtype)
            grown[: self._filled] = self._buffer[: self._filled]
            self._buffer = grown

    def close(self) -> bytes:
        """Writes the last shard, and returns the digests of all that was appended."""
        if self._filled or self._array is None:
            self._flush()
        return self._digests.finish()

    def _flush(self) -> None:
        length = self._written + self._filled
        if self._array is None:  # only now is it known whether the array fills a shard
            dtype = self._buffer.dtype
            self._array = create_array(self._path, (length,), dtype, self._zarr_format, self._compression)
        else:
            self._array.resize((length,))
        if self._filled:
            write_shard(self._path, self._written, self._buffer[: self._filled], self._zarr_format)
        self._written, self._filled = length, 0
