"""What only a new process can tell: `python -m flatmix.bench.child WHAT SETTINGS` prints one JSON object.

The parent waits for it with `run_child`. The child sees the same package as its parent, wherever that lies.
"""

import gc
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import jax

import flatmix
from flatmix.bench.clock import middle
from flatmix.bench.settings import Settings, buffer_bytes, bytes_held

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_LIMIT = 600.0  # seconds
_SAMPLED = 0.005
_LOOKS = 20


class ChildFailed(Exception):
    """A child ended with an error, or not at all."""


def run_child(what: str, settings: Settings) -> dict[str, Any]:
    """Starts a child and returns what it found. ChildFailed, with its last words, where it found nothing."""
    path = os.pathsep.join(filter(None, [str(Path(flatmix.__file__).parents[1]), os.environ.get("PYTHONPATH")]))
    command = [sys.executable, "-P", "-m", "flatmix.bench.child", what, json.dumps(settings.as_json())]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_LIMIT, env={**os.environ, "PYTHONPATH": path}
        )
    except subprocess.TimeoutExpired:
        raise ChildFailed(f"the new process was not done after {_LIMIT:g} s") from None
    if done.returncode:
        raise ChildFailed(f"the new process failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
    return json.loads(done.stdout)


def _fresh(settings: Settings) -> dict[str, float]:
    from flatmix.bench.start import floor_first_batch

    corpus = settings.four  # its description is read
    jax.devices()
    started = time.perf_counter()
    with settings.loader(corpus, settings.block) as loader:
        jax.block_until_ready(loader.load(0))
        seconds = time.perf_counter() - started
    return {"loader": seconds, "floor": floor_first_batch(settings, 0)}


def _memory(settings: Settings) -> dict[str, Any]:
    """Bytes. A loader that keeps nothing goes before: then the libraries have their threads, code and buffers."""
    if not _STATUS.exists():
        return {"peak": None}
    with settings.four_loader(budget=0) as loader:
        _take(loader.steps(), 20)
    gc.collect()
    before, resident = _own("RssAnon"), _own("VmRSS")
    _CLEAR.write_text("5")  # forgets the peak so far
    with settings.four_loader() as loader:
        configured = buffer_bytes(loader)
        once = configured // 4 // settings.batch_tokens + 1  # steps that use as many windows as all buffers hold
        batches = loader.steps()
        with _Sampler() as sampler:
            _take(batches, 2 * once)
            first = _settled(batches)
            _take(batches, settings.refills * once)
            last = _settled(batches)
        return {
            "before": before,
            "resident": resident,
            "peak": sampler.most - before,
            "high_water": _own("VmHWM") - resident,
            "first": first,
            "last": last,
            "steps": settings.refills * once,
            "said": bytes_held(loader),
            "buffers": configured,
        }


def _take(batches: Iterator[Any], count: int) -> None:
    for batch in islice(batches, count):
        jax.block_until_ready(batch)


def _settled(batches: Iterator[Any]) -> int:
    """RssAnon, the median over some steps: single batches come and go."""
    looks = []
    for _ in range(_LOOKS):
        _take(batches, 1)
        looks.append(_own("RssAnon"))
    return int(middle(looks))


def _own(name: str) -> int:
    """A size that the kernel tells of this process, in bytes."""
    lines = (line.split() for line in _STATUS.read_text().splitlines())
    return next(int(words[1]) * 1024 for words in lines if words and words[0] == f"{name}:")


class _Sampler:
    """Looks at RssAnon all the time; `most` is the largest that it saw."""

    def __init__(self) -> None:
        self.most = 0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._look, name="flatmix-bench-memory")

    def _look(self) -> None:
        while not self._done.wait(_SAMPLED):
            self.most = max(self.most, _own("RssAnon"))

    def __enter__(self) -> "_Sampler":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()


_COMMANDS: dict[str, Callable[[Settings], dict[str, Any]]] = {"fresh": _fresh, "memory": _memory}

if __name__ == "__main__":
    sys.stdout.write(json.dumps(_COMMANDS[sys.argv[1]](Settings.from_json(json.loads(sys.argv[2])))))
