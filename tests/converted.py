"""Inputs for conversions (texts, tokenizer files), and the documents that a store holds after them."""

import contextlib
import json
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from processes import Run, run_python
from tokenizers import Tokenizer as LibraryTokenizer
from tokenizers import decoders, models, pre_tokenizers, processors, trainers

from flatmix.convert import Progress, convert
from flatmix.convert.job import Sizes
from flatmix.store import open_store
from flatmix.store.split import Split

TINY = Sizes(unit_bytes=1000, part_documents=7, batch_documents=3)  # for many units, parts and batches of little input


class Stopped(Exception):
    """What ends a conversion that `leave_unfinished` begins."""


def stop_at(stage: str) -> Callable[[Progress], None]:
    """What is told of progress, and ends a conversion once all is tokenized, or once the first split is written."""

    def progress(now: Progress) -> None:
        if now.stage == stage and (now.done == now.total or (stage == "writing" and now.done)):
            raise Stopped

    return progress


def leave_unfinished(store: Path, sources: Any, stage: str = "tokenizing", **settings: Any) -> list[Path]:
    """Begins a conversion that ends at that stage; the parts that it has left."""
    settings = {"workers": 1, "sizes": TINY} | settings
    with pytest.raises(Stopped):
        convert(store, sources, progress=stop_at(stage), **settings)
    folder = Path(settings.get("staging", f"{store}.staging"))
    return sorted(folder.rglob("*.part"))


def write_lines(file: Path, texts: Sequence[Any], **fields: Any) -> Path:
    """A record {"text": ...} for each text, with the same other `fields`."""
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"text": text, **fields}, ensure_ascii=False) + "\n" for text in texts]
    file.write_bytes("".join(lines).encode())
    return file


def read_documents(store: Path, language: str, split: str = "train") -> list[list[int]]:
    """The ids of every document, after checking that starts and start bits agree as the format says."""
    opened = open_store(store)[language][split]
    starts = opened.seq_starts(0, opened.documents + 1).astype(np.int64)
    encoded = read_encoded(opened)
    assert starts[0] == 0
    assert starts[-1] == len(encoded) == opened.tokens
    assert np.all(np.diff(starts) >= 0)
    assert np.flatnonzero(encoded & 1).tolist() == sorted(set(starts[:-1][np.diff(starts) > 0].tolist()))
    ids = (encoded >> 1).tolist()
    assert opened.max_token_id == max(ids, default=0)
    return [ids[start:stop] for start, stop in pairwise(starts.tolist())]


def read_encoded(split: Split) -> np.ndarray:
    out = np.empty(split.tokens, np.uint32)
    split.reader().read(0, split.tokens, out).result()
    return out


def read_sources(store: Path, language: str, split: str = "train") -> list[tuple[int, int]]:
    """(source_file, source_record) of every document."""
    opened = open_store(store)[language][split]
    found = opened.sources(0, opened.documents)
    assert found is not None
    return list(zip(found[0].tolist(), found[1].tolist(), strict=True))


def files_of(folder: Path) -> dict[str, bytes]:
    """Every file below, by its path."""
    return {file.relative_to(folder).as_posix(): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def utf8(*texts: str) -> list[list[int]]:
    """The documents that the tokenizer of bytes makes of `texts`."""
    return [list(text.encode()) for text in texts]


def save_words(folder: Path, **changes) -> Path:
    """Words a b c -> 2 3 4, and a post-processor that would put <bos> in front, a cut at 2 and padding to 8."""
    vocabulary = {"<unk>": 0, "<bos>": 1, "a": 2, "b": 3, "c": 4, "<eos>": 5}
    library = LibraryTokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    library.add_special_tokens(["<bos>", "<eos>"])
    library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    library.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 1)])
    library.enable_padding(length=8)
    library.enable_truncation(2)
    file = folder / "words.json"
    file.write_text(json.dumps(json.loads(library.to_str()) | changes))
    return file


def save_bpe(folder: Path, dropout: float | None = None) -> Path:
    """266 tokens: the bytes, special tokens and a few merges; and one added token, 266."""
    library = LibraryTokenizer(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=266,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    library.train_from_iterator(["the cat and the hat and the rat"] * 9, trainer)
    library.add_special_tokens(["<|added|>"])
    file = folder / "bpe.json"
    definition = json.loads(library.to_str())
    definition["model"]["dropout"] = dropout
    file.write_text(json.dumps(definition))
    return file


# One conversion; a failure is one line. What the workers inherit of it names the run, so that they can be found.
CONVERT = """
import json, sys
from flatmix.convert import convert
from flatmix.convert.job import Sizes
store, settings = sys.argv[1], json.loads(sys.argv[2])
settings["sizes"] = Sizes(**settings.get("sizes", {}))
try:
    convert(store, **settings)
except (OSError, ValueError) as error:
    sys.exit(f"{type(error).__name__}: {error}")
"""
_MARK = "FLATMIX_TESTED_STORE"


def start_conversion(
    store: Path, sources: dict[str, str], before: str = "", limit: float = 100, **settings: Any
) -> Run:
    """`convert` in a process of its own, which does `before` first."""
    return run_python(
        before + CONVERT, store, json.dumps({"sources": sources, **settings}), limit=limit, **{_MARK: str(store)}
    )


def processes_of(store: Path) -> dict[int, str]:
    """The processes of conversions that were started for `store`, workers included, and their command lines."""
    mark = f"{_MARK}={store}".encode()
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended, or is not ours
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


def wait_until(happened: Callable[[], Any], limit: float = 60) -> Any:
    """What `happened` returns as soon as it is true. AssertionError after the limit, in seconds."""
    end = time.monotonic() + limit
    while not (result := happened()):
        assert time.monotonic() < end, f"it did not happen within {limit} s"
        time.sleep(0.001)
    return result
