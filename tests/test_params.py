"""Settings that are refused when they are made, where they can be: modes and byte premiums of a mixture."""

import numpy as np
import pytest

from flatmix import MixtureParams

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
