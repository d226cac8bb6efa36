"""settings -> the encoded documents of a Hugging Face data set, tokenized as they are read.

What the library `datasets` says of an error seldom names the data set and never the record, so its errors are told
anew with both. A record that cannot be used ends the data; what came before it still comes out.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from flatmix.errors import ConvertError, ReadError
from flatmix.params import HuggingFaceDataParams

_SAVED = ("state.json", "dataset_dict.json")  # what `save_to_disk` leaves in a folder
_GROUP_DOCUMENTS, _GROUP_CHARACTERS = 256, 2**20  # tokenized at once


@dataclass
class Passed:
    """What has been read so far, which is ahead of what was given."""

    documents: int = 0
    tokens: int = 0
    seconds_waited: float = 0.0

    def waited(self, seconds: float) -> None:
        self.seconds_waited += seconds


def encoded_documents(params: HuggingFaceDataParams, split: str, passed: Passed) -> Iterator[NDArray[np.uint32]]:
    """The tokens of each document as a store has them, uint32[tokens], none for an empty one.

    Opens the data set at once and reads it as the documents are asked for. Raises ImportError without `datasets`,
    ValueError or ReadError for settings and data sets that cannot be used; on the way ConvertError or ReadError.
    """
    encode, where = _load_encoder(params), describe(params, split)
    return _encoded(_texts(_open(params, split, where), params.text_field, where), encode, passed)


def _encoded(
    texts: Iterable[str], encode: Callable[[list[str]], list[np.ndarray]], passed: Passed
) -> Iterator[NDArray[np.uint32]]:
    """The tokens of each document as a store has them: 2 * id, and 1 more for the first. Empty documents have none."""
    for group in _groups(texts):
        for ids in encode(group):
            passed.documents += 1
            passed.tokens += ids.size
            if ids.size:
                tokens = ids << 1
                tokens[0] |= 1
                yield tokens


def _groups(texts: Iterable[str]) -> Iterator[list[str]]:
    """Texts in groups that are tokenized at once: some tokenizers then use all cores."""
    group: list[str] = []
    characters = 0
    try:
        for text in texts:
            group.append(text)
            characters += len(text)
            if len(group) == _GROUP_DOCUMENTS or characters >= _GROUP_CHARACTERS:
                yield group
                group, characters = [], 0
    except Exception:
        yield group  # what came before the broken record is right, and its batches come first
        raise
    yield group


def _texts(records: Iterable[Mapping[str, Any]], field: str, where: str) -> Iterator[str]:
    """The text of each record. ConvertError or ReadError with its number, from 1 on, where there is none."""
    source, number = iter(records), 0
    while True:
        try:
            record = next(source, None)
        except Exception as error:
            raise _failure(f"{where}: reading stopped after record {number}", error) from error
        if record is None:
            return
        number += 1
        text = record.get(field)
        if field not in record:
            raise ConvertError(f"{where}, record {number}: {_no_field(field, record)}")
        if not isinstance(text, str):
            found = "null or missing" if text is None else f"of type {type(text).__name__}"
            raise ConvertError(f"{where}, record {number}: its field {field!r} is {found}, and text is needed")
        yield text


def _open(params: HuggingFaceDataParams, split: str, where: str) -> Iterable[Mapping[str, Any]]:
    """The records of a split, with no other field than the text where the fields are known."""
    saved = _is_saved(params)
    try:
        import datasets  # takes a second or two
    except ImportError as error:
        raise ImportError(
            f"reading a Hugging Face data set needs the library datasets (pip install 'flatmix[hf]'): {error}"
        ) from error
    try:
        if saved:
            data = datasets.load_from_disk(params.path)
        else:
            settings = {"data_files": params.data_files, "split": split, "streaming": True, **(params.options or {})}
            data = datasets.load_dataset(params.path, params.name, **settings)
    except Exception as error:  # of many kinds
        raise _failure(f"{where} could not be opened", error) from error
    if saved:
        data = _saved_split(data, split, where)
    if data.column_names is None:  # it has to be read to know them
        return data
    if params.text_field not in data.column_names:
        raise ConvertError(f"{where}: {_no_field(params.text_field, data.column_names)}")
    return data.select_columns([params.text_field])


def _is_saved(params: HuggingFaceDataParams) -> bool:
    """Whether the path is a folder that `save_to_disk` wrote. ValueError for settings that such a one cannot have."""
    if not any(Path(params.path, name).is_file() for name in _SAVED):
        return False
    for name in ("name", "data_files", "options"):
        if getattr(params, name):
            raise ValueError(
                f"{name} is {getattr(params, name)!r}, and {params.path} is a saved data set: leave it out"
            )
    return True


def _saved_split(data: Any, split: str, where: str) -> Any:
    """The split of what was saved: several data sets by name, or one."""
    splits = dict(data) if isinstance(data, Mapping) else {str(data.split or "train"): data}
    if split not in splits:
        raise ConvertError(f"{where} is not there: the saved data set has {', '.join(map(repr, splits))}")
    return splits[split].with_format(None)  # it may have been saved to give tables or arrays


def _load_encoder(params: HuggingFaceDataParams) -> Callable[[list[str]], list[np.ndarray]]:
    """Texts -> ids of each, uint32[tokens]. ValueError for a tokenizer that the vocabulary has no room for."""
    from flatmix.convert.tokenizer import load_tokenizer  # here, because it loads zarr, which other loaders do not need

    tokenizer = load_tokenizer(params.tokenizer, params.begin_token, params.end_token)
    vocabulary = tokenizer.identity["vocabulary"]
    if params.vocab_size is not None and vocabulary > params.vocab_size:
        raise ValueError(
            f"tokenizer {params.tokenizer} has ids up to {vocabulary - 1}, and vocab_size is {params.vocab_size}: take "
            f"at least {vocabulary}, or the model's tokenizer"
        )
    return tokenizer.encode_batch


def describe(params: HuggingFaceDataParams, split: str) -> str:
    """The data set in words, for messages."""
    name = f" ({params.name})" if params.name else ""
    files = f" of {params.data_files!r}" if params.data_files else ""
    return f"data set {params.path!r}{name}{files if len(files) < 200 else files[:200] + '...'}, split {split!r}"


def _no_field(field: str, fields: Iterable[str]) -> str:
    return f"there is no field {field!r}; the fields are {', '.join(map(repr, fields)) or 'none'} (set text_field)"


def _failure(message: str, error: Exception) -> ConvertError | ReadError:
    """An error of `datasets`, which seldom says what was read, with words that do."""
    kind = ReadError if isinstance(error, OSError) else ConvertError
    return kind(f"{message}: {type(error).__name__}: {error}")
