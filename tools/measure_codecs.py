"""Ways to compress the chunks of a store -> what each costs in room and in time, as Markdown tables.

    python tools/measure_codecs.py [--texts FOLDER] [--vocabulary 8000,32000] [SETTING ...]

Input: ids drawn as `flatmix bench` draws them, and the ids of byte-level BPEs trained here on real text: FOLDER's
`*.jsonl` files, a language each, a record `{"text": ...}` a line; or else the messages of django in all its languages.
A SETTING is `CODEC-LEVEL-SHUFFLE` for Blosc (lz4, lz4hc, blosclz, zlib, zstd; none, byte, bit), `zstd-LEVEL` or
`gzip-LEVEL` without Blosc, and any of them with `@VALUES` for chunks of another length. Output: a table for each kind
of ids. To expect: three minutes and 120 MB of temporary files; the first row is what stores are written with. Times are
medians, those of reading as ratios of speeds measured in turn; on a busy machine they repeat within some 10 %.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import zarr
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ZstdCodec

from flatmix.bench.corpus import documents
from flatmix.demo.texts import django_folder, write_demo_texts
from flatmix.store import format as layout
from flatmix.store.arrays import array_metadata
from flatmix.store.documents import encode
from flatmix.store.reader import TensorStoreReader

PRESENT = "lz4-5-bit"
SETTINGS = (
    "lz4-9-bit lz4-5-byte lz4-9-byte lz4hc-3-byte lz4hc-5-byte blosclz-9-byte zstd-1-byte zstd-3-byte zstd-5-byte "
    "zstd-8-byte zstd-5-bit zlib-5-byte zstd-3 zstd-15 gzip-6 lz4-5-bit@65536 zstd-5-byte@65536"
)
SHUFFLES = {"none": "noshuffle", "byte": "shuffle", "bit": "bitshuffle"}
TOKENS = 2**22
SPAN, AT_ONCE, WINDOW, WINDOWS = 2**18, 4, 2_048, 200
WRITES, ROUNDS = 3, 8


class Times(NamedTuple):
    """Seconds to read all spans, AT_ONCE at a time, of wall clock and of CPU, and all windows, one at a time."""

    spans: float
    cpu: float
    windows: float


def main(arguments: Sequence[str] | None = None) -> None:
    heading, _, rest = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        description=heading, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("settings", nargs="*", metavar="SETTING", help=f"default: {SETTINGS}")
    parser.add_argument("--texts", type=Path, metavar="FOLDER", help="of <language>.jsonl; default: django's messages")
    parser.add_argument("--vocabulary", default="8000,32000", metavar="SIZES", help="of the BPEs; default: 8000,32000")
    options = parser.parse_args(arguments)
    settings = [PRESENT, *(name for name in options.settings or SETTINGS.split() if name != PRESENT)]
    for name in settings:
        codecs(name)
    with tempfile.TemporaryDirectory(prefix="codecs.") as folder:
        sizes = [int(size) for size in options.vocabulary.split(",")]
        for kind, values in samples(Path(folder), options.texts, sizes):
            print(f"\n{kind}; entropy of single tokens {entropy(values):.2f} bytes\n", flush=True)
            with tempfile.TemporaryDirectory(dir=folder) as place:
                measure(Path(place), values, settings)


def samples(folder: Path, texts: Path | None, sizes: Sequence[int]) -> Iterator[tuple[str, np.ndarray]]:
    """The name and the values, uint32[TOKENS], of each kind of ids."""
    yield "Drawn ids below 32,000", stored(documents(20_260_101, 0, TOKENS))
    if texts is None:
        catalogues = django_folder().glob("conf/locale/*/LC_MESSAGES/django.po")
        texts = folder / "texts"
        write_demo_texts(texts, sorted({"en", *(path.parts[-3] for path in catalogues)}))
    languages = [
        [json.loads(line)["text"] for line in path.read_text("utf-8").splitlines()]
        for path in sorted(texts.glob("*.jsonl"))
    ]
    if not languages:
        raise SystemExit(f"measure_codecs: {texts} holds no .jsonl file")
    for size in sizes:
        tokenizer = Tokenizer(models.BPE())
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = trainers.BpeTrainer(
            vocab_size=size, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
        )
        tokenizer.train_from_iterator((text for language in languages for text in language), trainer)
        values = stored(ids_of(tokenizer, language) for language in languages)
        yield f"Text in {len(languages)} languages, vocabulary {tokenizer.get_vocab_size():,}", values


def ids_of(tokenizer: Tokenizer, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    found = [encoding.ids for encoding in tokenizer.encode_batch(texts)]
    return np.concatenate([np.array(ids, np.int64) for ids in found]), np.array([len(ids) for ids in found])


def stored(parts: Iterator[tuple[np.ndarray, np.ndarray]]) -> np.ndarray:
    """(ids, lengths of documents) of each part -> 2 * id + start, uint32[TOKENS]: repeated or thinned out by chunks."""
    values = np.concatenate([encode(ids, lengths, 0, "the sample")[0] for ids, lengths in parts])
    chunks = len(values) // layout.CHUNK
    if not chunks:
        raise SystemExit(f"measure_codecs: the sample has {len(values)} tokens; at least {layout.CHUNK} are needed")
    wanted = TOKENS // layout.CHUNK
    chosen = np.arange(wanted) % chunks if chunks < wanted else np.arange(wanted) * chunks // wanted
    return np.ascontiguousarray(values[: chunks * layout.CHUNK].reshape(chunks, -1)[chosen].reshape(-1), np.uint32)


def entropy(values: np.ndarray) -> float:
    share = np.unique(values, return_counts=True)[1] / len(values)
    return float(-(share * np.log2(share)).sum() / 8)


def codecs(setting: str) -> tuple[list[Any], int]:
    """The codecs behind `bytes`, and the values in a chunk."""
    name, _, chunk = setting.partition("@")
    try:
        codec, level, *shuffle = name.split("-")
        if shuffle:
            (kind,) = shuffle
            packed: Any = BloscCodec(typesize=4, cname=codec, clevel=int(level), shuffle=SHUFFLES[kind], blocksize=0)
        else:
            packed = {"zstd": ZstdCodec, "gzip": GzipCodec}[codec](level=int(level))
        return [packed, Crc32cCodec()], int(chunk or layout.CHUNK)
    except (ValueError, KeyError) as error:
        raise SystemExit(f"measure_codecs: {setting!r} is no SETTING; see --help") from error


def measure(folder: Path, values: np.ndarray, settings: Sequence[str]) -> None:
    written = [write(folder / str(number), values, setting) for number, setting in enumerate(settings)]
    readers = [reader for reader, _, _ in written]
    order = np.random.default_rng(0).integers(0, len(values) - WINDOW, WINDOWS).tolist()
    for reader in readers:
        read(reader, order)
    print("| setting | bytes a token | room | writing, ns a token | spans | CPU of spans | windows |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for setting, (reader, size, seconds) in zip(settings, written, strict=True):
        pairs = []
        for turn in range(ROUNDS):  # each of the two is first as often as the other: what is second finds warm caches
            both = [read(one, order) for one in ((readers[0], reader) if turn % 2 else (reader, readers[0]))]
            pairs.append(both if turn % 2 else both[::-1])
        ratio = [statistics.median(old[kind] / new[kind] for old, new in pairs) for kind in range(3)]
        cells = [f"{size / len(values):.3f}", f"{size / written[0][1]:.2f}", f"{seconds / len(values) * 1e9:.0f}"]
        cells += [f"{ratio[0]:.2f} x", f"{1 / ratio[1]:.2f} x", f"{ratio[2]:.2f} x"]
        print(f"| {setting} | {' | '.join(cells)} |", flush=True)
    spans, cpu, windows = (statistics.median(column) for column in zip(*(old for old, _ in pairs), strict=True))
    print(
        f"\n1 x is {len(values) / spans / 1e6:.0f} M tokens/s and {cpu / len(values) * 1e9:.1f} ns of CPU a token "
        f"in spans of {SPAN} tokens, {AT_ONCE} at once, and {windows / WINDOWS * 1e6:.0f} us for a window of {WINDOW}."
    )


def write(folder: Path, values: np.ndarray, setting: str) -> tuple[TensorStoreReader, int, float]:
    """A reader of what was written, its bytes, and the seconds that it took."""
    packed, chunk = codecs(setting)
    array = zarr.create_array(
        folder / layout.ENCODED_TOKENS,
        shape=values.shape,
        dtype=values.dtype,
        chunks=(chunk,),
        shards=values.shape,
        serializer=BytesCodec(endian="little"),
        compressors=packed,
        fill_value=0,
        config={"write_empty_chunks": True},
    )
    seconds = statistics.median(timed(lambda: array.__setitem__(slice(None), values)) for _ in range(WRITES))
    size = sum(file.stat().st_size for file in folder.glob(f"{layout.ENCODED_TOKENS}/c/*"))
    metadata = array_metadata(folder, layout.ENCODED_TOKENS, values.shape, setting)
    reader = TensorStoreReader(str(folder), metadata, setting)
    out = np.empty(len(values), np.uint32)
    reader.read(0, len(values), out).result()
    if not np.array_equal(out, values):
        raise SystemExit(f"measure_codecs: {setting} does not read back as it was written")
    return reader, size, seconds


def read(reader: TensorStoreReader, starts: Sequence[int]) -> Times:
    spans = np.ones((TOKENS // SPAN, SPAN), np.uint32)  # written to, so that the pages are there
    window = np.ones(WINDOW, np.uint32)

    def read_spans() -> None:
        for first in range(0, len(spans), AT_ONCE):
            places = range(first, first + AT_ONCE)
            for reading in [reader.read(place * SPAN, (place + 1) * SPAN, spans[place]) for place in places]:
                reading.result()

    def read_windows() -> None:
        for start in starts:
            reader.read(start, start + WINDOW, window).result()

    cpu = time.process_time()
    wall = timed(read_spans)
    cpu = time.process_time() - cpu
    return Times(wall, cpu, timed(read_windows))


def timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
