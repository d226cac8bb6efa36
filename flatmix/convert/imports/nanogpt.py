"""nanoGPT's .bin -> its ids: numbers, little-endian, from the first byte to the last, and nothing else.

So the file is written by data/*/prepare.py of github.com/karpathy/nanoGPT, as uint16; there each document is closed by
the id of `<|endoftext|>`. Others write uint32 in the same way. Nothing in the file tells the two apart.
"""

from pathlib import Path

from flatmix.convert.imports.boundaries import boundary_input
from flatmix.convert.imports.llmc import read_header
from flatmix.convert.imports.settings import TYPES, Settings, needed_boundary
from flatmix.convert.imports.spans import size_and_stamp
from flatmix.convert.inputs import Input
from flatmix.errors import ConvertError

KIND = "nanogpt"


def find_nanogpt(path: str, settings: Settings, split: str) -> list[Input]:
    """The file at `path`. ConvertError where its type or boundary is not given, or its size contradicts the type."""
    size, _ = size_and_stamp(path)
    if settings.type is None:
        raise ConvertError(
            f"{path} does not say what its numbers are: give their type, uint16 (what nanoGPT writes) or uint32"
        )
    if read_header(path) is not None:
        raise ConvertError(f"{path} begins with the header of llm.c, which holds no tokens; give the format llm.c")
    width = TYPES[settings.type]
    if size % width:
        raise ConvertError(f"{path} has {size} bytes, and that is no number of {settings.type}, {width} bytes each")
    boundary = needed_boundary(settings, settings.type, path)
    return [boundary_input(path, Path(path).name, KIND, settings.type, 0, boundary)]
