"""Documents -> two flat arrays: the names, types, attributes and sizes of the flat-tokens store, format 1.

Token i of a split is stored as 2 * id + (1 if it is the first of its document else 0) in `encoded_tokens`,
uint32[tokens]; document d is the tokens from seq_starts[d] up to seq_starts[d + 1], uint64[documents + 1]. Nothing
lies between documents, so any span of tokens is one slice, and the start bit travels with the token through any
cutting and mixing.

Nothing here touches a file. `PieceDigests` costs one SHA-256 over what it is given; everything else is constant work.
"""

import hashlib
import unicodedata
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
import numpy as np

FORMAT = 1
CHUNK = 2**14  # values that are decoded together, some 30 kB: what one row read alone costs
SHARD = 2**24  # values in one file, some 30 MB
CHUNK_V2 = 2**22  # values that are decoded together and one file, in Zarr v2, which has no shards
PIECE = (
    2**24
)  # values behind one digest; part of a split's identity, so it never changes, whatever the two above become
ID_LIMIT = 2**31  # an id and its start bit share 32 bits
DIGEST_BYTES = 32

ENCODED_TOKENS = "encoded_tokens"
SEQ_STARTS = "seq_starts"
PIECE_DIGESTS = "piece_digests"
SOURCE_FILE = "source_file"
SOURCE_RECORD = "source_record"
DTYPES = {
    ENCODED_TOKENS: "uint32",
    SEQ_STARTS: "uint64",
    PIECE_DIGESTS: "uint8",
    SOURCE_FILE: "uint32",
    SOURCE_RECORD: "uint64",
}
COMPRESSION = {  # Blosc's codec, level and shuffle
    "fast": ("lz4", 5, "bitshuffle"),
    "small": ("zstd", 5, "shuffle"),  # 15 to 30 % smaller; long spans are read at about half the speed
}
CODECS = ("sharding_indexed", "bytes", "blosc", "crc32c", "zstd", "gzip")  # no others are decoded
COMPRESSORS_V2 = ("blosc", "zlib", "gzip", "bz2", "zstd")  # in Zarr v2; or none
METADATA = "zarr.json"
GROUP_V2, ATTRIBUTES_V2, ARRAY_V2 = ".zgroup", ".zattrs", ".zarray"  # the same in Zarr v2
GROUP_FILES = (METADATA, GROUP_V2, ATTRIBUTES_V2)  # of a group, in either version
NEW, OLD = ".new", ".old"  # what a split is called while it is to take the place of another, and when it has lost it
METADATA_LIMIT = 2**24  # bytes; far above what is needed, far below what would hurt a reader

_FORBIDDEN = '/\\:*?"<>|#%'
_RESERVED = (METADATA, "c", *DTYPES)

Compression = Literal["fast", "small"]
Count = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


@dataclass(frozen=True)
class SplitAttributes:
    """The `flatmix` attribute of a completed split."""

    format: Literal[1]
    complete: Literal[True]
    tokens: Count
    documents: Count
    utf8_bytes: Count | None
    tokenizer: dict[str, Any] | None
    digest: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{64}$")]
    source: dict[str, Any] | None


def incomplete_attributes(owner: str | None = None) -> dict[str, Any]:
    """What a split says of itself from its first moment until everything in it has been read back.

    owner: who may go on with it after a crash, if anybody may.
    """
    owned = {} if owner is None else {"owner": owner}
    return {"flatmix": {"format": FORMAT, "complete": False, **owned}}


def complete_attributes(
    *,
    largest: int,
    tokens: int,
    documents: int,
    utf8_bytes: int | None,
    tokenizer: dict[str, Any] | None,
    proof: bytes,
    source: dict[str, Any] | None,
) -> dict[str, Any]:
    """What a split says of itself when everything in it has been read back; `proof` is the bytes of piece_digests."""
    return {
        "max_token_id": largest,
        "flatmix": {
            "format": FORMAT,
            "complete": True,
            "tokens": tokens,
            "documents": documents,
            "utf8_bytes": utf8_bytes,
            "tokenizer": tokenizer,
            "digest": digest(proof),
            "source": source,
        },
    }


