"""Token batches mixed from many languages for language-model training in JAX, in an order that is arithmetic.

Read the package in the sequence in which a batch is made: `order` (step -> windows), `store` (windows -> tokens),
`loader` (tokens -> sharded arrays); `params` holds the settings, `runfile` reads them from a file, `mixing` turns
weights into those of the order, `loading` joins all of it, `convert` makes stores, `cli` has the commands.
"""

import importlib
from typing import Any

__version__ = "0.1.0"

_HOMES = {
    "FlatTokensParams": "flatmix.params",
    "HostBatch": "flatmix.loader",
    "HuggingFaceDataLoader": "flatmix.loader.huggingface",
    "HuggingFaceDataParams": "flatmix.params",
    "MixtureParams": "flatmix.params",
    "ReadError": "flatmix.errors",
    "Run": "flatmix.runfile",
    "ShufflingLoader": "flatmix.loader",
    "StateError": "flatmix.errors",
    "StoreError": "flatmix.errors",
    "TokenBatch": "flatmix.loader",
    "TokenBatchParams": "flatmix.params",
    "get_loader": "flatmix.loading",
    "open_store": "flatmix.store",
    "read_run": "flatmix.runfile",
    "segment_ids": "flatmix.segments",
    "segment_positions": "flatmix.segments",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    """Imports what a name needs when it is first used: `flatmix.order` loads neither jax nor tensorstore."""
    if name not in _HOMES:
        raise AttributeError(f"module 'flatmix' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
