"""The arithmetic of shares, against fractions worked out by hand and in exact numbers."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as some

from flatmix.mixing.content import bytes_per_token, shares, token_shares


def test_tokens_follow_content_premium_and_bytes_a_token():
    """Half of the content each: `hi` needs twice the bytes, and its tokens stand for a third as many."""
    tokens = token_shares({"en": 0.5, "hi": 0.5}, {"en": 1.0, "hi": 2.0}, {"en": 4.5, "hi": 1.5})

    assert tokens == pytest.approx({"en": 1 / 7, "hi": 6 / 7})
    assert sum(tokens.values()) == pytest.approx(1)


numbers = some.floats(1e-6, 1e6)
tables = some.lists(some.tuples(some.one_of(some.just(0.0), numbers), numbers, numbers), min_size=1, max_size=6).filter(
    lambda rows: any(content for content, _, _ in rows)
)


@given(tables)
def test_token_shares_equal_exact_arithmetic(rows: list[tuple[float, float, float]]):
    names = [f"l{number}" for number in range(len(rows))]
    content, premiums, lengths = (dict(zip(names, column, strict=True)) for column in zip(*rows, strict=True))
    exact = [Fraction(share) * Fraction(premium) / Fraction(length) for share, premium, length in rows]

    tokens = token_shares(content, premiums, lengths)

    assert list(tokens) == names
    for name, part in zip(names, exact, strict=True):
        assert tokens[name] == pytest.approx(float(part / sum(exact)), rel=1e-12)
        assert (tokens[name] == 0) == (content[name] == 0)


@given(tables, some.integers(-20, 20))
def test_the_reference_of_the_premiums_does_not_count(rows: list[tuple[float, float, float]], power: int):
    """Powers of two, so that not even the last bit may differ."""
    content, premiums, lengths = (dict(enumerate(map(float, column))) for column in zip(*rows, strict=True))
    content, premiums, lengths = (
        {f"l{name}": value for name, value in table.items()} for table in (content, premiums, lengths)
    )
    scaled = {name: premium * 2.0**power for name, premium in premiums.items()}

    assert token_shares(content, scaled, lengths) == token_shares(content, premiums, lengths)


def test_nothing_is_asked_of_a_language_without_a_share():
    assert token_shares({"en": 1.0, "sw": 0.0}, {"en": 1.0}, {"en": 4.0}) == {"en": 1.0, "sw": 0.0}


def test_shares_are_added_up_one_after_the_other():
    """`sum` of newer Pythons gives 1.0 for ten tenths, and another last bit of every share."""
    tenths = {f"l{number}": 0.1 for number in range(10)}
    total = 0.0
    for weight in tenths.values():
        total += weight

    assert total == 0.9999999999999999
    assert set(shares(tenths).values()) == {0.1 / total}


class Counts:
    def __init__(self, tokens: int, utf8_bytes: int | None) -> None:
        self.tokens, self.utf8_bytes = tokens, utf8_bytes


def test_bytes_per_token_are_counted_over_the_split():
    assert bytes_per_token("en", Counts(200, 900)) == 4.5


@pytest.mark.parametrize(
    ("split", "message"),
    [
        (None, "language 'sw' has a weight, and no split to measure its tokens in"),
        (Counts(0, 0), "language 'sw' has no tokens: mode \"content\" cannot tell"),
        (Counts(8, None), "language 'sw' has tokens of unknown text: mode \"content\" needs the bytes"),
        (Counts(8, 0), r"language 'sw' has 8 tokens of no text at all \(0 bytes\)"),
    ],
)
def test_a_language_that_cannot_be_measured_is_refused_by_name(split: Counts | None, message: str):
    with pytest.raises(ValueError, match=message):
        bytes_per_token("sw", split)


@pytest.mark.parametrize(
    ("share", "premiums"),
    [
        (0.1, {"en": 5e-324, "hi": 5e-324}),
        (1e3, {"en": 1e-308, "hi": 1e308}),
        (1e3, {"en": 1e308, "hi": 1e308}),
    ],
)
def test_a_share_that_would_be_lost_is_refused_by_name(share: float, premiums: dict[str, float]):
    with pytest.raises(
        ValueError, match=r"language '(en|hi)' would have the share .* too far from those of the others"
    ):
        token_shares({"en": share, "hi": share}, premiums, {"en": 4.0, "hi": 4.0})
