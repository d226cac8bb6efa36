"""is_seq_start -> segment ids and positions within documents, for attention that stays within a document.

Two tokens of a row belong to one document if their segment ids are equal. Both functions can be used inside jit, and on
arrays whose sequence axis is divided over a mesh.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int32, jaxtyped
from typeguard import typechecked

Starts = Bool[Array, "batch len"]
Numbers = Int32[Array, "batch len"]


@jaxtyped(typechecker=None)
@typechecked
def segment_ids(is_seq_start: Starts) -> Numbers:
    """How many documents have started in the row up to each token: int32[batch, len].

    0 until the first start: a row may begin in the middle of a document.
    """
    return jnp.cumsum(is_seq_start, axis=1, dtype=jnp.int32)


@jaxtyped(typechecker=None)
@typechecked
def segment_positions(is_seq_start: Starts) -> Numbers:
    """The tokens since the start of the document, or of the row where that is later: int32[batch, len]."""
    place = jax.lax.broadcasted_iota(jnp.int32, is_seq_start.shape, 1)
    return place - jax.lax.cummax(jnp.where(is_seq_start, place, 0), axis=1)
