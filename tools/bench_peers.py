"""Names of other loaders -> a virtual environment for each, for `flatmix bench --peers`.

    python tools/bench_peers.py --folder DIR [NAME ...]

Input: the package registry that pip is set up for. Output: `DIR/peers/NAME/env`, with the versions pinned below, for
each NAME (all of them where none is given). To expect: two lines a name, one before and one after, with the room that
it takes; about 4 GB and some minutes in all, most of it for mosaic. An environment that is there with the same
pins is left as it is; any other, half-made ones among them, is made anew.

The pins are versions that were seen to work together on Python 3.11; --python names an interpreter where this one is
another. The CUDA build of torch, which is the usual one on Linux, is 2 to 5 GB that no loader needs: this script
installs the CPU build or nothing. Where pip does not find it, --extra-index names the CPU index that torch's own
installation page gives.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


class Environment(NamedTuple):
    """What is installed, in steps, one call of pip each; what is taken out again, and why; the room it takes."""

    steps: tuple[tuple[str, ...], ...]
    megabytes: int
    removed: str | None = None
    because: str = ""


JAX = ("jax==0.10.2", "jaxlib==0.10.2")
ENVIRONMENTS = {
    "hf-datasets": Environment((("datasets==5.2.0", "pyarrow==26.0.1", "numpy==2.4.6", *JAX),), 950),
    "grain": Environment((("grain==0.2.18", "array_record==0.8.6", "numpy==2.4.6", *JAX),), 700),
    "mosaic": Environment(
        (("torch==2.13.0+cpu",), ("torch==2.13.0+cpu", "mosaicml-streaming==0.13.0", "numpy==2.1.3", *JAX)),
        2300,
        removed="torchvision",
        because="the wheel that comes along is made for another build of torch, and fails on import",
    ),
}
MARK = "made.json"


def main(arguments: Sequence[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    unknown = [name for name in options.names if name not in ENVIRONMENTS]
    if unknown:
        raise SystemExit(f"bench_peers: no peer is called {', '.join(unknown)}; there are {', '.join(ENVIRONMENTS)}")
    names = options.names or list(ENVIRONMENTS)
    need = sum(ENVIRONMENTS[name].megabytes for name in names if not _is_ready(options.folder, name, options.python))
    options.folder.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(options.folder).free // 10**6
    if need > free:
        raise SystemExit(f"bench_peers: {need} MB are needed in {options.folder}, and {free} MB are free")
    for name in names:
        make(options.folder, name, options.python, options.extra_index)


def _parser() -> argparse.ArgumentParser:
    heading, _, rest = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        description=heading, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(ENVIRONMENTS)}; all where none is")
    default = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "flatmix" / "bench"
    parser.add_argument("--folder", type=Path, default=default, help=f"as for flatmix bench; default: {default}")
    parser.add_argument("--python", default=sys.executable, help="interpreter to make them with; default: this one")
    parser.add_argument("--extra-index", metavar="URL", help="a further index for pip, for the CPU build of torch")
    return parser


def make(folder: Path, name: str, python: str, extra_index: str | None = None) -> None:
    """Makes `folder/peers/name/env`, unless it is there as it should be."""
    wanted, place = ENVIRONMENTS[name], folder / "peers" / name / "env"
    if _is_ready(folder, name, python):
        print(f"{name}: {place} is there, {_megabytes(place)} MB", flush=True)
        return
    packages = ", ".join(wanted.steps[-1])
    print(f"{name}: installing {packages} in {place}, about {wanted.megabytes} MB", flush=True)
    began = time.monotonic()
    shutil.rmtree(place, ignore_errors=True)
    _run(python, "-m", "venv", str(place))
    pip = (str(place / "bin" / "python"), "-m", "pip")
    for step in wanted.steps:
        _run(*pip, "install", "--quiet", *(["--extra-index-url", extra_index] if extra_index else []), *step)
    if wanted.removed is not None:
        _run(*pip, "uninstall", "--quiet", "--yes", wanted.removed)
        print(f"{name}: {wanted.removed} was taken out again: {wanted.because}", flush=True)
    (place / MARK).write_text(json.dumps(_pins(name, python)), encoding="utf-8")
    print(f"{name}: made in {time.monotonic() - began:.0f} s, {_megabytes(place)} MB", flush=True)


def _pins(name: str, python: str) -> dict[str, object]:
    return {"python": python, "steps": [list(step) for step in ENVIRONMENTS[name].steps]}


def _is_ready(folder: Path, name: str, python: str) -> bool:
    mark = folder / "peers" / name / "env" / MARK
    return mark.is_file() and json.loads(mark.read_text(encoding="utf-8")) == _pins(name, python)


def _run(*command: str) -> None:
    if subprocess.run(command, check=False).returncode:
        hint = "; see --extra-index" if any(word.startswith("torch==") for word in command) else ""
        raise SystemExit(f"bench_peers: this failed, and so nothing was made: {' '.join(command)}{hint}")


def _megabytes(folder: Path) -> int:
    return sum(file.lstat().st_size for file in folder.rglob("*") if not file.is_dir()) // 10**6


if __name__ == "__main__":
    main()
