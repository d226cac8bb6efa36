"""Hugging Face `datasets`: an Arrow file a language, mapped into memory; rows of 2,048 uint16 tokens.

    DIR/peers/hf-datasets/env/bin/python tools/peers/hf_datasets.py --corpus CORPUS --store STORE [--variant stream]

map     each language shuffled as a whole (a table of row numbers), interleaved by weight, taken 64 rows at a time in
        the format "numpy", the one for NumPy in its documentation. The order is the same in every epoch, and the only
        state is the number of the batch.
arrow   the same in the format "arrow", whose tables this script turns into arrays itself: about twice as fast, since
        the format "numpy" makes an int64 array of each row, one by one.
stream  the same files as a stream: interleaved by weight, through a shuffle buffer of 4,096 rows.

Output: one JSON line; the figures are described in common.py. To expect: about ten seconds, and 0.4 GB for the store.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import common
from common import BATCH, LEN, SEED, Corpus, Peer

BUFFER_ROWS = 4096
FORMATS = {"map": "numpy", "arrow": "arrow"}


def _imports() -> None:
    import datasets  # noqa: F401


def build(corpus: Corpus, store: Path) -> None:
    import pyarrow as pa

    for language in corpus.languages:
        tokens = corpus.rows(language).reshape(-1)
        table = pa.table({"tokens": pa.FixedSizeListArray.from_arrays(pa.array(tokens), LEN)})
        with pa.OSFile(str(store / f"{language}.arrow"), "wb") as file, pa.ipc.new_stream(file, table.schema) as writer:
            writer.write_table(table, max_chunksize=1000)


def load(corpus: Corpus, store: Path, variant: str) -> Peer:
    versions = common.package_versions("datasets", "pyarrow", "numpy", "jax")
    if variant == "stream":
        return Peer(
            setting=f"IterableDataset, shuffle buffer of {BUFFER_ROWS} rows, format numpy",
            versions=versions,
            start=lambda: _stream(corpus, store),
            late_state="a state holds how far each file was read, so one of step 1,000,000 takes a million steps",
            from_state=lambda state: _stream(corpus, store, state),
            from_step="skip() reads everything before the step",
            notes={"resume": "a saved state leaves the rows of the shuffle buffer out, so other rows follow it"},
        )
    return Peer(
        setting=f"Dataset, shuffled index tables, format {FORMATS[variant]}",
        versions=versions,
        start=lambda: _mapped(corpus, store, variant, 0),
        late_state=lambda step: step,
        from_state=lambda step: _mapped(corpus, store, variant, step),
        from_step=lambda step: _mapped(corpus, store, variant, step),
        notes={"resume": "its state is the number of the batch; every epoch has the same order"},
    )


def _mapped(corpus: Corpus, store: Path, variant: str, step: int) -> Iterator[Any]:
    from datasets import Dataset, interleave_datasets

    parts = [Dataset.from_file(str(store / f"{language}.arrow")) for language in corpus.languages]
    shuffled = [part.shuffle(seed=SEED + number) for number, part in enumerate(parts)]
    mixed = interleave_datasets(
        shuffled, probabilities=list(corpus.weights), seed=SEED, stopping_strategy="all_exhausted"
    ).with_format(FORMATS[variant])
    batches = len(mixed) // BATCH
    while True:
        first = step % batches * BATCH
        rows = mixed[first : first + BATCH]["tokens"]
        yield rows if variant == "map" else rows.combine_chunks().flatten().to_numpy().reshape(BATCH, LEN)
        step += 1


def _stream(corpus: Corpus, store: Path, state: Any = None) -> Iterator[Any]:
    from datasets import Dataset, interleave_datasets

    parts = [Dataset.from_file(str(store / f"{language}.arrow")) for language in corpus.languages]
    mixed = interleave_datasets(
        [part.to_iterable_dataset() for part in parts],
        probabilities=list(corpus.weights),
        seed=SEED,
        stopping_strategy="all_exhausted",
    )
    batches = mixed.shuffle(seed=SEED, buffer_size=BUFFER_ROWS).with_format("numpy").batch(BATCH, drop_last_batch=True)
    if state is not None:
        batches.load_state_dict(state)
    epoch = 0
    while True:
        for batch in batches:
            yield batch["tokens"]
        epoch += 1
        batches.set_epoch(epoch)


if __name__ == "__main__":
    common.main("hf-datasets", __doc__ or "", ("map", "arrow", "stream"), _imports, build, load)
