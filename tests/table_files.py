"""Tables as others write them: Parquet files, and data sets that `datasets` saved."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def strings(values: Sequence[bytes | None]) -> pa.Array:
    """A column of strings that nobody has looked at."""
    return pa.Array.from_buffers(pa.string(), len(values), pa.array(values, pa.binary()).buffers())


def write_parquet(file: Path, columns: dict[str, Any], group: int = 10**6, **settings: Any) -> Path:
    pq.write_table(pa.table(columns), file, row_group_size=group, **settings)
    return file


def save(folder: Path, columns: dict[str, Any], kind: str = "plain") -> Path:
    """Columns as `datasets` saves them: alone, chosen rows of more, to give other objects, or as one of two splits."""
    import datasets

    datasets.disable_progress_bars()
    data = datasets.Dataset.from_dict(columns)
    if kind == "chosen":
        other = datasets.Dataset.from_dict({name: [*reversed(values), None] for name, values in columns.items()})
        data = other.select(range(len(data) - 1, -1, -1))
    if kind == "formatted":
        data = data.with_format("pandas", columns=[next(iter(columns))])
    if kind == "splits":
        data = datasets.DatasetDict({"train": data.select([0]), "dev": data})
    data.save_to_disk(folder)
    return folder
