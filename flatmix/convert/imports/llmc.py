"""llm.c's .bin -> its ids, after a header of 256 int32: what they are, a version, and how many follow.

dev/data/data_common.py of github.com/karpathy/llm.c writes it, llmc/dataloader.h reads it: 20240520 and version 1 stand
for uint16, 20240801 and version 7 for uint32. dev/data/fineweb.py there opens each document with the id of
`<|endoftext|>`, and cuts shards in the middle of one.
"""

from pathlib import Path

import numpy as np

from flatmix.convert.imports.boundaries import boundary_input
from flatmix.convert.imports.settings import TYPES, Settings, check_type, needed_boundary
from flatmix.convert.imports.spans import SpanFile, size_and_stamp
from flatmix.convert.inputs import Input
from flatmix.errors import ConvertError, ReadError

KIND = "llm.c"
HEADER = 1024  # bytes
_TYPES = {20240520: ("uint16", 1), 20240801: ("uint32", 7)}  # by the first number: the type, and the version
_QUESTIONS = 20240522  # the first number of files of multiple-choice questions


def read_header(path: str) -> np.ndarray | None:
    """The start of the header of a file of llm.c, int32[3]; None where another file is there. ReadError if it fails."""
    if size_and_stamp(path)[0] < 12:
        return None
    with SpanFile(path) as file:
        header = file.read(0, 3, "<i4")
    return header if int(header[0]) in (*_TYPES, _QUESTIONS) else None


def find_llmc(path: str, settings: Settings, split: str) -> list[Input]:
    """The file at `path`. ReadError where it was cut; ConvertError where it is another, or no boundary is given."""
    header = read_header(path)
    if header is None:
        known = " or ".join(map(str, _TYPES))
        raise ConvertError(f"{path} is no file of llm.c: such a file begins with the number {known}")
    magic, version, count = header.tolist()
    if magic == _QUESTIONS:
        raise ConvertError(f"{path} is a file of multiple-choice questions of llm.c, and no text")
    width, known_version = _TYPES[magic]
    if version != known_version:
        raise ConvertError(f"{path} is a file of llm.c of version {version}, and version {known_version} is read here")
    size, _ = size_and_stamp(path)
    wanted = HEADER + count * TYPES[width]
    if size > wanted:
        raise ConvertError(
            f"{path} has {size} bytes, and its header says {count} tokens, which are {wanted} bytes with it"
        )
    if size < wanted:
        raise ReadError(f"{path} has {size} bytes of the {wanted} that its header says ({count} tokens): it was cut")
    check_type(settings, width, path)
    boundary = needed_boundary(settings, width, path)
    return [boundary_input(path, Path(path).name, KIND, width, HEADER, boundary)]
