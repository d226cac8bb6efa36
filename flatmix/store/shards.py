"""values -> files of an array that was created: TensorStore writes the bytes that zarr would, in a seventh of the time.

A file gets its name when all of it is on disk. What a writer that is killed leaves behind is a file beside it, which
`remove_leftovers` takes away; nobody reads it.
"""

import os
import re
from pathlib import Path

import numpy as np
import tensorstore as ts

_OS_ERROR = re.compile(r"os_error_code='(\d+)'")
_LEFTOVERS = ("*.__lock", "*.partial")  # TensorStore's, and zarr's


def write_shard(folder: Path, start: int, values: np.ndarray, zarr_format: int) -> None:
    """Writes `values` from entry `start` on, whole files or up to the end, to the array in `folder`. OSError."""
    spec = {
        "driver": "zarr3" if zarr_format == 3 else "zarr",
        "kvstore": {"driver": "file", "path": f"{folder}/"},
        "store_data_equal_to_fill_value": True,  # so that a chunk that is not there is always damage
    }
    try:
        ts.open(spec, open=True, write=True).result()[start : start + len(values)].write(values).result()
    except Exception as error:  # TensorStore's are ValueErrors, whatever it was
        code = _OS_ERROR.search(str(error))
        number = int(code[1]) if code else None
        reason = os.strerror(number) if number else f"cannot be written: {error}"
        raise OSError(number, reason, str(folder)) from error


def remove_leftovers(folder: Path) -> None:
    """Removes what killed writers of the arrays in `folder` have left."""
    for pattern in _LEFTOVERS:
        for left in folder.rglob(pattern):
            left.unlink(missing_ok=True)
