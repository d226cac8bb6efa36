"""A conversion -> what it wrote, language by language: the numbers by which a wrong input is noticed."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class LanguageSummary:
    """One split that was written.

    empty: documents whose text gave no token; they are kept, as a repeated entry of `seq_starts`.
    bad: records that were left out; 0 where the records name their language, since a broken one names none.
    """

    language: str
    documents: int
    empty: int
    bad: int
    tokens: int
    utf8_bytes: int
    digest: str

    @property
    def bytes_per_token(self) -> float | None:
        """None without a token."""
        return self.utf8_bytes / self.tokens if self.tokens else None


@dataclass(frozen=True)
class Summary:
    """What one conversion wrote; `bad` counts all records left out, `bad_examples` are the places of the first few."""

    store: str
    split: str
    tokenizer: dict[str, Any]
    languages: tuple[LanguageSummary, ...]
    bad: int
    bad_examples: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Plain types for JSON."""
        languages = {
            one.language: {
                "documents": one.documents,
                "empty": one.empty,
                "bad": one.bad,
                "tokens": one.tokens,
                "utf8_bytes": one.utf8_bytes,
                "bytes_per_token": one.bytes_per_token,
                "digest": one.digest,
            }
            for one in self.languages
        }
        return {
            "store": self.store,
            "split": self.split,
            "tokenizer": self.tokenizer,
            "languages": languages,
            "bad": self.bad,
            "bad_examples": list(self.bad_examples),
        }
