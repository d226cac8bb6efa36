"""Mixtures in shares of content become mixtures in shares of tokens, phase by phase; and what is no such mixture."""

from pathlib import Path

import pytest
from stores import num

from flatmix import MixtureParams, open_store
from flatmix.mixing import LanguageShare, PhaseShares, describe, token_weights
from flatmix.store import Split
from flatmix.store.writer import SplitWriter

# bytes a token: 4.5, 3 and 2.5; `void` has no text
BYTES = {"en": 4500, "hi": 3000, "sw": 2500, "void": None}
PREMIUMS = {"en": 1.0, "hi": 2.4, "sw": 1.1}


@pytest.fixture(scope="module")
def splits(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Split]:
    path: Path = tmp_path_factory.mktemp("mixing") / "s.zarr"
    for language, utf8_bytes in BYTES.items():
        with SplitWriter(path, language, "train") as writer:
            writer.add(num(1000, 0)[0], utf8_bytes)
            writer.finish()
    return open_store(path).open(BYTES, "train")


def content(weights: dict[str, float], premiums: dict[str, float] | None = None, **changes) -> MixtureParams:
    """In shares of content; with the premiums of its own languages, unless others are given."""
    if premiums is None:
        premiums = {name: PREMIUMS[name] for name in MixtureParams(weights, phases=changes.get("phases")).languages}
    return MixtureParams(weights, mode="content", byte_premiums=premiums, **changes)


def test_shares_of_tokens_are_taken_as_they_are():
    mixture = MixtureParams({"en": 3, "sw": 1})
    assert token_weights(mixture, {}) is mixture


def test_shares_of_content_become_shares_of_tokens(splits: dict[str, Split]):
    parts = {"en": 0.5 * 1.0 / 4.5, "hi": 0.25 * 2.4 / 3, "sw": 0.25 * 1.1 / 2.5}

    solved = token_weights(content({"en": 0.5, "hi": 0.25, "sw": 0.25}), splits)

    assert solved.weights == pytest.approx({name: part / sum(parts.values()) for name, part in parts.items()})
    assert (solved.mode, solved.byte_premiums, solved.phases) == ("tokens", None, None)


def test_weights_need_not_add_up_to_1(splits: dict[str, Split]):
    halves = token_weights(content({"en": 0.5, "hi": 0.25, "sw": 0.25}), splits)
    assert token_weights(content({"en": 2, "hi": 1, "sw": 1}), splits) == halves


def test_every_phase_is_solved_and_all_else_is_kept(splits: dict[str, Split]):
    mixture = content(
        {"sw": 0.5, "en": 0.5}, selector="balanced", phases=[(5, {"hi": 1}), (9, {"en": 1, "sw": 3})], keys={"sw": 1}
    )

    solved = token_weights(mixture, splits)

    assert solved.languages == mixture.languages == ("sw", "en", "hi")
    assert (solved.selector, solved.keys) == ("balanced", {"sw": 1})
    assert [step for step, _ in solved.phases] == [5, 9]
    assert solved.phases[0][1] == {"sw": 0, "en": 0, "hi": 1}
    assert solved.phases[1][1] == token_weights(content({"sw": 3, "en": 1, "hi": 0}), splits).weights


def test_a_language_of_weight_0_needs_neither_premium_nor_text(splits: dict[str, Split]):
    solved = token_weights(content({"en": 1, "void": 0}, {"en": 1}), splits)
    assert solved.weights == {"en": 1, "void": 0}


def test_what_was_asked_and_what_it_became_can_be_told(splits: dict[str, Split]):
    asked = describe(content({"en": 3, "hi": 1}, phases=[(5, {"sw": 2})]), splits)

    tokens = {"en": 0.75 * 1 / 4.5, "hi": 0.25 * 2.4 / 3}
    total = sum(tokens.values())
    assert asked == (
        PhaseShares(
            0,
            (
                LanguageShare("en", 0.75, 1.0, 4.5, pytest.approx(tokens["en"] / total)),
                LanguageShare("hi", 0.25, 2.4, 3.0, pytest.approx(tokens["hi"] / total)),
                LanguageShare("sw", 0.0, 1.1, None, 0.0),
            ),
        ),
        PhaseShares(
            5,
            (
                LanguageShare("en", 0.0, 1.0, None, 0.0),
                LanguageShare("hi", 0.0, 2.4, None, 0.0),
                LanguageShare("sw", 1.0, 1.1, 2.5, 1.0),
            ),
        ),
    )


def test_shares_of_tokens_can_be_told_without_a_store():
    assert describe(MixtureParams({"en": 3, "sw": 1}), {}) == (
        PhaseShares(0, (LanguageShare("en", 0.75, None, None, 0.75), LanguageShare("sw", 0.25, None, None, 0.25))),
    )


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda splits: token_weights(content({"en": -1}), splits), "mixture from step 0 on: the weight of 'en' is -1"),
        (
            lambda splits: token_weights(content({"en": 1}, phases=[(5, {"sw": float("nan")})]), splits),
            "mixture from step 5 on: the weight of 'sw' is nan",
        ),
        (lambda splits: token_weights(content({"en": 0}), splits), "mixture from step 0 on.*have the sum 0"),
        (
            lambda splits: token_weights(content({"en": 1, "void": 1}, {"en": 1, "void": 1}), splits),
            "language 'void' has tokens of unknown text",
        ),
        (
            lambda splits: token_weights(content({"en": 1, "xx": 1}, {"en": 1, "xx": 1}), splits),
            "language 'xx' has a weight, and no split",
        ),
    ],
)
def test_what_has_no_shares_of_tokens_is_refused_by_name(splits: dict[str, Split], make, message: str):
    with pytest.raises(ValueError, match=message):
        make(splits)
