"""Eight CPU devices and strict promotion for every test, set before anything imports jax; and the standard store.

No module of flatmix may be imported at the top of this file: typeguard instruments them, after it is loaded.
"""

import os
import tempfile
from pathlib import Path

import pytest

DEVICES = 8

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["JAX_NUMPY_DTYPE_PROMOTION"] = "strict"
os.environ["HF_HUB_OFFLINE"] = "1"
HUGGING_FACE = tempfile.TemporaryDirectory(prefix="flatmix-tests-")  # goes when the tests end
os.environ["HF_HOME"] = HUGGING_FACE.name
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={DEVICES}".strip()


@pytest.fixture(scope="session")
def standard(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The standard store, for tests that only read it."""
    import stores

    return stores.standard_store(tmp_path_factory.mktemp("standard") / "std.zarr")


@pytest.fixture
def own_standard(tmp_path: Path, standard: str) -> Path:
    """A copy of the standard store that a test may damage."""
    import shutil

    return Path(shutil.copytree(standard, tmp_path / "std.zarr"))
