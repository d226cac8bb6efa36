"""The names that flatmix promises, and what importing it costs."""

import pytest
from processes import outputs, run_python

import flatmix

PROMISED = {
    "FlatTokensParams", "HostBatch", "MixtureParams", "ReadError", "ShufflingLoader", "StateError", "StoreError",
    "TokenBatch", "TokenBatchParams", "open_store",
}  # fmt: skip


def test_every_promised_name_is_there():
    assert set(flatmix.__all__) >= PROMISED
    assert len(flatmix.__all__) == len(set(flatmix.__all__))
    for name in flatmix.__all__:
        assert getattr(flatmix, name).__name__ == name


def test_a_star_import_brings_them_all():
    names: dict[str, object] = {}
    exec("from flatmix import *", names)
    assert set(flatmix.__all__) <= set(names)


def test_other_names_are_refused():
    with pytest.raises(AttributeError, match="module 'flatmix' has no attribute 'Loader'"):
        flatmix.Loader  # noqa: B018


def test_errors_can_be_caught_by_what_they_are():
    assert issubclass(flatmix.StoreError, ValueError)
    assert issubclass(flatmix.StateError, ValueError)
    assert issubclass(flatmix.ReadError, OSError)


HEAVY = ("jax", "numba", "tensorstore", "zarr")


def loaded_by(code: str) -> list[str]:
    """Which of the heavy libraries a fresh interpreter holds after the code."""
    probe = f"import sys; {code}; print(*(name for name in {HEAVY!r} if name in sys.modules))"
    return outputs(run_python(probe))[0].split()


def test_importing_flatmix_loads_nothing_heavy():
    assert loaded_by("import flatmix; flatmix.__version__; flatmix.StateError") == []


def test_the_probe_sees_what_a_name_needs():
    assert loaded_by("import flatmix; flatmix.open_store") == ["tensorstore"]
    assert loaded_by("import flatmix; flatmix.TokenBatchParams") == ["numba"]


def test_reading_loads_no_zarr():
    assert "zarr" not in loaded_by("import flatmix; flatmix.ShufflingLoader")


@pytest.mark.parametrize("name", ["ShufflingLoader", "FlatTokensParams", "TokenBatch", "open_store"])
def test_public_names_say_what_they_are(name: str):
    assert getattr(flatmix, name).__doc__
