"""The numbers of a conversion, as a program reads them."""

import json

from flatmix.convert import LanguageSummary, Summary


def test_a_summary_is_plain_json_by_language():
    one = LanguageSummary("no", documents=3, empty=1, bad=2, tokens=10, utf8_bytes=45, digest="d" * 64)
    none = LanguageSummary("sw", documents=1, empty=1, bad=0, tokens=0, utf8_bytes=0, digest="e" * 64)
    summary = Summary("s.zarr", "train", {"name": "bytes"}, (one, none), 2, ("a.jsonl, line 3: bad",))

    read = json.loads(json.dumps(summary.as_dict()))

    assert read == {
        "store": "s.zarr",
        "split": "train",
        "tokenizer": {"name": "bytes"},
        "languages": {
            "no": {
                "documents": 3,
                "empty": 1,
                "bad": 2,
                "tokens": 10,
                "utf8_bytes": 45,
                "bytes_per_token": 4.5,
                "digest": "d" * 64,
            },
            "sw": {
                "documents": 1,
                "empty": 1,
                "bad": 0,
                "tokens": 0,
                "utf8_bytes": 0,
                "bytes_per_token": None,
                "digest": "e" * 64,
            },
        },
        "bad": 2,
        "bad_examples": ["a.jsonl, line 3: bad"],
    }
