"""(a loader, a corpus) -> one JSON line with its figures; what the scripts beside this file share.

They run in environments that have no flatmix in them, so this imports NumPy and jax alone, and those only when it
measures: `--help` needs neither. All figures come from one process, and none includes an import:

1. `np_mtok_s`, `np_cpu_s_per_mtok`: 64 x 2,048 tokens a batch as NumPy arrays, the time inside `next` alone.
2. `first_batch_s`: the second opening of the process to its first batch, as a jax.Array.
3. `jax_mtok_s`, `cpu_s_per_mtok`, `p50_ms`, `p99_ms`, `max_ms`: the same loader on, as jax.Arrays that are ready.
4. `resume_state_1m_s`, `resume_step_1m_s`: opening to first batch at step 1,000,000, from a saved state and from the
   number of the step alone; null where there is no such way, and `reasons` says why.

`peak_memory_mb` is the largest sum over the process and its children during 1 to 3, less what there was after the
imports. Pages of mapped files are not counted, and a page that processes share counts once. CPU seconds are those of
the process and its children. The cost: `--seconds` twice, or `--steps` batches twice, whichever is longer.
"""

import argparse
import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

BATCH, LEN = 64, 2048
LATE_STEP = 1_000_000
SEED = 7
MARK = "built.json"


