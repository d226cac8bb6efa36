"""The order never changes: every value of golden/order-v1.json, from the implementation and from the slow reference.

The file is read when this module is imported, so that a missing one is an error and not a skipped test.
"""

import json
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import reference
from order_cases import as_lists, as_rows

import flatmix.order
from flatmix.order import permutation, selector, windows

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "order-v1.json").read_text(encoding="utf-8"))
FLATMIX = SimpleNamespace(
    splitmix64=permutation.splitmix64,
    fisher_yates=permutation.fisher_yates,
    language_key=permutation.language_key,
    epoch_key=permutation.epoch_key,
    thresholds=selector.thresholds,
    window_count=windows.window_count,
    auto_sizes=windows.auto_sizes,
    Order=flatmix.order.Order,
)

both = pytest.mark.parametrize("order", [FLATMIX, reference], ids=["flatmix", "reference"])


def order_from(module: Any, config: dict[str, Any]) -> Any:
    (first, weights), *phases = config["phases"]
    assert first == 0
    return module.Order(
        config["windows"],
        weights,
        [tuple(phase) for phase in phases],
        seed=int(config["seed"]),
        batch=config.get("batch"),
        timeline=[tuple(entry) for entry in config["timeline"]] if "timeline" in config else None,
        streams=config["streams"],
        selector=config["selector"],
        sequences_per_read_block=config.get("q", "auto"),
        read_blocks_per_shuffle_buffer=config.get("p", "auto"),
        window_tokens=config.get("window"),
        keys={name: int(key) for name, key in config.get("keys", {}).items()},
    )


def test_golden_file_holds_every_section_in_full():
    sizes = {section: len(cases) for section, cases in GOLDEN.items()}

    assert sizes == {
        "splitmix64": 7,
        "fisher_yates": 7,
        "language_key": 5,
        "epoch_key": 4,
        "selector": 12,
        "thresholds": 7,
        "order": 9,
        "windows": 10,
        "auto": 7,
    }


@both
def test_splitmix64(order: Any):
    got = {x: order.splitmix64(int(x)) for x in GOLDEN["splitmix64"]}

    assert got == {x: int(value) for x, value in GOLDEN["splitmix64"].items()}


@both
@pytest.mark.parametrize("case", GOLDEN["fisher_yates"])
def test_fisher_yates(order: Any, case: dict[str, Any]):
    assert case["result"] == list(order.fisher_yates(int(case["key"]), case["length"]))


@both
@pytest.mark.parametrize("case", GOLDEN["language_key"])
def test_language_key(order: Any, case: dict[str, Any]):
    assert int(case["key"]) == order.language_key(int(case["seed"]), case["name"])


@both
@pytest.mark.parametrize("case", GOLDEN["epoch_key"])
def test_epoch_key(order: Any, case: dict[str, Any]):
    assert int(case["result"]) == order.epoch_key(int(case["key"]), case["epoch"])


@both
@pytest.mark.parametrize("case", GOLDEN["selector"])
def test_languages_of_slots(order: Any, case: dict[str, Any]):
    names = [f"language {i}" for i in range(len(case["weights"]))]
    of_slots = order.Order(
        {name: case["streams"] for name in names},
        dict(zip(names, case["weights"], strict=True)),
        seed=int(case["seed"]),
        batch=case["streams"],
        streams=case["streams"],
        selector=case["selector"],
        sequences_per_read_block=1,
        read_blocks_per_shuffle_buffer=1,
    )
    first = case["first_slot"]

    assert case["languages"] == list(of_slots.languages(first, first + len(case["languages"])))


@both
@pytest.mark.parametrize("case", GOLDEN["thresholds"])
def test_thresholds(order: Any, case: dict[str, Any]):
    assert [int(bound) for bound in case["thresholds"]] == list(order.thresholds(case["weights"]))


@both
@pytest.mark.parametrize("case", GOLDEN["order"], ids=range(len(GOLDEN["order"])))
def test_rows(order: Any, case: dict[str, Any]):
    made = order_from(order, case["config"])
    got = []
    for step in case["steps"]:
        rows = as_rows(made.rows(step))
        got.append([[made.names[row.language], row.occurrence, row.epoch, row.window] for row in rows])

    assert case["rows"] == got


@both
@pytest.mark.parametrize("case", GOLDEN["order"], ids=range(len(GOLDEN["order"])))
def test_counts(order: Any, case: dict[str, Any]):
    made = order_from(order, case["config"])

    assert [entry["counts"] for entry in case["counts"]] == [
        as_lists(made.counts(int(entry["slot"]))) for entry in case["counts"]
    ]


@both
@pytest.mark.parametrize("case", GOLDEN["windows"])
def test_window_count(order: Any, case: dict[str, Any]):
    assert int(case["windows"]) == order.window_count(int(case["tokens"]), case["window"], case["stride"])


@both
@pytest.mark.parametrize("case", GOLDEN["auto"])
def test_auto_sizes(order: Any, case: dict[str, Any]):
    assert (case["Q"], case["P"]) == tuple(order.auto_sizes(case["windows"], case["streams"], case["window"]))


def test_order_is_the_same_under_every_numpy():
    """200 batches as bytes: what a NumPy that drew or widened otherwise would change."""
    order = flatmix.order.Order(
        {"en": 80, "ar": 40, "sw": 4},
        {"en": 0.6, "ar": 0.3, "sw": 0.1},
        seed=7,
        batch=8,
        streams=1,
        sequences_per_read_block=4,
        read_blocks_per_shuffle_buffer=2,
    )

    def columns(step: int) -> np.ndarray:
        rows = order.rows(step)
        return np.stack([rows.slot, rows.language, rows.occurrence, rows.epoch, rows.window])

    digest = sha256(b"".join(columns(step).astype("<i8").tobytes() for step in range(200)))

    assert digest.hexdigest() == "3b145ef5f3ca2d0432531f29be653f0f8f89fde10fa745e5ab03f43ba9a8f54e"
