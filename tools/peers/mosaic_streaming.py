"""MosaicML Streaming: MDS shards of 2,048 uint16 tokens a sample, a stream for each language with its proportion.

    DIR/peers/mosaic/env/bin/python tools/peers/mosaic_streaming.py --corpus CORPUS --store STORE

workers  StreamingDataset (shuffle_algo py1e, its default) under StreamingDataLoader with two worker processes
single   the same without worker processes

Output: one JSON line; the figures are described in common.py. To expect: half a minute, and 0.4 GB for the store.

`import streaming` loads its parts for images, and they want torchvision, which the environment does not have: empty
stand-ins take its place, since nothing here uses it.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import common
from common import BATCH, LEN, SEED, Corpus, Peer

STAND_INS = {
    "torchvision": (),
    "torchvision.datasets": ("VisionDataset", "CIFAR10"),
    "torchvision.transforms": (),
    "torchvision.transforms.functional": ("to_tensor",),
}


def build(corpus: Corpus, store: Path) -> None:
    from streaming import MDSWriter

    for language in corpus.languages:
        columns = {"tokens": f"ndarray:uint16:{LEN}"}
        with MDSWriter(out=str(store / language), columns=columns) as writer:
            for row in corpus.rows(language):
                writer.write({"tokens": row})


def load(corpus: Corpus, store: Path, variant: str) -> Peer:
    workers = 2 if variant == "workers" else 0
    return Peer(
        setting=f"StreamingDataLoader, py1e, {workers} workers",
        versions=common.package_versions("mosaicml-streaming", "torch", "numpy", "jax"),
        start=lambda: _batches(corpus, store, workers),
        late_state=lambda step: _state(_dataset(corpus, store), step),
        from_state=lambda state: _batches(corpus, store, workers, state=state),
        from_step=lambda step: _batches(corpus, store, workers, step=step),
        notes={"resume": "its state is the epoch and the sample in it, so one of the step can be made by hand"},
    )


def _imports() -> None:
    import transformers.feature_extraction_utils  # noqa: F401  # looks for torchvision, and must not find the stand-in

    for name, attributes in STAND_INS.items():
        if name not in sys.modules:
            sys.modules[name] = ModuleType(name)
            for attribute in attributes:
                setattr(sys.modules[name], attribute, type(attribute, (), {}))
    import streaming  # noqa: F401


def _dataset(corpus: Corpus, store: Path) -> Any:
    from streaming import Stream, StreamingDataset

    languages = zip(corpus.languages, corpus.weights, strict=True)
    return StreamingDataset(
        streams=[Stream(local=str(store / language), proportion=weight) for language, weight in languages],
        shuffle=True,
        shuffle_seed=SEED,
        num_canonical_nodes=1,
        batch_size=BATCH,
    )


def _state(dataset: Any, step: int) -> dict[str, int]:
    """What the loader would save after `step` whole batches; the rest of an epoch is dropped."""
    epoch, batch = divmod(step, dataset.epoch_size // BATCH)
    place = {"epoch": epoch, "sample_in_epoch": batch * BATCH}
    return {**place, "num_canonical_nodes": 1, "shuffle_seed": SEED, "initial_physical_nodes": 1}


def _batches(
    corpus: Corpus, store: Path, workers: int, state: dict[str, int] | None = None, step: int | None = None
) -> Iterator[Any]:
    from streaming import StreamingDataLoader

    dataset = _dataset(corpus, store)
    loader = StreamingDataLoader(dataset, batch_size=BATCH, num_workers=workers, drop_last=True, collate_fn=_stacked)
    if step is not None:
        state = _state(dataset, step)
    if state is not None:
        loader.load_state_dict(state)
    while True:
        for batch in loader:
            yield batch["tokens"]


def _stacked(samples: list[Any]) -> dict[str, Any]:
    """A dict, since the loader takes the length of a batch's first part for the number of its samples."""
    import numpy as np

    return {"tokens": np.stack([sample["tokens"] for sample in samples])}


if __name__ == "__main__":
    common.main("mosaic", __doc__ or "", ("workers", "single"), _imports, build, load)
