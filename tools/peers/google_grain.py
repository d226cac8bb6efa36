"""Grain: an ArrayRecord file a language, one record of 2,048 uint16 tokens a group, not compressed.

    DIR/peers/grain/env/bin/python tools/peers/google_grain.py --corpus CORPUS --store STORE [--variant threads]

processes  each language shuffled as a whole and repeated, mixed by weight, batched, and made by two worker processes
           ahead of use (mp_prefetch)
threads    the same pipeline in one process, with Grain's own reading threads

Output: one JSON line; the figures are described in common.py. To expect: half a minute, and 0.4 GB for the store.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import common
from common import BATCH, SEED, Corpus, Peer

WORKERS = 2


def _imports() -> None:
    import array_record.python.array_record_module  # noqa: F401
    import grain  # noqa: F401
    from absl import flags

    flags.FLAGS.mark_as_parsed()  # worker processes read absl's flags, which only an absl program would have parsed


def build(corpus: Corpus, store: Path) -> None:
    from array_record.python.array_record_module import ArrayRecordWriter

    for language in corpus.languages:
        writer = ArrayRecordWriter(str(store / f"{language}.array_record"), "group_size:1,uncompressed")
        for row in corpus.rows(language):
            writer.write(row.tobytes())
        writer.close()


def load(corpus: Corpus, store: Path, variant: str) -> Peer:
    workers = WORKERS if variant == "processes" else 0

    return Peer(
        setting=f"MapDataset.mix, mp_prefetch with {WORKERS} workers" if workers else "MapDataset.mix, to_iter_dataset",
        versions=common.package_versions("grain", "array_record", "numpy", "jax"),
        start=lambda: _batches(corpus, store, workers),
        late_state=_state,
        from_state=lambda state: _batches(corpus, store, 0, state),
        from_step=lambda step: _batches(corpus, store, 0, _state(step)),
        notes={
            "first_batch": "with the worker processes, which have to start" if workers else "in one process",
            "resume": "without worker processes, the faster way; the state is the number of the next batch",
        },
    )


def _pipeline(corpus: Corpus, store: Path) -> Any:
    import grain

    parts = []
    for number, language in enumerate(corpus.languages):
        source = grain.sources.ArrayRecordDataSource([str(store / f"{language}.array_record")])
        parts.append(grain.MapDataset.source(source).shuffle(seed=SEED + number).map(_tokens).repeat())
    return grain.MapDataset.mix(parts, weights=list(corpus.weights)).batch(BATCH)


def _tokens(record: bytes) -> Any:
    import numpy as np

    return np.frombuffer(record, np.uint16)


def _batches(corpus: Corpus, store: Path, workers: int, state: Any = None) -> Iterator[Any]:
    import grain

    if workers:
        # Each worker has its own reading threads; the default is 16 of them, for storage that is far away.
        pipeline = _pipeline(corpus, store).to_iter_dataset(grain.ReadOptions(num_threads=2, prefetch_buffer_size=128))
        pipeline = pipeline.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers, per_worker_buffer_size=4))
    else:
        pipeline = _pipeline(corpus, store).to_iter_dataset()
    batches = iter(pipeline)
    if state is not None:
        batches.set_state(state)
    try:
        yield from batches
    finally:
        if hasattr(batches, "close"):
            batches.close()


def _state(step: int) -> dict[str, int]:
    return {"next_index": step}


if __name__ == "__main__":
    common.main("grain", __doc__ or "", ("processes", "threads"), _imports, build, load)
