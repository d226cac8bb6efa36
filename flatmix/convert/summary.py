"""A conversion -> what it wrote, language by language: the numbers by which a wrong input is noticed."""

from typing import Any

import msgspec

from flatmix.errors import ConvertError


class LanguageSummary(msgspec.Struct, frozen=True):
    """One split that was written.

    empty: documents whose text gave no token; they are kept, as a repeated entry of `seq_starts`.
    bad: records that were left out; 0 where the records name their language, since a broken one names none.
    seconds: of workers, all together.
    """

    language: str
    split: str
    documents: int
    empty: int
    bad: int
    tokens: int
    utf8_bytes: int | None  # None where what was read was tokens
    seconds: float
    digest: str

    @property
    def bytes_per_token(self) -> float | None:
        """None without a token, or where the bytes are not known."""
        return self.utf8_bytes / self.tokens if self.tokens and self.utf8_bytes is not None else None


class EmptyInputError(ConvertError):
    """There was no document in the input of some languages; the others were written, as `summary` says."""

    def __init__(self, summary: "Summary") -> None:
        whose = f" of {', '.join(summary.without)}" if summary.without else ""
        written = f"; {len(summary.languages)} other splits were written" if summary.languages else ""
        super().__init__(f"the input{whose} holds no document (bad records in all: {summary.bad}){written}")
        self.summary = summary


class Summary(msgspec.Struct, frozen=True):
    """What one conversion wrote.

    bad counts all records left out, bad_examples are the places of the first few; without are the languages in whose
    input there was no document.
    """

    store: str
    tokenizer: dict[str, Any] | None
    languages: tuple[LanguageSummary, ...]
    bad: int
    bad_examples: tuple[str, ...]
    without: tuple[str, ...] = ()
    seconds: float = 0.0  # from start to end, of this run

    def as_dict(self) -> dict[str, Any]:
        """Plain types for JSON."""
        languages: dict[str, dict[str, Any]] = {}
        for one in self.languages:
            values = {**msgspec.to_builtins(one), "bytes_per_token": one.bytes_per_token}
            languages.setdefault(values.pop("language"), {})[values.pop("split")] = values
        return {**msgspec.to_builtins(self), "languages": languages}
