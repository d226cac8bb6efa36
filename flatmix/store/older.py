"""What older stores need beside the format's own rules: document starts from differences, and an identity.

A store from before format 1 proves nothing about its content, so its identity is made of what is cheap to know,
whatever its size: the counts, `max_token_id`, and the tokens of the first and the last chunk. It tells two corpora
apart, and not two that differ in the middle; so it is called weak wherever it is used.

Cost: two chunks read for the identity, one pass over the differences.
"""

import hashlib

import numpy as np

from flatmix.store.reader import TensorStoreReader

WEAK = "weak-"


def weak_digest(reader: TensorStoreReader, documents: int, max_token_id: int) -> str:
    """WEAK and a SHA-256: over tokens, documents and max_token_id (uint64 each, little-endian), then the SHA-256 of the
    values (uint32, little-endian) of the first chunk, then that of the last, where there are one and two.

    ReadError when a chunk cannot be read.
    """
    tokens, chunk = reader.metadata.shape[0], reader.metadata.chunk
    total = hashlib.sha256(np.array([tokens, documents, max_token_id], "<u8").tobytes())
    for start in sorted({0, max(0, tokens - 1) // chunk * chunk}) if tokens else ():
        values = np.empty(min(chunk, tokens - start), reader.dtype)
        reader.read(start, start + len(values), values).result()
        total.update(hashlib.sha256(values.astype("<u4").tobytes()).digest())
    return WEAK + total.hexdigest()


def undo_delta(differences: np.ndarray, chunk: int) -> None:
    """Differences, uint64[n], from the start of a chunk on -> the values, in place; each chunk begins with its own."""
    for start in range(0, len(differences), chunk):
        part = differences[start : start + chunk]
        np.cumsum(part, out=part)
