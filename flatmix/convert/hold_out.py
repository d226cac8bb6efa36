"""a document -> the split it goes to, by its content and nothing else.

The first 64 bits of BLAKE2b of a document, as a fraction, are compared with the shares held out. So it does not depend
on who converts what, nor on the documents around it, and equal documents are never on both sides.
"""

import hashlib
import math
from collections.abc import Mapping

import numpy as np

from flatmix.errors import ConvertError
from flatmix.store.format import check_name


def check_hold_out(shares: Mapping[str, float]) -> dict[str, float]:
    """{split: share of the documents}, checked. ConvertError for shares that leave nothing, ValueError for names."""
    for split, share in shares.items():
        check_name("split", split)
        fair = isinstance(share, int | float) and not isinstance(share, bool) and math.isfinite(share) and 0 < share < 1
        if not fair:
            raise ConvertError(f"hold out {split}={share}: a share of the documents lies between 0 and 1")
    if math.fsum(shares.values()) >= 1:
        raise ConvertError(f"hold out: the shares {dict(shares)} leave nothing for the split itself")
    return {split: float(share) for split, share in shares.items()}


def split_of(content: str | np.ndarray, split: str, shares: Mapping[str, float]) -> str:
    """One of `shares`, or `split`. Text counts as UTF-8; tokens, uint32[tokens], in little-endian order."""
    if not shares:
        return split
    raw = content.encode() if isinstance(content, str) else content.astype("<u4").tobytes()
    fraction = int.from_bytes(hashlib.blake2b(raw, digest_size=8).digest(), "big") / 2**64
    for name, share in shares.items():
        if fraction < share:
            return name
        fraction -= share
    return split
