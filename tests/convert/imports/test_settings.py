"""What is said about files of tokens: never guessed, and refused where it contradicts."""

from typing import Any

import pytest

from flatmix.convert.imports.settings import Boundary, check_settings, check_type, needed_boundary, refuse_boundary
from flatmix.errors import ConvertError


def test_settings_say_the_type_and_which_end_of_a_document_the_id_stands_at() -> None:
    assert check_settings(None, "nanogpt", "a") == (None, None)
    settings = check_settings({"format": "nanogpt", "type": "uint16", "document_end": 5}, "nanogpt", "a")
    assert settings == ("uint16", Boundary(5, True))
    assert check_settings({"document_start": 0, "document_end": None}, "nanogpt", "a").boundary == Boundary(0, False)


@pytest.mark.parametrize(
    ("tokens", "text"),
    [
        ({"ids": 1}, r"a: tokens have no setting 'ids'; there are format, type,"),
        ({"format": "llm.c"}, r"a is read as 'nanogpt', and the format given is 'llm.c'"),
        ({"type": "uint8"}, r"a: the type of tokens must be uint16 or uint32, not 'uint8'"),
        ({"document_end": 1, "document_start": 2}, r"document_end \(1\) and document_start \(2\) exclude each other"),
        ({"document_end": True}, r"document_end must be an id from 0 to 2147483647, not True"),
        ({"document_end": -1}, r"document_end must be an id .* not -1"),
        ({"document_start": 2**31}, r"document_start must be an id .* not 2147483648"),
        ({"document_end": "0"}, r"document_end must be an id .* not '0'"),
    ],
)
def test_other_settings_are_refused(tokens: dict[str, Any], text: str) -> None:
    with pytest.raises(ConvertError, match=text):
        check_settings(tokens, "nanogpt", "a")


def test_a_boundary_is_needed_or_refused() -> None:
    given = check_settings({"document_end": 70000, "type": "uint16"}, "nanogpt", "a")

    assert needed_boundary(given, "uint32", "a") == Boundary(70000, True)
    with pytest.raises(ConvertError, match="a holds uint16, so no document can have the document_end 70000"):
        needed_boundary(given, "uint16", "a")
    with pytest.raises(ConvertError, match="a does not say where its documents begin: give document_end"):
        needed_boundary(check_settings(None, "nanogpt", "a"), "uint16", "a")
    with pytest.raises(ConvertError, match="a knows where its documents begin; leave out document_end"):
        refuse_boundary(given, "a")
    with pytest.raises(ConvertError, match="a holds uint32, and the type given is uint16"):
        check_type(given, "uint32", "a")
