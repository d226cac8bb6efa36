"""Two processes of one JAX run, four devices each: every shard is right, and each process reads its own rows only."""

import json
import socket
from typing import Any

import pytest
from processes import outputs, run_python
from stores import loader

CODE = """
import json, sys
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import stores

store, address, number, state = sys.argv[1], sys.argv[2], int(sys.argv[3]), json.loads(sys.argv[4])
jax.distributed.initialize(address, 2, number)
assert (len(jax.devices()), jax.local_device_count()) == (8, 4)
shuffled = np.array(jax.devices())[[5, 2, 7, 0, 3, 6, 1, 4]]
layouts = {
    "whole hosts": (np.array(jax.devices()).reshape(8, 1), P("data")),
    "rows on both": (shuffled.reshape(4, 2), P("data")),
    "either axis": (shuffled.reshape(4, 2), P(("model", "data"))),
    "everywhere": (shuffled.reshape(4, 2), P()),
}
plain, rows = stores.loader(store), {}
for name, (devices, spec) in layouts.items():
    sharding = NamedSharding(Mesh(devices, ("data", "model")), spec)
    with jax.thread_guard(True), stores.loader(store, sharding=sharding, prefetch=2) as own:
        start = own.restore(state)
        for step, batch in enumerate(own.steps(start, start + 5), start):
            expected = plain.load_host(step)
            for field in stores.FIELDS:
                for shard in getattr(batch, field).addressable_shards:
                    np.testing.assert_array_equal(np.asarray(shard.data), getattr(expected, field)[shard.index])
        assert own.state(start + 5) == plain.state(start + 5)
        rows[name] = own.metrics()["rows"] / 5
print(json.dumps(rows))
"""


def free_address() -> str:
    with socket.socket() as free:
        free.bind(("localhost", 0))
        return f"localhost:{free.getsockname()[1]}"


@pytest.mark.timeout(120)
def test_two_processes_go_on_from_a_state_of_one(standard: str):
    address, state = free_address(), json.dumps(loader(standard).state(10))
    flags = "--xla_force_host_platform_device_count=4"
    runs = [run_python(CODE, standard, address, number, state, XLA_FLAGS=flags) for number in (0, 1)]
    rows: list[dict[str, Any]] = [json.loads(output.splitlines()[-1]) for output in outputs(*runs)]
    assert [read["whole hosts"] for read in rows] == [4, 4]
    assert [read["everywhere"] for read in rows] == [8, 8]
    assert sum(read["either axis"] for read in rows) == 8
