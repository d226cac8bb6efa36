"""{"type": ..., "document_end": ...} -> what a file of tokens does not say of itself, checked.

A file that is nothing but numbers says neither how wide they are nor where a document begins, and both can be wrong
without an error: half as many ids, or one document of a whole file. So neither is guessed; what a format does know is
not asked for, and is refused where it contradicts.
"""

from typing import Any, NamedTuple

from flatmix.errors import ConvertError
from flatmix.store.format import ID_LIMIT

TYPES = {"uint16": 2, "uint32": 4}  # bytes a token
_KEYS = ("format", "type", "document_end", "document_start")


class Boundary(NamedTuple):
    """The id that stands at one end of each document, and belongs to it."""

    id: int
    closes: bool  # it is the last token of a document; otherwise the first

    @property
    def word(self) -> str:
        """As the settings call it."""
        return "document_end" if self.closes else "document_start"


class Settings(NamedTuple):
    """What was said about a file of tokens; None where nothing was."""

    type: str | None
    boundary: Boundary | None


def check_settings(tokens: dict[str, Any] | None, kind: str, place: str) -> Settings:
    """The settings of a source, for the input at `place`; ConvertError for what no format takes."""
    tokens = tokens or {}
    unknown = sorted(set(tokens) - set(_KEYS))
    if unknown:
        raise ConvertError(f"{place}: tokens have no setting {unknown[0]!r}; there are {', '.join(_KEYS)}")
    if tokens.get("format") not in (None, kind):
        raise ConvertError(
            f"{place} is read as {kind!r}, and the format given is {tokens['format']!r}; give one of them"
        )
    width = tokens.get("type")
    if width is not None and width not in TYPES:
        raise ConvertError(f"{place}: the type of tokens must be {' or '.join(TYPES)}, not {width!r}")
    ends, starts = tokens.get("document_end"), tokens.get("document_start")
    if ends is not None and starts is not None:
        raise ConvertError(f"{place}: document_end ({ends}) and document_start ({starts}) exclude each other; give one")
    if ends is None and starts is None:
        return Settings(width, None)
    boundary = Boundary(starts if ends is None else ends, ends is not None)
    if isinstance(boundary.id, bool) or not isinstance(boundary.id, int) or not 0 <= boundary.id < ID_LIMIT:
        raise ConvertError(f"{place}: {boundary.word} must be an id from 0 to {ID_LIMIT - 1}, not {boundary.id!r}")
    return Settings(width, boundary)


def needed_boundary(settings: Settings, width: str, place: str) -> Boundary:
    """The boundary, for a file of that type which does not know its documents; ConvertError where it cannot serve."""
    boundary = settings.boundary
    if boundary is None:
        raise ConvertError(
            f"{place} does not say where its documents begin: give document_end, the id that closes each, or "
            "document_start, the id that opens each"
        )
    if boundary.id >= 1 << (8 * TYPES[width]):
        raise ConvertError(f"{place} holds {width}, so no document can have the {boundary.word} {boundary.id}")
    return boundary


def refuse_boundary(settings: Settings, place: str) -> None:
    """ConvertError where a boundary is given for an input that knows its documents."""
    if settings.boundary is not None:
        raise ConvertError(f"{place} knows where its documents begin; leave out {settings.boundary.word}")


def check_type(settings: Settings, found: str, place: str) -> None:
    """ConvertError where the type given is not the one that the input says."""
    if settings.type not in (None, found):
        raise ConvertError(f"{place} holds {found}, and the type given is {settings.type}; leave it out")