class Corpus(NamedTuple):
    """A folder with `<language>.bin`, uint16 tokens, for each language."""

    folder: Path
    languages: tuple[str, ...]
    weights: tuple[float, ...]

    def rows(self, language: str) -> Any:
        """uint16[rows, 2048], mapped; the tokens after the last whole row are left out."""
        import numpy as np

        tokens = np.memmap(self.folder / f"{language}.bin", np.uint16, "r").view(np.ndarray)
        return tokens[: len(tokens) // LEN * LEN].reshape(-1, LEN)


class Peer(NamedTuple):
    """What a script says of its loader. The iterators give integer[64, 2048] for ever; a text stands for a way that
    there is not, and says why. `notes` has what a reader of the figures must know."""

    setting: str
    versions: Mapping[str, str]
    start: Callable[[], Iterator[Any]]
    late_state: Callable[[int], Any] | str
    from_state: Callable[[Any], Iterator[Any]]
    from_step: Callable[[int], Iterator[Any]] | str
    notes: Mapping[str, str] = {}


def main(
    name: str,
    about: str,
    variants: Sequence[str],
    imports: Callable[[], object],
    build: Callable[[Corpus, Path], None],
    load: Callable[[Corpus, Path, str], Peer],
) -> None:
    """Parses the command line, builds the store unless it is there, measures, prints, and ends the process.

    `imports()` imports the loader's library, so that no clock runs meanwhile; `build(corpus, store)` writes the store;
    `load(corpus, store, variant)` tells how to open it.
    """
    options = _parser(about, variants).parse_args()
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HOME": str(options.store / "hub")}
    corpus = _read_corpus(options.corpus)
    imports()
    built = _build_once(corpus, options.store, build)
    peer = load(corpus, options.store, options.variant)
    _warm(options.store.rglob("*"))
    head = {"peer": name, "variant": options.variant, "setting": peer.setting, "versions": dict(peer.versions)}
    print(json.dumps({**head, **built, **measure(peer, options.steps, options.seconds)}), flush=True)
    os._exit(0)  # threads and workers that a loader leaves behind are no reason to wait


def _parser(about: str, variants: Sequence[str]) -> argparse.ArgumentParser:
    heading, _, rest = about.partition("\n")
    parser = argparse.ArgumentParser(
        description=heading, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--corpus", type=Path, required=True, help="folder of corpus.json and <language>.bin")
    parser.add_argument("--store", type=Path, required=True, help="folder for this loader's own files; made if missing")
    parser.add_argument("--variant", choices=variants, default=variants[0], help=f"default: {variants[0]}")
    parser.add_argument("--steps", type=int, default=200, help="batches to measure, at least; default: 200")
    parser.add_argument("--seconds", type=float, default=2.0, help="seconds to measure, at least; default: 2")
    return parser


def _read_corpus(folder: Path) -> Corpus:
    languages = json.loads((folder / "corpus.json").read_text(encoding="utf-8"))["languages"]
    return Corpus(folder, tuple(languages), tuple(one["weight"] for one in languages.values()))


def _build_once(corpus: Corpus, store: Path, build: Callable[[Corpus, Path], None]) -> dict[str, Any]:
    """The mark is written last, with the corpus it was built from: a store without it, or of another corpus, goes."""
    mark = store / MARK
    of = [[language, (corpus.folder / f"{language}.bin").stat().st_size] for language in corpus.languages]
    if mark.is_file() and (was := json.loads(mark.read_text(encoding="utf-8")))["of"] == of:
        return {"build_s": was["build_s"]}
    shutil.rmtree(store, ignore_errors=True)
    store.mkdir(parents=True)
    _warm(corpus.folder.glob("*.bin"))
    began = time.perf_counter()
    build(corpus, store)
    built = {"of": of, "build_s": time.perf_counter() - began}
    mark.write_text(json.dumps(built), encoding="utf-8")
    return {"build_s": built["build_s"]}


def _warm(paths: Iterable[Path]) -> None:
    """Brings the files into the page cache."""
    for path in sorted(paths):
        if path.is_file():
            with path.open("rb", buffering=0) as file:
                while file.read(1 << 24):
                    pass


def measure(peer: Peer, steps: int, seconds: float) -> dict[str, Any]:
    import jax
    import numpy as np

    def to_jax(rows: Any) -> None:
        jax.block_until_ready(jax.device_put(_checked(rows).astype(np.int32, copy=False)))

    def first_batch(open_it: Callable[[], Iterator[Any]]) -> tuple[float, Iterator[Any]]:
        began = time.perf_counter()
        batches = open_it()
        to_jax(next(batches))
        return time.perf_counter() - began, batches

    to_jax(np.zeros((BATCH, LEN), np.uint16))
    with _Memory() as memory:
        batches = peer.start()
        as_numpy = _steady(batches, _checked, steps, seconds)
        _close(batches)
        opening, batches = first_batch(peer.start)
        as_jax = _steady(batches, to_jax, steps, seconds)
        _close(batches)
    result: dict[str, Any] = {
        "np_mtok_s": as_numpy.mtok_s,
        "np_cpu_s_per_mtok": as_numpy.cpu_s_per_mtok,
        "first_batch_s": opening,
        "jax_mtok_s": as_jax.mtok_s,
        "cpu_s_per_mtok": as_jax.cpu_s_per_mtok,
    }
    for key, ms in zip(("p50_ms", "p99_ms", "max_ms"), np.percentile(as_jax.ms, (50, 99, 100)), strict=True):
        result[key] = float(ms)
    result["peak_memory_mb"] = memory.peak_mb
    reasons: dict[str, str] = {}
    for key, way in (("resume_state_1m_s", _with_state(peer)), ("resume_step_1m_s", peer.from_step)):
        if isinstance(way, str):
            result[key], reasons[key] = None, way
        else:
            argument = peer.late_state(LATE_STEP) if way is peer.from_state else LATE_STEP
            result[key], batches = first_batch(lambda way=way, argument=argument: way(argument))
            _close(batches)
    return {**result, "reasons": reasons, "notes": dict(peer.notes)}


def _with_state(peer: Peer) -> Callable[[Any], Iterator[Any]] | str:
    return peer.late_state if isinstance(peer.late_state, str) else peer.from_state


def _checked(rows: Any) -> Any:
    if rows.shape != (BATCH, LEN) or rows.dtype.kind not in "iu":
        raise ValueError(f"a batch is {rows.dtype}{list(rows.shape)}, and not integer[{BATCH}, {LEN}]")
    return rows


def _close(batches: Iterator[Any]) -> None:
    if hasattr(batches, "close"):
        batches.close()


class _Steady(NamedTuple):
    ms: list[float]
    mtok_s: float
    cpu_s_per_mtok: float


def _steady(batches: Iterator[Any], take: Callable[[Any], object], steps: int, seconds: float) -> _Steady:
    """Takes batches until there are `steps` of them and they took `seconds`, after eight that do not count."""
    for _ in range(8):
        take(next(batches))
    times: list[float] = []
    total, cpu = 0.0, _cpu_seconds()
    while len(times) < steps or total < seconds:
        began = time.perf_counter()
        take(next(batches))
        times.append(time.perf_counter() - began)
        total += times[-1]
    mtok = len(times) * BATCH * LEN / 1e6
    return _Steady([time * 1e3 for time in times], mtok / total, (_cpu_seconds() - cpu) / mtok)


def _cpu_seconds() -> float:
    """Of this process, of its children that have ended, and of those that have not."""
    own, tick = os.times(), os.sysconf("SC_CLK_TCK")
    total = own.user + own.system + own.children_user + own.children_system
    for process in _descendants(os.getpid()):
        fields = _read(f"/proc/{process}/stat").rpartition(")")[2].split()
        total += sum(int(field) for field in fields[11:15]) / tick
    return total


def _descendants(process: int) -> list[int]:
    found: list[int] = []
    for listing in Path(f"/proc/{process}/task").glob("*/children"):
        for child in _read(str(listing)).split():
            found += [int(child), *_descendants(int(child))]
    return found


def _read(file: str) -> str:
    """A file of /proc, or nothing where its process has ended."""
    try:
        return Path(file).read_text()
    except (FileNotFoundError, ProcessLookupError):
        return ""


class _Memory:
    """Samples memory in a thread, from `with` to its end; `peak_mb` is None where the system does not tell."""

    def __enter__(self) -> "_Memory":
        self._before = self._most = self._now()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._end.set()
        self._thread.join()

    @property
    def peak_mb(self) -> float | None:
        return (self._most - self._before) / 1e3 if self._before else None

    def _watch(self) -> None:
        while not self._end.wait(0.2):
            self._most = max(self._most, self._now())

    def _now(self) -> float:
        total = 0.0
        for process in [os.getpid(), *_descendants(os.getpid())]:
            for line in _read(f"/proc/{process}/smaps_rollup").splitlines():
                if line.startswith(("Pss_Anon:", "Pss_Shmem:")):
                    total += int(line.split()[1]) * 1.024
        return total


def package_versions(*packages: str) -> dict[str, str]:
    """The versions of what is installed, and of Python."""
    from importlib.metadata import version

    return {"python": sys.version.split()[0], **{package: version(package) for package in packages}}
