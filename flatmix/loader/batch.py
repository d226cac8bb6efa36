"""rows of this process -> a batch as sharded `jax.Array`s.

One array of encoded tokens goes to the devices; ids and flags are made there. A process has, and is asked for, the rows
of its own devices only, however the mesh lays them out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Bool, Int32, UInt32, jaxtyped
from numpy.typing import NDArray
from typeguard import typechecked

from flatmix.loader.host import decode

Tokens = UInt32[Array, "batch len"]
Flags = Bool[Array, "batch len"]
Languages = Int32[Array, " batch"]
Encoded = UInt32[Array, "batch window"]


@partial(
    jax.tree_util.register_dataclass,
    data_fields=["inputs", "targets", "is_seq_start", "loss_mask", "language"],
    meta_fields=[],
)
@dataclass(frozen=True)
class TokenBatch:
    """A batch of training data; a pytree.

    inputs: uint32[batch, len]; the token before each target, 0 where none may be seen.
    targets: uint32[batch, len].
    is_seq_start: bool[batch, len]; whether the target is the first token of its document.
    loss_mask: bool[batch, len]; false where the target follows a token that is not known.
    language: int32[batch], an index into the loader's `languages`.
    """

    inputs: Array
    targets: Array
    is_seq_start: Array
    loss_mask: Array
    language: Array


@dataclass(frozen=True)
class EncodedBatch:
    """A batch on its way to the devices, before it is decoded there."""

    encoded: Array  # uint32[batch, window]
    language: Array  # int32[batch]


class Layout:
    """Which rows of a batch the devices of this process hold, and how arrays are made from them.

    Raises ValueError for a sharding over which rows cannot be laid.
    """

    def __init__(self, sharding: NamedSharding | None, length: int):
        if sharding is None:
            sharding = NamedSharding(Mesh(jax.local_devices()[:1], "data"), PartitionSpec())
        if not isinstance(sharding, NamedSharding):
            raise ValueError(f"sharding is {sharding!r}: a jax.sharding.NamedSharding is needed")
        spec = tuple(sharding.spec)
        if any(axes is not None for axes in spec[1:]):
            raise ValueError(f"sharding {sharding.spec} divides the columns too: this version shards rows only")
        self.length = length
        self.sharding = NamedSharding(sharding.mesh, PartitionSpec(*spec[:1]))
        self._decode = jax.jit(partial(_decode_batch, length), out_shardings=self.sharding)

    def check(self, batch: int) -> None:
        """Raises ValueError where the rows of a batch do not divide over the mesh."""
        axes = self.sharding.spec[0] if self.sharding.spec else None
        names = () if axes is None else axes if isinstance(axes, tuple) else (axes,)
        parts = int(np.prod([self.sharding.mesh.shape[name] for name in names], dtype=np.int64))
        if batch % parts:
            raise ValueError(
                f"a batch of {batch} rows does not divide into {parts} parts over the mesh axes {', '.join(names)} "
                f"of {dict(self.sharding.mesh.shape)}: take a multiple of {parts}"
            )

    def own_rows(self, batch: int) -> list[int]:
        """The rows that this process's devices hold, ascending."""
        slices = self.sharding.addressable_devices_indices_map((batch, self.length)).values()
        return sorted({row for index in slices for row in range(*index[0].indices(batch))})

    def to_devices(
        self, batch: int, own: Sequence[int], encoded: NDArray[np.uint32], language: NDArray[np.int64]
    ) -> EncodedBatch:
        """Starts the way to the devices of uint32[own rows, window] and int64[own rows]. Runs no computation."""
        place = {row: number for number, row in enumerate(own)}
        codes = language.astype(np.int32)

        def part(array: NDArray, index: tuple[slice, ...]) -> NDArray:
            start, stop, _ = index[0].indices(batch)  # the rows of a device are consecutive, so they are in `own`
            return array[place[start] : place[start] + stop - start]

        shape = (batch, encoded.shape[1])
        return EncodedBatch(
            jax.make_array_from_callback(shape, self.sharding, partial(part, encoded)),
            jax.make_array_from_callback(shape[:1], self.sharding, partial(part, codes)),
        )

    def decode(self, batch: EncodedBatch) -> TokenBatch:
        """The arrays of the batch, made on the devices. Called where computations may be started."""
        return self._decode(batch.encoded, batch.language)


@jaxtyped(typechecker=None)
@typechecked
def _decode_batch(length: int, encoded: Encoded, language: Languages) -> TokenBatch:
    return TokenBatch(*decode(encoded, length, jnp), language)
