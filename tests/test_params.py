"""Settings that are refused when they are made, where they can be: a mixture's modes and premiums, and data sets."""

from pathlib import Path

import numpy as np
import pytest
from typeguard import suppress_type_checks

from flatmix import HuggingFaceDataParams, MixtureParams

BOTH = {"en": 0.5, "no": 0.5}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"mode": "bytes"}, "mode is 'bytes': take one of tokens, content"),
        ({"mode": None}, "mode is None: take one of tokens, content"),
        ({"byte_premiums": {"en": 1.0}}, 'byte_premiums are given, and mode is "tokens"'),
        ({"mode": "content"}, 'byte_premiums are None: mode "content" needs a mapping'),
        ({"mode": "content", "byte_premiums": [1.0, 1.1]}, r"byte_premiums are \[1.0, 1.1\]: mode .* needs a mapping"),
        (
            {"mode": "content", "byte_premiums": {"en": 1.0}},
            r"language 'no' has no byte premium, and mode \"content\" needs one .*\(1.0 if",
        ),
        (
            {"mode": "content", "byte_premiums": {"en": 1, "no": 1}, "phases": [(5, {"sw": 1})]},
            "language 'sw' has no byte premium",
        ),
        (
            {"mode": "content", "byte_premiums": {"en": 1, "no": 1, "xx": 1}},
            "byte_premiums: 'xx' is no language of the mixture, which has 'en', 'no'",
        ),
        *(
            (
                {"mode": "content", "byte_premiums": {"en": 1, "no": premium}},
                rf"the byte premium of 'no' is {premium!r}: it must be a finite number above 0",
            )
            for premium in (0, -1.5, float("nan"), float("inf"), True, "1", None, 10**400)
        ),
    ],
)
def test_modes_and_byte_premiums_that_make_no_sense_are_refused_by_name(settings, message: str):
    with pytest.raises(ValueError, match=message):
        MixtureParams(BOTH, **settings)


def test_premiums_may_be_whole_and_of_numpy_and_are_not_asked_for_weights_of_0():
    MixtureParams(BOTH, mode="content", byte_premiums={"en": 1, "no": np.float32(1.1)})
    MixtureParams({**BOTH, "sw": 0}, mode="content", byte_premiums={"en": np.int64(1), "no": 1.1})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"path": ""}, "path is '': text or a path is needed"),
        ({"path": None}, "path is None: text or a path is needed"),
        ({"path": b"json"}, "path is b'json': text or a path is needed"),
        ({"path": "json"}, "path is 'json', a kind of file: data_files are needed"),
        ({"path": "text", "options": {"revision": "x"}}, "path is 'text', a kind of file"),
        ({"tokenizer": ""}, "tokenizer is '': text or a path is needed"),
        ({"data_files": ""}, "data_files is '': text or a path is needed"),
        ({"data_files": []}, r"data_files is \[\]: text or a path is needed"),
        ({"data_files": {}}, r"data_files is \{\}: text or a path is needed"),
        ({"data_files": ["a.jsonl", 5]}, "a file of data_files is 5: text or a path is needed"),
        ({"text_field": ""}, "text_field is '': a name is needed"),
        ({"language": None}, "language is None: a name is needed"),
        ({"prefetch": -1}, "prefetch is -1: it must be at least 0"),
        ({"prefetch": True}, "prefetch is True: a whole number is needed"),
        ({"vocab_size": 0}, "vocab_size is 0: it must be at least 1"),
        ({"options": ["revision"]}, r"options are \['revision'\]: a mapping"),
        *(
            ({"options": {name: True}}, rf"options hold '{name}': path, name, data_files and split are given apart")
            for name in ("path", "name", "data_files", "split", "streaming", "trust_remote_code")
        ),
    ],
)
def test_settings_of_a_data_set_that_make_no_sense_are_refused_by_name(settings, message: str):
    with pytest.raises(ValueError, match=message), suppress_type_checks():
        HuggingFaceDataParams(**{"path": "json", **settings})


def test_paths_of_a_data_set_are_kept_as_text():
    params = HuggingFaceDataParams(
        Path("set"), Path("t.json"), data_files={"train": Path("a"), "dev": (Path("b"), "c")}
    )
    assert params == HuggingFaceDataParams("set", "t.json", data_files={"train": "a", "dev": ["b", "c"]})
