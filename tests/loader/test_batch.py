"""Batches over devices: equal whatever the mesh, laid out as asked, each row read once."""

import threading
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from fakes import watch
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jax.sharding import PartitionSpec as P
from processes import outputs, run_python
from stores import FIELDS, assert_same, host_batches, loader, over_devices, tokens_digest, write_store
from typeguard import suppress_type_checks

from flatmix import TokenBatch
from flatmix.loader.batch import Layout
from flatmix.loader.host import RowFormat

SHUFFLED = (5, 2, 7, 0, 3, 6, 1, 4)


def mesh(*sizes: int, order: tuple[int, ...] = tuple(range(8))) -> Mesh:
    devices = np.array([jax.devices()[number] for number in order])
    return Mesh(devices.reshape(sizes), ("data", "model")[: len(sizes)])


LAYOUTS = {
    "one device": ((1,), (3,), P("data")),
    "data": ((8,), range(8), P("data")),
    "data, shuffled devices": ((8,), SHUFFLED, P("data")),
    "data, with columns named": ((4, 2), SHUFFLED, P("data", None)),
    "both axes": ((4, 2), range(8), P(("data", "model"))),
    "both axes the other way round": ((4, 2), SHUFFLED, P(("model", "data"))),
    "model": ((2, 4), SHUFFLED, P("model")),
    "two by four": ((2, 4), range(8), P("data")),
    "rows and columns": ((4, 2), SHUFFLED, P("data", "model")),
    "rows and columns, axes exchanged": ((4, 2), range(8), P("model", "data")),
    "columns": ((4, 2), SHUFFLED, P(None, "model")),
    "columns over both axes": ((2, 4), SHUFFLED, P(None, ("data", "model"))),
    "replicated": ((4, 2), SHUFFLED, P()),
    "replicated, with rows named": ((4, 2), range(8), P(None)),
}


def sharding_of(name: str) -> NamedSharding:
    sizes, order, spec = LAYOUTS[name]
    return NamedSharding(mesh(*sizes, order=tuple(order)), spec)


