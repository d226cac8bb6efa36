"""rows of this process -> a batch as sharded `jax.Array`s.

One array of encoded tokens goes to the devices, and ids and flags are made there; where the columns are divided too, a
second one with the token before each. A process has, and is asked for, the rows of its own devices only, however the
mesh lays them out.
"""

import math
from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Int32, UInt32, jaxtyped
from numpy.typing import NDArray
from typeguard import typechecked

from flatmix.loader.host import RowFormat, row_fields, split_fields, split_rows

Tokens = UInt32[Array, "batch len"]
Languages = Int32[Array, " batch"]
Rows = UInt32[Array, "batch words"]


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
    loss_mask: bool[batch, len]; false on padding, and where the target follows a token that is not known.
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

    rows: tuple[Array | NDArray, ...]  # uint32[batch, words]; or own and before, uint32[batch, len] each
    language: Array | NDArray  # int32[batch]


class Layout:
    """Which rows of a batch the devices of this process hold, and how arrays are made from them.

    Raises ValueError for a sharding over which they cannot be laid.
    """

    def __init__(self, sharding: NamedSharding | None, form: RowFormat):
        if sharding is None:
            sharding = NamedSharding(Mesh(jax.local_devices()[:1], "data"), PartitionSpec())
        if not isinstance(sharding, NamedSharding):
            raise ValueError(f"sharding is {sharding!r}: a jax.sharding.NamedSharding is needed")
        if len(sharding.spec) > 2:
            raise ValueError(f"sharding {sharding.spec} names {len(sharding.spec)} axes: a batch has rows and columns")
        self.form, self.sharding = form, sharding
        if PartitionSpec.UNCONSTRAINED in tuple(sharding.spec):
            raise ValueError(f"sharding {sharding.spec} leaves an axis open: name its mesh axes, or None")
        self.row_sharding = NamedSharding(
            sharding.mesh, PartitionSpec(*sharding.spec[:1]), memory_kind=sharding.memory_kind
        )
        self._check_divides(f"a row of {form.length} tokens", form.length, 1)
        self._columns_divided = self._parts(1) > 1
        # Where the rows are already, there is nothing to send ahead: `jit` takes them as they are, at less cost.
        self._here = jax.process_count() == 1 and all(device.platform == "cpu" for device in sharding.device_set)
        tokens = sharding if self._columns_divided else self.row_sharding
        lies = TokenBatch(tokens, tokens, tokens, tokens, self.row_sharding)
        # The functions of this module themselves: JAX then compiles once for all loaders of one layout.
        rows = (sharding, sharding) if self._columns_divided else (self.row_sharding,)
        settings = {"out_shardings": lies, **({"in_shardings": (*rows, self.row_sharding)} if self._here else {})}
        if self._columns_divided:
            self._decode = jax.jit(_decode_columns, **settings)
        else:
            self._decode = partial(jax.jit(_decode_rows, static_argnums=0, **settings), form)

    def check(self, batch: int) -> None:
        """Raises ValueError where the rows of a batch do not divide over the mesh."""
        self._check_divides(f"a batch of {batch} rows", batch, 0)

    def own_rows(self, batch: int) -> NDArray[np.int64]:
        """The rows that this process's devices hold, rising."""
        slices = self.row_sharding.addressable_devices_indices_map((batch,)).values()
        return np.array(sorted({row for index in slices for row in range(*index[0].indices(batch))}), np.int64)

    def processes(self, batch: int) -> int:
        """How many processes have rows that are not also another's."""
        rows: dict[int, set[tuple[int, int, int]]] = {}
        for device, index in self.row_sharding.devices_indices_map((batch,)).items():
            rows.setdefault(device.process_index, set()).add(index[0].indices(batch))
        return len({frozenset(parts) for parts in rows.values()})

    def to_devices(
        self, batch: int, own: NDArray[np.int64], rows: NDArray[np.uint32], language: NDArray[np.int64]
    ) -> EncodedBatch:
        """Starts the way to the devices of uint32[own rows, words] and int64[own rows]. Runs no computation."""
        arrays, sharding = ((rows,), self.row_sharding)
        if self._columns_divided:
            arrays, sharding = split_rows(rows, self.form), self.sharding
        codes = language.astype(np.int32)
        if self._here and len(own) == batch:
            return EncodedBatch(arrays, codes)
        place = {row: number for number, row in enumerate(own.tolist())}

        def part(array: NDArray, index: tuple[slice, ...]) -> NDArray:
            start, stop, _ = index[0].indices(batch)  # the rows of a device are consecutive, so they are in `own`
            return array[(slice(place[start], place[start] + stop - start), *index[1:])]

        def laid(array: NDArray, sharding: NamedSharding) -> Array:
            shape, dtype = (batch, *array.shape[1:]), array.dtype  # a process may have no device, and so no part
            return jax.make_array_from_callback(shape, sharding, partial(part, array), dtype=dtype)

        return EncodedBatch(tuple(laid(array, sharding) for array in arrays), laid(codes, self.row_sharding))

    def decode(self, batch: EncodedBatch) -> TokenBatch:
        """The arrays of the batch, made on the devices. Called where computations may be started."""
        return self._decode(*batch.rows, batch.language)

    def _axes(self, dimension: int) -> tuple[str, ...]:
        axes = self.sharding.spec[dimension] if dimension < len(self.sharding.spec) else None
        return () if axes is None else axes if isinstance(axes, tuple) else (axes,)

    def _parts(self, dimension: int) -> int:
        return math.prod(self.sharding.mesh.shape[name] for name in self._axes(dimension))

    def _check_divides(self, what: str, size: int, dimension: int) -> None:
        parts = self._parts(dimension)
        if size % parts:
            raise ValueError(
                f"{what} does not divide into {parts} parts over the mesh axes {', '.join(self._axes(dimension))} of "
                f"{dict(self.sharding.mesh.shape)}: take a multiple of {parts}"
            )


@jaxtyped(typechecker=None)
@typechecked
def _decode_rows(form: RowFormat, rows: Rows, language: Languages) -> TokenBatch:
    return TokenBatch(*row_fields(rows, form, jnp), language)


@jaxtyped(typechecker=None)
@typechecked
def _decode_columns(own: Tokens, before: Tokens, language: Languages) -> TokenBatch:
    return TokenBatch(*split_fields(own, before), language)
