"""The numbers of a conversion, as a program reads them."""

import json

import pytest

from flatmix.convert import EmptyInputError, LanguageSummary, Summary

TRAIN = LanguageSummary("no", "train", 3, 1, 2, tokens=10, utf8_bytes=45, seconds=1.5, digest="d" * 64)
HELD_OUT = LanguageSummary("no", "dev", 1, 1, 0, tokens=0, utf8_bytes=0, seconds=0.5, digest="e" * 64)
IMPORTED = LanguageSummary("sw", "train", 1, 0, 0, tokens=7, utf8_bytes=None, seconds=0.0, digest="f" * 64)


def test_a_summary_is_plain_json_by_language_and_split():
    summary = Summary("s.zarr", {"name": "bytes"}, (TRAIN, HELD_OUT, IMPORTED), 2, ("a.jsonl, line 3: bad",), ("ar",))

    read = json.loads(json.dumps(summary.as_dict()))

    assert read == {
        "store": "s.zarr",
        "tokenizer": {"name": "bytes"},
        "languages": {
            "no": {
                "train": {
                    "documents": 3,
                    "empty": 1,
                    "bad": 2,
                    "tokens": 10,
                    "utf8_bytes": 45,
                    "seconds": 1.5,
                    "digest": "d" * 64,
                    "bytes_per_token": 4.5,
                },
                "dev": {
                    "documents": 1,
                    "empty": 1,
                    "bad": 0,
                    "tokens": 0,
                    "utf8_bytes": 0,
                    "seconds": 0.5,
                    "digest": "e" * 64,
                    "bytes_per_token": None,
                },
            },
            "sw": {
                "train": {
                    "documents": 1,
                    "empty": 0,
                    "bad": 0,
                    "tokens": 7,
                    "utf8_bytes": None,
                    "seconds": 0.0,
                    "digest": "f" * 64,
                    "bytes_per_token": None,
                },
            },
        },
        "bad": 2,
        "bad_examples": ["a.jsonl, line 3: bad"],
        "without": ["ar"],
        "seconds": 0.0,
    }


@pytest.mark.parametrize(
    ("languages", "without", "message"),
    [
        ((), ("ar", "sw"), "the input of ar, sw holds no document (bad records in all: 2)"),
        ((), (), "the input holds no document (bad records in all: 2)"),
        (
            (TRAIN, HELD_OUT),
            ("ar",),
            "the input of ar holds no document (bad records in all: 2); 2 other splits were written",
        ),
    ],
)
def test_an_error_of_no_documents_says_whose_and_what_was_written(languages, without, message):
    summary = Summary("s.zarr", None, languages, 2, (), without)

    error = EmptyInputError(summary)

    assert str(error) == message
    assert error.summary == summary
