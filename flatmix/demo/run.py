"""The main job from end to end on real text: convert, train, be killed, resume, and compare to the bit.

Training is a process of its own on eight simulated devices. What it does comes out the same on every machine of one
kind; the hashes differ between kinds of processors, whose arithmetic rounds differently.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from flatmix.convert import Summary, convert
from flatmix.demo.texts import write_demo_texts
from flatmix.demo.train import SHAPE, WEIGHTS, make_loader
from flatmix.store.format import DTYPES

Say = Callable[[str], None]

DEVICES = 8
_MARK = "made-by-flatmix-demo"
_OURS = {  # what a demo makes, by folder
    ".": {
        "texts",
        "corpus.zarr",
        "corpus.zarr.staging",  # of a demo that was killed
        *(f"{run}.{kind}" for run in ("unbroken", "killed") for kind in ("npz", "part")),
        _MARK,
    },
    "texts": {f"{language}.jsonl" for language in WEIGHTS},
    "corpus.zarr": {"zarr.json", *WEIGHTS},
    **{f"corpus.zarr/{language}": {"zarr.json", "train"} for language in WEIGHTS},
    **{f"corpus.zarr/{language}/train": {"zarr.json", *DTYPES} for language in WEIGHTS},
}


def run_demo(folder: Path, steps: int, say: Say) -> bool:
    """Runs the demo in `folder`, which must be new, empty or an earlier demo's. Whether both runs gave the same."""
    _make_folder(folder)
    store = folder / "corpus.zarr"
    texts = write_demo_texts(folder / "texts", list(WEIGHTS))
    _tell_corpus(convert(store, {name: [str(path)] for name, path in texts.items()}), say)

    say(f"\nTraining a small transformer for {steps} steps on {DEVICES} simulated devices, unbroken:")
    unbroken = _finish(_training(folder, "unbroken", steps), say)
    kill_after = steps // 2
    say(f"\nThe same again, killed with SIGKILL once step {kill_after} is done:")
    killed_at = _kill(_training(folder, "killed", steps), kill_after, say)
    say("\nThe same command again:")
    resumed = _finish(_training(folder, "killed", steps), say)

    _tell_mix(store, steps, say)
    equal = unbroken == resumed
    say(
        f"\nHash of the data and losses of {steps} steps: unbroken {unbroken[:16]}, killed at step {killed_at} and "
        f"resumed {resumed[:16]}: {'equal' if equal else 'DIFFERENT'}"
    )
    return equal


def _make_folder(folder: Path) -> None:
    """The folder, new or emptied of what an earlier demo has put there; ValueError, and nothing goes, for all else."""
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"{folder} is a file: name a new folder")
    if folder.exists() and any(folder.iterdir()):
        if not (folder / _MARK).exists():
            raise ValueError(f"{folder} holds files that are not of a demo: name a new folder")
        for place, ours in _OURS.items():
            _check_ours(folder / place, ours)
        for name in _OURS["."]:
            path = folder / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _MARK).touch()


def _check_ours(folder: Path, ours: set[str]) -> None:
    foreign = sorted({entry.name for entry in folder.iterdir()} - ours) if folder.is_dir() else []
    if foreign:
        raise ValueError(f"{folder / foreign[0]} is not of the demo: move it away, or name a new folder")


def _training(folder: Path, name: str, steps: int) -> subprocess.Popen[str]:
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_force_host_platform_device_count={DEVICES}"
    command = [sys.executable, "-m", "flatmix.demo.train", str(folder / "corpus.zarr"), str(folder / f"{name}.npz")]
    return subprocess.Popen(
        [*command, "--steps", str(steps)],
        env={**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": flags},
        stdout=subprocess.PIPE,
        text=True,
    )


def _reports(process: subprocess.Popen[str], say: Say) -> Iterator[dict[str, Any]]:
    """The steps that a training process reports, as they come; a few of them are told."""
    assert process.stdout is not None
    with process.stdout as lines:
        for number, line in enumerate(lines):
            report = json.loads(line)
            if number == 0 or report["step"] % 10 == 9:
                say(f"  step {report['step']:3}   loss {report['loss']:.6f}   {report['seconds']:6.2f} s")
            yield report


def _finish(process: subprocess.Popen[str], say: Say) -> str:
    """The chained hash with which a training process ends."""
    chain = ""
    for report in _reports(process, say):
        chain = report["chain"]
    if process.wait() != 0:
        raise ValueError(f"the training process ended with status {process.returncode}: its own message is above")
    return chain


def _kill(process: subprocess.Popen[str], after: int, say: Say) -> int:
    """Kills a training process once it has done step `after`; returns the last step that it reported."""
    last = -1
    for report in _reports(process, say):
        last = report["step"]
        if last == after:
            process.kill()
    status = process.wait()
    if status != -signal.SIGKILL or last < after:
        raise ValueError(
            f"the training process ended with status {status} after step {last}, before it could be killed after step "
            f"{after}: give more steps, or see its own message above"
        )
    say(f"  killed (status {status}) after step {last}")
    return last


def _tell_corpus(summary: Summary, say: Say) -> None:
    say("Converted to a flat-tokens store, UTF-8 bytes as tokens:")
    say("  language  documents   tokens  bytes")
    for language in summary.languages:
        say(f"  {language.language:8}  {language.documents:9}  {language.tokens:7}  {language.utf8_bytes:5}")


def _tell_mix(store: Path, steps: int, say: Say) -> None:
    with make_loader(str(store)) as loader:
        stats = loader.stats(steps)
    say(f"\nThe mix of the {steps * SHAPE.batch} rows:")
    say("  language  asked for  realised  rows  epochs")
    for name, weight in WEIGHTS.items():
        asked, rows = weight / sum(WEIGHTS.values()), stats[name]["rows"]
        say(f"  {name:8}  {asked:9.4f}  {rows / steps / SHAPE.batch:8.4f}  {rows:4}  {stats[name]['epochs']:6.2f}")