def values_per_file(zarr_format: int) -> int:
    """How many values a writer gathers before it writes them."""
    return SHARD if zarr_format == 3 else CHUNK_V2


def check_zarr_format(zarr_format: int) -> None:
    """Raises ValueError unless stores are written in this version of Zarr."""
    if type(zarr_format) is not int or zarr_format not in (2, 3):
        raise ValueError(f"zarr_format must be 3, or 2 for readers that know no other, not {zarr_format!r}")


def check_compression(compression: str) -> None:
    """Raises ValueError unless arrays can be written so."""
    if not isinstance(compression, str) or compression not in COMPRESSION:
        raise ValueError(f"compression must be {' or '.join(map(repr, COMPRESSION))}, not {compression!r}")


def piece_count(values: int) -> int:
    return -(-values // PIECE)


def digest(proof: bytes) -> str:
    """The bytes of `piece_digests` -> the identity of the content, whatever its chunks and codecs."""
    return hashlib.sha256(proof).hexdigest()


def check_name(kind: str, name: str) -> None:
    """Raises ValueError unless `name` may name a language or a split; `kind` is "language" or "split"."""
    problem = _name_problem(kind, name)
    if problem is not None:
        raise ValueError(f"{name!r} cannot name a {kind}: {problem}")


def _name_problem(kind: str, name: str) -> str | None:
    if not isinstance(name, str):
        return f"a name is a str, not {type(name).__name__}"
    if not name:
        return "it is empty"
    if any(unicodedata.category(character) == "Cs" for character in name):
        return "it is not valid Unicode"
    if not unicodedata.is_normalized("NFC", name):
        return f"it is not in Unicode's form NFC; write {unicodedata.normalize('NFC', name)!r}"
    if len(name.encode()) > 100:
        return f"it takes {len(name.encode())} bytes in UTF-8, and 100 are allowed"
    if any(unicodedata.category(character) == "Cc" for character in name):
        return "it holds a control character"
    if any(character in _FORBIDDEN for character in name):
        return f"it holds one of {' '.join(_FORBIDDEN)}"
    if name.startswith((".", "__")):
        return "it begins with '.' or '__'"
    if name.endswith((" ", ".")):
        return "it ends with a space or a dot"
    if name in _RESERVED or name.casefold() == METADATA:
        return "the store's own files are called so"
    if name.endswith(".__lock"):  # TensorStore keeps this ending for its lock files, and reads nothing beneath it
        return "it ends with '.__lock'"
    if kind == "language" and name in ("train", "validation"):
        return "splits are called so, and the two could not be told apart"
    return None


def name_beside(split: str, ending: str) -> str:
    """What lies beside that split while it is replaced, with the ending NEW or OLD: no split can be called so."""
    return f".{split}{ending}"


def split_beside(name: str) -> str | None:
    """The split beside which something of that name lies; None for any other name."""
    for ending in (NEW, OLD):
        split = name.removeprefix(".").removesuffix(ending)
        if split and name == name_beside(split, ending):
            return split
    return None


class PieceDigests:
    """A stream of values -> SHA-256 of each run of PIECE of them, little-endian; holds one unfinished hash."""

    def __init__(self) -> None:
        self._done: list[bytes] = []
        self._hash = hashlib.sha256()
        self._filled = 0

    def update(self, values: np.ndarray) -> None:
        """Takes the next values, T[n] for any n; every call of one stream has the same dtype."""
        values = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
        while len(values):
            part = values[: PIECE - self._filled]
            self._hash.update(part)
            self._filled += len(part)
            values = values[len(part) :]
            if self._filled == PIECE:
                self._close_piece()

    def finish(self) -> bytes:
        """The digests of all pieces, DIGEST_BYTES each; none for a stream without values."""
        if self._filled:
            self._close_piece()
        return b"".join(self._done)

    def _close_piece(self) -> None:
        self._done.append(self._hash.digest())
        self._hash = hashlib.sha256()
        self._filled = 0
