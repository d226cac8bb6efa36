"""(other loaders, a corpus) -> name -> their figures, each measured in its own environment, the rounds interleaved.

A peer needs versions of its own, and none of ours: so each has a virtual environment, made by tools/bench_peers.py, and
a script in tools/peers that builds its store from the corpus's raw files, measures, and prints one line of JSON. Here
the scripts are run as child processes, A B C ... A B C ..., and the medians taken. A peer that fails or takes too long
is out, with its message as `error`, and the others go on. Cost: 5 to 20 s a peer and round, and some more for the
first, which builds the stores.
"""

import json
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

_TOOLS = Path(__file__).parents[2] / "tools"
_PEERS = {  # name -> environment, script, variant
    "hf-datasets": ("hf-datasets", "hf_datasets.py", "map"),
    "hf-datasets-arrow": ("hf-datasets", "hf_datasets.py", "arrow"),
    "hf-datasets-stream": ("hf-datasets", "hf_datasets.py", "stream"),
    "grain": ("grain", "google_grain.py", "processes"),
    "mosaic": ("mosaic", "mosaic_streaming.py", "workers"),
}
PEERS = tuple(_PEERS)
FIGURES = (
    "build_s",
    "np_mtok_s",
    "np_cpu_s_per_mtok",
    "first_batch_s",
    "jax_mtok_s",
    "cpu_s_per_mtok",
    "p50_ms",
    "p99_ms",
    "max_ms",
    "peak_memory_mb",
    "resume_state_1m_s",
    "resume_step_1m_s",
)
_OURS = ("PYTHON", "JAX_", "XLA_", "VIRTUAL_ENV")  # beginnings of variables that are not meant for a peer
_GRACE = 5.0  # seconds from asking a process to end to ending it


@dataclass(frozen=True)
class Peer:
    """What to run: `python script --corpus DIR --store stores/<name of the corpus> --variant variant`."""

    name: str
    python: Path
    script: Path
    variant: str
    stores: Path


class _Failed(Exception):
    """The message of a peer that gave no figures."""


def find_peers(folder: Path, names: Sequence[str] = PEERS) -> tuple[Peer, ...]:
    """The peers of these names, their environments below `folder`; ValueError where one is missing or not known."""
    unknown = [name for name in names if name not in _PEERS]
    if unknown:
        raise ValueError(f"no peer is called {', '.join(unknown)}; there are {', '.join(_PEERS)}")
    if not (_TOOLS / "peers").is_dir():
        raise ValueError(f"peers are measured from flatmix's source tree alone: there is no {_TOOLS / 'peers'}")
    missing: list[str] = []
    found: list[Peer] = []
    for name in names:
        environment, script, variant = _PEERS[name]
        home = folder / "peers" / environment
        if not (home / "env" / "made.json").is_file() and environment not in missing:
            missing.append(environment)
        found.append(Peer(name, home / "env" / "bin" / "python", _TOOLS / "peers" / script, variant, home))
    if missing:
        command = f"python {_TOOLS / 'bench_peers.py'} --folder {folder} {' '.join(missing)}"
        raise ValueError(
            f"no environment below {folder} for {', '.join(missing)}; this makes what is missing: {command}"
        )
    return tuple(found)


def measure_peers(
    corpus: Path,
    rounds: int = 5,
    peers: Sequence[Peer] | None = None,
    steps: int = 200,
    seconds: float = 2.0,
    limit: float = 300.0,
    report: Callable[[str], None] | None = None,
) -> dict[str, dict[str, Any]]:
    """name -> FIGURES (medians over the rounds; None where there is no such way, see `reasons`), `setting`, `versions`,
    `reasons`, `notes` and `rounds`; or name -> `error`, a line.

    `corpus` is a folder with corpus.json and the raw files; without `peers`, all are measured, and their environments
    are looked for in the folder that it lies in (`find_peers`). Each run measures `steps` batches at least, for
    `seconds` s at least, twice, and is ended after `limit` s. `report` is told the name of each peer as its turn comes.
    """
    if rounds < 1:
        raise ValueError(f"rounds is {rounds}; it must be 1 or more")
    if peers is None:
        peers = find_peers(corpus.parent)
    runs: dict[str, list[Mapping[str, Any]]] = {peer.name: [] for peer in peers}
    errors: dict[str, str] = {}
    for _ in range(rounds):
        for peer in peers:
            if peer.name in errors:
                continue
            if report is not None:
                report(peer.name)
            try:
                runs[peer.name].append(_run(peer, corpus, steps, seconds, limit))
            except _Failed as failed:
                errors[peer.name] = str(failed)
    return {name: {"error": errors[name]} if name in errors else medians(each) for name, each in runs.items()}


def medians(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The figures of several runs as one; what is no figure is that of the first run."""
    result: dict[str, Any] = {key: runs[0].get(key) for key in ("variant", "setting", "versions", "reasons", "notes")}
    for key in FIGURES:
        values = [run.get(key) for run in runs]
        numbers = [value for value in values if value is not None]
        result[key] = median(numbers) if len(numbers) == len(values) else None
    return {**result, "rounds": len(runs)}


def _run(peer: Peer, corpus: Path, steps: int, seconds: float, limit: float) -> Mapping[str, Any]:
    command = [peer.python, peer.script, "--corpus", corpus, "--store", peer.stores / corpus.name]
    command += ["--variant", peer.variant, "--steps", str(steps), "--seconds", str(seconds)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    # Files and not pipes: workers that outlive the child would keep a pipe open, and whoever reads it waiting.
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        try:
            child = subprocess.Popen(command, stdout=out, stderr=errors, env=environment, start_new_session=True)
        except OSError as error:
            raise _Failed(f"it could not be started: {error}") from None
        try:
            child.wait(limit)
        except subprocess.TimeoutExpired:
            raise _Failed(f"it was ended, after {limit:g} s without an end") from None
        finally:
            _end(child)
        lines = _lines(out)
        if child.returncode:
            raise _Failed(f"status {child.returncode}: {(_lines(errors) or ['it wrote no message'])[-1]}")
    with suppress(ValueError):
        figures = json.loads(lines[-1] if lines else "")
        if isinstance(figures, dict):
            return figures
    raise _Failed(f"its last line is no JSON object: {lines[-1]!r}" if lines else "it printed nothing")


def _end(child: subprocess.Popen[bytes]) -> None:
    """Ends what the child left running, and the child. First it is asked to: some peers clean up shared memory then."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.killpg(child.pid, number)
        except (ProcessLookupError, PermissionError):
            break  # nothing of it is left; macOS answers the second
        if child.poll() is None:
            with suppress(subprocess.TimeoutExpired):
                child.wait(_GRACE)
        time.sleep(0.2)  # for the processes that are not ours to wait for
    child.wait()


def _lines(file: Any) -> list[str]:
    file.seek(0)
    return [line for line in file.read().decode("utf-8", "replace").splitlines() if line.strip()]
