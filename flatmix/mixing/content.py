"""shares of content -> shares of tokens, by byte premiums and the bytes that a token stands for.

Two texts have the same content where one translates the other. The bytes they take differ with the language and its
script, and their ratio is the byte premium of one against the other; the tokens that so many bytes take differ with the
tokenizer, and can be counted. So, for each language,

    tokens  ~  content * byte_premium / bytes_per_token        bytes_per_token = utf8_bytes / tokens of its split

and the shares add up to 1. Only ratios count, so the premiums may be given against any one language. Premiums for a
thousand languages were measured by C. Arnett, T. A. Chang and B. K. Bergen: "A Bit of a Problem: Measurement
Disparities in Dataset Sizes Across Languages" (2024).

The result decides the order of a run, so it must be the same everywhere: one float64 operation at a time, in the
sequence of the languages, none of which depends on library or processor.
"""

import math
from collections.abc import Iterable, Mapping
from typing import Protocol


class Measured(Protocol):
    """What is known of a split of one language; `flatmix.store.Split` knows it."""

    @property
    def tokens(self) -> int: ...

    @property
    def utf8_bytes(self) -> int | None: ...


def token_shares(
    content: Mapping[str, float], byte_premiums: Mapping[str, float], bytes_per_token: Mapping[str, float]
) -> dict[str, float]:
    """The share of the tokens of each language, in the sequence of `content`.

    content: shares >= 0, not all of them 0. Of languages with a share, `byte_premiums` and `bytes_per_token` hold
    numbers above 0; of others nothing is asked. ValueError where numbers are too far apart for a share to be left.
    """
    return shares(
        {
            name: share * byte_premiums[name] / bytes_per_token[name] if share else 0.0
            for name, share in content.items()
        },
        [name for name, share in content.items() if share],
    )


def shares(weights: Mapping[str, float], wanted: Iterable[str] = ()) -> dict[str, float]:
    """The weights divided by their sum. ValueError where one of `wanted` has no share that float64 can hold."""
    total = 0.0
    for weight in weights.values():  # `sum` rounds differently in newer Pythons
        total += weight
    result = {name: weight / total if total else 0.0 for name, weight in weights.items()}
    for name in wanted:
        if not 0 < result[name] < math.inf:
            raise ValueError(
                f"language {name!r} would have the share {result[name]} of the tokens: its weight, byte premium and "
                f"bytes per token are too far from those of the others"
            )
    return result


def bytes_per_token(language: str, split: Measured | None) -> float:
    """How many bytes of text a token of the split stands for on average; a ValueError where that is not known."""
    if split is None:
        raise ValueError(f"language {language!r} has a weight, and no split to measure its tokens in")
    if split.tokens == 0:
        raise ValueError(
            f'language {language!r} has no tokens: mode "content" cannot tell how many bytes one stands for'
        )
    if split.utf8_bytes is None:
        raise ValueError(
            f'language {language!r} has tokens of unknown text: mode "content" needs the bytes of it, which '
            f'`flatmix convert` counts; or give shares of tokens, mode "tokens"'
        )
    if split.utf8_bytes == 0:
        raise ValueError(f"language {language!r} has {split.tokens} tokens of no text at all (0 bytes)")
    return split.utf8_bytes / split.tokens
