"""weights as people mean them -> weights of tokens, the ones that the order draws by.

A row has as many tokens whatever its language, so the order's weights are shares of tokens. Mode "tokens" says just
that. Mode "content" says how much of what is told each language shall tell, and a tokenizer needs more tokens for that
in some languages than in others: `content` has the arithmetic. Here it is done for every phase of a mixture, before the
order is built and once for a run; the languages and their sequence stay as they are.

Cost: none that could be measured. What a split holds is known from its attributes, and no token is read.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from flatmix.mixing.content import Measured, bytes_per_token, shares, token_shares
from flatmix.order.selector import checked_weights
from flatmix.params import MixtureParams, Weights

__all__ = ["LanguageShare", "Measured", "PhaseShares", "describe", "token_weights"]


@dataclass(frozen=True)
class LanguageShare:
    """What was asked for one language in one phase, and what it became.

    `asked` is a share of what the mixture's mode counts (tokens, or content), `tokens` the share of the tokens. The
    byte premium and the UTF-8 bytes of a token are None where mode "tokens" has no use for them.
    """

    language: str
    asked: float
    byte_premium: float | None
    bytes_per_token: float | None
    tokens: float


@dataclass(frozen=True)
class PhaseShares:
    """The languages of the mixture, in their sequence, from `step` on."""

    step: int
    languages: tuple[LanguageShare, ...]


def token_weights(mixture: MixtureParams, splits: Mapping[str, Measured]) -> MixtureParams:
    """The same mixture in mode "tokens"; one that is in it already is returned as it is.

    splits: of each language that has a weight, the split that will be read, which knows its tokens and the bytes of
    their text. Raises ValueError for weights that are none, and for a language that cannot be measured.
    """
    if mixture.mode == "tokens":
        return mixture
    weights, *later = (
        {share.language: share.tokens for share in phase.languages} for phase in describe(mixture, splits)
    )
    steps = [step for step, _ in mixture.phases or ()]
    phases = None if mixture.phases is None else list(zip(steps, later, strict=True))
    return replace(mixture, weights=weights, phases=phases, mode="tokens", byte_premiums=None)


def describe(mixture: MixtureParams, splits: Mapping[str, Measured]) -> tuple[PhaseShares, ...]:
    """What was asked and what it became, by phase and language. Errors as for `token_weights`."""
    phases = [(0, mixture.weights), *(mixture.phases or ())]
    return tuple(PhaseShares(step, _languages(mixture, step, weights, splits)) for step, weights in phases)


def _languages(
    mixture: MixtureParams, step: int, weights: Weights, splits: Mapping[str, Measured]
) -> tuple[LanguageShare, ...]:
    checked = checked_weights([*weights.items()], f"mixture from step {step} on")
    asked = dict.fromkeys(mixture.languages, 0.0) | shares(dict(zip(weights, checked, strict=True)))
    if mixture.mode == "tokens":
        return tuple(LanguageShare(name, share, None, None, share) for name, share in asked.items())
    premiums = {name: float(premium) for name, premium in (mixture.byte_premiums or {}).items()}
    measured = {name: bytes_per_token(name, splits.get(name)) for name, share in asked.items() if share}
    tokens = token_shares(asked, premiums, measured)
    return tuple(
        LanguageShare(name, share, premiums.get(name), measured.get(name), tokens[name])
        for name, share in asked.items()
    )
