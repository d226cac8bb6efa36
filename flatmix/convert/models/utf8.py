"""text -> its bytes in UTF-8: the tokenizer that is built in, which loses nothing and needs no file."""

import numpy as np

from flatmix.convert.models import Model

DEFINITION = b"flatmix bytes 1: ids 0 to 255 are the bytes of the text in UTF-8"


def _find_id(token: str) -> int | None:
    return ord(token) if len(token) == 1 and token.isascii() else None


def _find_token(token_id: int) -> str | None:
    return f"0x{token_id:02x}"


def _encode(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
    encoded = [text.encode() for text in texts]
    lengths = np.fromiter(map(len, encoded), np.int64, len(encoded))
    return np.frombuffer(b"".join(encoded), np.uint8).astype(np.uint32), lengths


def _decode(ids: list[int]) -> str:
    if any(not 0 <= i < 256 for i in ids):
        raise ValueError(f"ids {min(ids)} to {max(ids)} are not all bytes: they must be from 0 to 255")
    return bytes(ids).decode(errors="replace")


MODEL = Model(256, _find_id, _find_token, _encode, _decode)
