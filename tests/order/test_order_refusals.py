"""What cannot be an order is refused where it is given, by name, value and way out, also under python -O."""

import json
import re
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from order_cases import alone, small
from typeguard import suppress_type_checks

from flatmix.order import Order

LONG = 2**33
BAD: list[tuple[dict[str, Any], list[str]]] = [
    ({"weights": {}}, ["weight", "0"]),
    ({"weights": {"en": -0.1, "ar": 1.1}}, ["en", "-0.1", "weight"]),
    ({"weights": {"en": float("nan"), "ar": 1}}, ["en", "nan", "weight"]),
    ({"weights": {"en": 1, "ar": float("inf")}}, ["ar", "inf", "weight"]),
    ({"weights": {"en": 0, "ar": 0}}, ["en", "ar", "weight", "0"]),
    ({"weights": {"en": 1, "xx": 1}}, ["xx", "unknown", "sw"]),
    ({"weights": {"en": "0.5"}}, ["en", "'0.5'", "weight"]),
    ({"weights": {"en": True}}, ["en", "True", "weight"]),
    ({"weights": {"en": None}}, ["en", "None", "weight"]),
    ({"weights": {"en": 1e308, "ar": 1e308}}, ["en", "ar", "inf", "1e+308"]),
    ({"weights": {"en": 10**400}}, ["en", "weight"]),
    ({"windows": {"en": 80, "ar": 40, "sw": 0}}, ["sw", "0 windows"]),
    ({"windows": {"en": 80, "ar": 40, "sw": 1}}, ["sw", "1 windows", "2 streams", "4", "8"]),
    ({"windows": {"en": 80, "ar": 40, "sw": 7}}, ["sw", "7 windows", "2 streams", "4", "8", "fewer streams"]),
    (
        {"windows": {"en": 80, "sw": 1}, "weights": {"sw": 1}, "sequences_per_read_block": "auto", "window_tokens": 9},
        ["sw", "1 windows", "2 streams"],
    ),
    ({"windows": {"en": 80, "ar": 40, "sw": -8}}, ["sw", "-8"]),
    ({"windows": {"en": 80, "ar": 40, "sw": 8.0}}, ["sw", "8.0"]),
    ({"windows": {"en": 80, "ar": 40, "sw": True}}, ["sw", "True"]),
    ({"windows": {}, "weights": {}}, ["weight"]),
    ({"seed": -1}, ["seed", "-1"]),
    ({"seed": 2**64}, ["seed", str(2**64), "2^64"]),
    ({"seed": 7.0}, ["seed", "7.0"]),
    ({"seed": True}, ["seed", "True"]),
    ({"seed": "7"}, ["seed", "'7'"]),
    ({"seed": None}, ["seed", "None"]),
    ({"streams": 0}, ["streams", "0"]),
    ({"streams": -2}, ["streams", "-2"]),
    ({"streams": 2.0}, ["streams", "2.0"]),
    ({"streams": True}, ["streams", "True"]),
    ({"batch": 7}, ["batch", "7", "streams", "2", "6 or 8"]),
    ({"batch": 1}, ["batch", "1", "streams", "2"]),
    ({"batch": 0}, ["batch", "0"]),
    ({"batch": -8}, ["batch", "-8"]),
    ({"batch": 8.0}, ["batch", "8.0"]),
    ({"batch": True}, ["batch", "True"]),
    ({"batch": None}, ["batch", "timeline"]),
    ({"timeline": [(0, 0, 8)]}, ["batch", "timeline"]),
    ({"batch": None, "timeline": []}, ["timeline", "(0, 0, batch)"]),
    ({"batch": None, "timeline": [(0, 0, 8), (5, 41, 8)]}, ["timeline", "slot", "41", "streams", "2"]),
    ({"batch": None, "timeline": [(0, 0, 8), (5, 40, 9)]}, ["timeline", "batch", "9", "streams", "2"]),
    ({"batch": None, "timeline": [(0, 0, 8), (5, 40, 8), (5, 40, 8)]}, ["timeline", "5", "increasing"]),
    ({"batch": None, "timeline": [(0, 8, 8)]}, ["timeline", "(0, 8, 8)", "(0, 0, batch)"]),
    ({"phases": [(15, {"en": 1})]}, ["phase", "15", "streams", "2"]),
    ({"phases": [(16, {"en": 1}), (16, {"ar": 1})]}, ["phase", "16", "strictly"]),
    ({"phases": [(16, {"en": 1}), (8, {"ar": 1})]}, ["phase", "8", "16"]),
    ({"phases": [(0, {"en": 1})]}, ["phase", "0"]),
    ({"phases": [(-2, {"en": 1})]}, ["phase", "-2"]),
    ({"phases": [(16.0, {"en": 1})]}, ["phase", "16.0"]),
    ({"phases": [(16, {"en": 1}), (32, {"en": 0})]}, ["32", "en", "weight"]),
    ({"phases": [(16, {"en": 1, "xx": 2})]}, ["16", "xx", "unknown"]),
    ({"phases": [(16, {"en": -1})]}, ["16", "en", "-1"]),
    ({"keys": {"en": -1}}, ["key", "en", "-1"]),
    ({"keys": {"ar": 2**64}}, ["key", "ar", str(2**64), "2^64"]),
    ({"keys": {"ar": 1.5}}, ["key", "ar", "1.5"]),
    ({"keys": {"xx": 1}}, ["key", "xx", "unknown"]),
    ({"selector": "hsah"}, ["selector", "hsah", "hash", "balanced"]),
    ({"selector": None}, ["selector", "None", "hash", "balanced"]),
    ({"sequences_per_read_block": 0}, ["sequences_per_read_block", "0"]),
    ({"sequences_per_read_block": -4}, ["sequences_per_read_block", "-4"]),
    ({"sequences_per_read_block": 4.0}, ["sequences_per_read_block", "4.0"]),
    ({"sequences_per_read_block": True}, ["sequences_per_read_block", "True"]),
    ({"sequences_per_read_block": "atuo"}, ["sequences_per_read_block", "atuo", "auto"]),
    ({"sequences_per_read_block": {"en": 4, "ar": 0, "sw": 4}}, ["sequences_per_read_block", "ar", "0"]),
    ({"sequences_per_read_block": {"en": 4, "ar": 4, "sw": 4, "xx": 4}}, ["sequences_per_read_block", "xx", "unknown"]),
    ({"sequences_per_read_block": "auto"}, ["sequences_per_read_block", "auto", "window_tokens"]),
    ({"sequences_per_read_block": "auto", "window_tokens": 0}, ["window_tokens", "0"]),
    ({"sequences_per_read_block": 41}, ["en", "80 windows", "2 streams", "41", "82"]),
    ({"read_blocks_per_shuffle_buffer": 0}, ["read_blocks_per_shuffle_buffer", "0"]),
    ({"read_blocks_per_shuffle_buffer": {"sw": -1}}, ["read_blocks_per_shuffle_buffer", "sw", "-1"]),
    ({"read_blocks_per_shuffle_buffer": {"xx": 2}}, ["read_blocks_per_shuffle_buffer", "xx", "unknown"]),
    ({"windows": {"en": LONG, "ar": 40, "sw": 8}, "sequences_per_read_block": 1}, ["en", str(LONG), "2^32"]),
    (alone("en", LONG // 2, sequences_per_read_block=1), ["en", str(LONG // 2), "2^32"]),
    (
        alone("en", LONG, sequences_per_read_block=LONG // 2, read_blocks_per_shuffle_buffer=1),
        ["en", str(LONG // 2), "2^32"],
    ),
    (
        alone("en", LONG, sequences_per_read_block=LONG // 8, read_blocks_per_shuffle_buffer=4),
        ["en", str(LONG // 2), "2^32"],
    ),
]


@pytest.mark.parametrize(("changes", "named"), BAD)
def test_what_cannot_be_an_order_is_refused_by_name_and_value(changes: dict[str, Any], named: list[str]):
    with suppress_type_checks(), pytest.raises(ValueError, match=re.escape(named[0])) as error:
        Order(**small(**changes))

    assert [word for word in named if word not in str(error.value)] == []


def test_longest_shuffles_that_are_allowed_are_accepted():
    """2^32 - 1 blocks, or windows in a buffer: nothing is shuffled before it is asked for."""
    longest = 2**32 - 1
    sizes = [(longest, 1, 1), (longest, longest, 1), (longest * 2, longest, 1), (longest, longest, 10**6)]

    for windows, block, buffer in sizes:
        config = alone("en", windows, sequences_per_read_block=block, read_blocks_per_shuffle_buffer=buffer)
        assert Order(**config).left_out == {"en": 0}


BAD_NUMBERS = [-1, True, False, 1.0, np.float64(2), np.float32(2), "3", None]


@pytest.mark.parametrize("number", BAD_NUMBERS, ids=repr)
def test_step_or_slot_that_is_no_count_is_refused_by_name_and_value(number: Any):
    order = Order(**small())

    with suppress_type_checks():
        asked = {"step": [order.rows], "slot": [order.counts, lambda slot: order.remember(slot, np.zeros((2, 3), int))]}
        asked |= {"start": [lambda start: order.languages(start, 5)]}
        if number is not None:
            asked |= {"stop": [lambda stop: order.languages(2, stop)]}
        for name, calls in asked.items():
            for call in calls:
                with pytest.raises(ValueError, match=rf"(?s){name}.*{re.escape(str(number))}"):
                    call(number)


def test_slot_that_is_no_multiple_of_streams_is_refused():
    order = Order(**small(streams=4, batch=8, windows={"en": 80, "ar": 40, "sw": 16}))

    for use in (order.counts, lambda slot: order.remember(slot, np.zeros((4, 3), np.int64))):
        with pytest.raises(ValueError, match=r"slot 6 .*streams=4"):
            use(6)


def test_languages_before_their_start_are_refused():
    with pytest.raises(ValueError, match=r"stop is 3.*5"):
        Order(**small()).languages(5, 3)


@pytest.mark.parametrize("rows", [[8], [-1], [0, 1, 100], [1.5], [True], ["1"]], ids=repr)
def test_rows_that_the_batch_does_not_have_are_refused(rows: list[Any]):
    """None is taken from the other end of the batch, and none rounded."""
    with suppress_type_checks(), pytest.raises(ValueError, match=rf"(?s)row.*{re.escape(str(rows[-1]))}"):
        Order(**small()).rows(0, rows=rows)


UNOPTIMISED = """
import json, sys
from flatmix.order import Order
assert False, "assertions are off"
cases, common = json.loads(sys.argv[1])
order = Order(**common)
messages = []
def tried(use, *args, **settings):
    try:
        use(*args, **settings)
        messages.append("accepted")
    except ValueError as error:
        messages.append(str(error))
for changes in cases:
    tried(Order, **{**common, **changes})
tried(order.rows, -1)
tried(order.rows, 1.0)
tried(order.counts, 3)
print(json.dumps(messages))
"""


def test_bad_input_is_refused_without_assertions():
    """Under python -O, where each of them would be skipped."""
    cases = [
        ({"weights": {}}, "weight"),
        ({"weights": {"en": -0.1, "ar": 1.1}}, "'en'"),
        ({"weights": {"en": 0, "ar": 0}}, "'en'"),
        ({"weights": {"en": float("nan"), "ar": 1}}, "'en'"),
        ({"weights": {"en": float("inf"), "ar": 1}}, "'en'"),
        ({"weights": {"en": 1, "xx": 1}}, "'xx'"),
        ({"windows": {"en": 80, "ar": 40, "sw": 0}}, "'sw'"),
        ({"seed": -1}, "seed"),
        ({"seed": 2**64}, "seed"),
        ({"batch": 7}, "batch"),
        ({"batch": True}, "batch"),
        ({"phases": [[15, {"en": 1}]]}, "15"),
        ({"selector": "hsah"}, "hsah"),
        ({"sequences_per_read_block": 0}, "sequences_per_read_block"),
        ({"keys": {"en": -1}}, "'en'"),
    ]
    arguments = json.dumps([[changes for changes, _ in cases], small()])
    run = subprocess.run(
        [sys.executable, "-O", "-c", UNOPTIMISED, arguments], capture_output=True, text=True, timeout=60, check=False
    )
    assert run.returncode == 0, run.stderr
    messages = json.loads(run.stdout)
    expected = [word for _, word in cases] + ["step is -1", "step is 1.0", "slot 3"]

    assert len(messages) == len(expected)
    assert [(word, message) for word, message in zip(expected, messages, strict=True) if word not in message] == []