@pytest.fixture(params=["rows are there", "rows are sent"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are taken as they are where all devices are CPUs of this process; elsewhere they are sent ahead."""
    if request.param == "rows are sent":
        make = Layout.__init__

        def sends(self: Layout, *arguments: Any) -> None:
            make(self, *arguments)
            assert self._here
            self._here = False

        monkeypatch.setattr(Layout, "__init__", sends)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("name", LAYOUTS)
def test_a_batch_is_the_same_over_any_devices_and_lies_as_asked(standard: str, name: str):
    sharding = sharding_of(name)
    own, plain = loader(standard, sharding=sharding), loader(standard)
    rows = NamedSharding(sharding.mesh, PartitionSpec(*sharding.spec[:1]))
    for step in (0, 1, 9):
        batch = own.load(step)
        assert_same(plain.load_host(step), batch)
        for field in FIELDS:
            array = getattr(batch, field)
            assert array.sharding.is_equivalent_to(rows if field == "language" else sharding, array.ndim), field
            assert array.is_fully_addressable
    assert len({getattr(batch, field).sharding for field in FIELDS if field != "language"}) == 1


@pytest.mark.usefixtures("way")
def test_a_mesh_with_explicit_axes_serves_too(standard: str):
    assert over_devices(8).mesh.axis_types != mesh(8).axis_types
    assert_same(loader(standard).load_host(4), loader(standard, sharding=over_devices(8)).load(4))
    grid = NamedSharding(jax.make_mesh((4, 2), ("data", "model")), P("data", "model"))
    assert_same(loader(standard).load_host(4), loader(standard, sharding=grid).load(4))


@pytest.mark.usefixtures("way")
def test_without_a_sharding_a_batch_lies_on_one_device(standard: str):
    assert loader(standard).load(0).targets.devices() == {jax.devices()[0]}


@pytest.mark.parametrize("name", ["two by four", "model", "replicated", "data", "rows and columns", "columns"])
def test_each_row_is_read_once_however_many_devices_hold_it(standard: str, name: str, monkeypatch: pytest.MonkeyPatch):
    disk = watch(monkeypatch)
    own = loader(standard, sharding=sharding_of(name), memory_budget=0)
    own.load(3)
    windows = zip(own.order.rows(3).language.tolist(), own.order.rows(3).window.tolist(), strict=True)
    assert sorted(disk.spans()) == sorted(
        (own.languages[language], 8 * window, 8 * window + 8) for language, window in windows
    )


class HalfHere:
    """A sharding as one of two processes sees it: devices 0 to 3 of 8 are its own. Stands in for NamedSharding."""

    def __init__(self, sharding: NamedSharding):
        self.sharding = sharding

    def addressable_devices_indices_map(self, shape: tuple[int, ...]) -> dict[Any, Any]:
        everywhere = self.sharding.devices_indices_map(shape)
        return {device: index for device, index in everywhere.items() if device.id < 4}


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("data", [0, 1, 2, 3]),
        ("data, shuffled devices", [1, 3, 4, 6]),
        ("two by four", [0, 1, 2, 3]),
        ("model", [0, 1, 2, 3, 4, 5, 6, 7]),
        ("data, with columns named", [0, 1, 2, 3, 4, 5, 6, 7]),
        ("replicated", [0, 1, 2, 3, 4, 5, 6, 7]),
    ],
)
def test_a_process_asks_for_the_rows_of_its_own_devices_only(
    monkeypatch: pytest.MonkeyPatch, name: str, rows: list[int]
):
    layout = Layout(sharding_of(name), RowFormat(8))
    assert layout.own_rows(8).tolist() == list(range(8))
    monkeypatch.setattr(layout, "row_sharding", HalfHere(layout.row_sharding))
    assert layout.own_rows(8).tolist() == rows


def test_a_sharding_that_rows_and_columns_cannot_lie_on_is_refused_in_words(standard: str):
    with pytest.raises(ValueError, match="a row of 8 tokens does not divide into 3 parts over the mesh axes data"):
        Layout(NamedSharding(mesh(3, order=(0, 1, 2)), P(None, "data")), RowFormat(8))
    with pytest.raises(ValueError, match="a row of 7 tokens does not divide into 2 parts over the mesh axes model of"):
        loader(standard, len=7, sharding=NamedSharding(mesh(4, 2), P("data", "model")))
    with pytest.raises(ValueError, match="names 3 axes: a batch has rows and columns"):
        loader(standard, sharding=NamedSharding(mesh(4, 2), P("data", None, "model")))
    with suppress_type_checks(), pytest.raises(ValueError, match=r"a jax\.sharding\.NamedSharding is needed"):
        loader(standard, sharding=jax.sharding.SingleDeviceSharding(jax.devices()[0]))


def test_a_batch_that_does_not_divide_is_refused_in_words(standard: str):
    with pytest.raises(ValueError, match="a batch of 6 rows does not divide into 4 parts over the mesh axes data"):
        loader(standard, batch=6, sharding=NamedSharding(mesh(4, 2), P("data")))
    with pytest.raises(ValueError, match=r"a batch of 12 rows does not divide into 8 parts .* data, model .* of 8"):
        loader(standard, batch=12, sharding=NamedSharding(mesh(4, 2), P(("data", "model"))))
    loader(standard, batch=6, sharding=NamedSharding(mesh(4, 2), P("model"))).load(0)


@pytest.mark.usefixtures("way")
@pytest.mark.parametrize("devices", [1, 8])
def test_a_thousand_batches_that_are_kept_do_not_change(tmp_path_factory: pytest.TempPathFactory, devices: int):
    """JAX shares the memory of aligned rows that it was given: none of it may be used again while a batch is held.

    Between them come batches that nobody holds, and arrays of the host that are written over.
    """
    store = write_store(tmp_path_factory.mktemp("kept") / "s.zarr", {"en": [list(range(20_000))]}, chunk=2000)
    with suppress_type_checks(), loader(store, {"en": 1}, len=128, sharding=over_devices(devices), prefetch=2) as own:
        kept = []
        for step, batch in enumerate(own.steps(0, 1000)):
            kept.append(batch)
            if step % 10 == 0:
                own.load(step + 2)
                host = own.load_host(step + 1)
                for field in FIELDS:
                    getattr(host, field)[:] = 1
        assert own.metrics()["buffers_filled"] > 50
        for step, batch in enumerate(kept):
            targets = own.order.rows(step).window[:, None] * 128 + np.arange(128)
            inputs = np.where(np.arange(128) == 0, 0, targets - 1)
            np.testing.assert_array_equal(np.asarray(batch.targets), targets.astype(np.uint32))
            np.testing.assert_array_equal(np.asarray(batch.inputs), inputs.astype(np.uint32))
            np.testing.assert_array_equal(np.asarray(batch.is_seq_start), targets == 0)
            np.testing.assert_array_equal(np.asarray(batch.loss_mask), (targets == 0) | (np.arange(128) > 0))
            assert not np.asarray(batch.language).any()


def test_a_batch_is_a_pytree(standard: str):
    batch = loader(standard).load(0)
    assert isinstance(batch, TokenBatch)
    doubled = jax.tree.map(lambda array: jnp.concatenate([array, array]), batch)
    assert isinstance(doubled, TokenBatch)
    assert doubled.inputs.shape == (16, 8)
    paths = [jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_flatten_with_path(batch)[0]]
    assert paths == [f".{name}" for name in FIELDS]


def test_a_training_step_takes_a_batch_whole(standard: str):
    own = loader(standard, sharding=over_devices(8))

    @jax.jit
    def count(batch: TokenBatch) -> jax.Array:
        return batch.loss_mask.sum()

    batch = own.load(0)
    assert int(count(batch)) == np.asarray(batch.loss_mask).sum()


def test_decoding_is_started_by_the_caller_not_by_the_background(standard: str, monkeypatch: pytest.MonkeyPatch):
    """Over many processes, computations must be launched in one sequence everywhere."""
    decoded_in: list[int] = []
    decode = Layout.decode

    def noted(self: Layout, batch: Any) -> TokenBatch:
        decoded_in.append(threading.get_ident())
        return decode(self, batch)

    monkeypatch.setattr(Layout, "decode", noted)
    with jax.thread_guard(True), loader(standard, sharding=over_devices(8), prefetch=2) as own:
        for _ in own.steps(0, 4):
            pass
        own.load(2)
    assert decoded_in == [threading.get_ident()] * 5


WIDE = """
import sys, jax, stores
assert jax.config.jax_enable_x64
own = stores.loader(sys.argv[1], {"en": 1}, len=3, batch=2, sequences_per_read_block=1)
batch = own.load(0)
print(*(f"{getattr(batch, name).dtype}" for name in stores.FIELDS))
print(batch.targets.max(), bool(batch.is_seq_start[batch.targets == 2**31 - 1].all()))
stores.assert_same(own.load_host(0), batch)
standard = stores.loader(sys.argv[2])
print(stores.tokens_digest(standard.load(step) for step in range(10)))
"""


def test_types_and_ids_are_the_same_with_x64(standard: str, tmp_path: Any):
    store = write_store(tmp_path / "s.zarr", {"en": [[2**31 - 1]] * 6})
    run = run_python(WIDE, store, standard, JAX_ENABLE_X64="1")
    assert not jax.config.jax_enable_x64
    own = loader(store, {"en": 1}, len=3, batch=2, sequences_per_read_block=1).load(0)
    assert int(own.targets.min()) == 2**31 - 1
    assert bool(own.is_seq_start.all())
    types, largest, digest = outputs(run)[0].splitlines()
    assert types == "uint32 uint32 bool bool int32"
    assert largest == "2147483647 True"
    assert digest == tokens_digest(host_batches(loader(standard), 0, 10))
