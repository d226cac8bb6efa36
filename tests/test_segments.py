"""Segment ids and positions: by hand, inside jit, over divided sequences; and the attention that is made from them."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from typeguard import TypeCheckError

from flatmix import segment_ids, segment_positions

STARTS = np.array([[0, 1, 1, 0, 0, 1, 0, 0], [1, 0, 0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 0]], bool)
IDS = [[0, 1, 2, 2, 2, 3, 3, 3], [1] * 8, [0] * 8]
POSITIONS = [[0, 0, 0, 1, 2, 0, 1, 2], list(range(8)), list(range(8))]


def test_ids_count_starts_and_positions_count_from_them():
    ids, positions = segment_ids(jnp.array(STARTS)), segment_positions(jnp.array(STARTS))
    assert ids.dtype == positions.dtype == jnp.int32
    assert ids.tolist() == IDS
    assert positions.tolist() == POSITIONS


@pytest.mark.parametrize("spec", [PartitionSpec("data"), PartitionSpec("data", "model"), PartitionSpec(None, "model")])
def test_they_are_the_same_on_divided_sequences_inside_jit(spec: PartitionSpec):
    starts = np.random.Generator(np.random.Philox(3)).random((8, 64)) < 0.2
    mesh = Mesh(np.array(jax.devices()).reshape(4, 2), ("data", "model"))
    divided = jax.device_put(starts, NamedSharding(mesh, spec))
    ids, positions = jax.jit(lambda x: (segment_ids(x), segment_positions(x)))(divided)
    np.testing.assert_array_equal(ids, np.cumsum(starts, axis=1))
    plain = [[place - max([0, *np.flatnonzero(row[: place + 1])]) for place in range(64)] for row in starts]
    np.testing.assert_array_equal(positions, plain)


def attention(x: jax.Array, visible: jax.Array) -> jax.Array:
    """float32[batch, len, width] -> the same: softmax over what is visible, bool[batch, len, len]."""
    scores = jnp.where(visible, jnp.einsum("bqd,bkd->bqk", x, x), jnp.float32(-1e30))
    return jnp.einsum("bqk,bkd->bqd", jax.nn.softmax(scores), x)


def test_attention_within_documents_is_that_of_each_document_alone():
    """What a document's tokens see does not depend on its neighbours in the row."""
    starts = jnp.array([[1, 0, 0, 1, 0, 0, 0, 1]], bool)
    x = jnp.asarray(np.random.Generator(np.random.Philox(5)).standard_normal((1, 8, 4)), jnp.float32)
    ids, positions = segment_ids(starts), segment_positions(starts)
    same_document = ids[:, :, None] == ids[:, None, :]
    causal = positions[:, :, None] >= positions[:, None, :]
    packed = attention(x, same_document & causal)
    for first, last in ((0, 3), (3, 7), (7, 8)):
        alone = attention(x[:, first:last], jnp.tril(jnp.ones((1, last - first, last - first), bool)))
        np.testing.assert_allclose(packed[:, first:last], alone, rtol=1e-5, atol=1e-6)
    everything = attention(x, jnp.tril(jnp.ones((1, 8, 8), bool)))
    assert not np.allclose(packed[:, 3:], everything[:, 3:])


def test_what_is_no_start_flags_is_refused():
    with pytest.raises(TypeCheckError):
        segment_ids(jnp.zeros((2, 8), jnp.uint32))
    with pytest.raises(TypeCheckError):
        segment_positions(jnp.zeros(8, bool))
