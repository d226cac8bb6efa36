"""`import flatmix.order` loads neither files nor devices: a plan can be made where no zarr or jax is installed."""

import subprocess
import sys

HEAVY = ("jax", "tensorstore", "zarr")
PROBE = (
    "import sys; {first}; import flatmix.order; print(*sorted({heavy!r} & {{m.split('.')[0] for m in sys.modules}}))"
)


def loaded(first: str = "pass") -> list[str]:
    """Which of the heavy libraries a fresh interpreter holds after `first` and then `import flatmix.order`."""
    probe = PROBE.format(first=first, heavy=set(HEAVY))
    run = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=120, check=True)
    return run.stdout.split()


def test_order_loads_neither_zarr_nor_tensorstore_nor_jax():
    assert loaded() == []


def test_the_probe_sees_what_is_loaded():
    assert loaded("import zarr, tensorstore, jax") == list(HEAVY)
