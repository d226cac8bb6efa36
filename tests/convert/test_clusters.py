"""Conversions on Dask and on Ray give the store that this machine's own processes give, also when a worker is lost."""

import contextlib
import json
import os
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from subprocess import DEVNULL, Popen

import pytest
from converted import TINY, files_of, start_conversion, wait_until, write_lines
from processes import end, outputs

from flatmix.convert import convert
from flatmix.errors import ConvertError

SIZES = {"unit_bytes": 20_000, "part_documents": 20, "batch_documents": 10}


@pytest.fixture
def sources(tmp_path: Path) -> dict[str, str]:
    texts = [f"document {number} " + "x" * (number % 90) for number in range(5000)]
    return {"en": str(write_lines(tmp_path / "en.jsonl", texts))}


@contextmanager
def dask_cluster(folder: Path, workers: int) -> Iterator[tuple[str, list[Popen]]]:
    """The address of a scheduler, and so many workers of it, which nobody replaces."""
    file = folder / "scheduler.json"
    where = ["--scheduler-file", str(file), "--no-dashboard"]
    names = [["scheduler", "--host", "127.0.0.1", "--port", "0", *where]]
    names += [
        ["worker", "--nthreads", "1", "--no-nanny", "--local-directory", str(folder / "dask"), *where]
        for _ in range(workers)
    ]
    started = []
    try:
        for one, *options in names:
            command = [sys.executable, "-m", f"distributed.cli.dask_{one}", *options]
            started.append(Popen(command, stdout=DEVNULL, stderr=DEVNULL))
            address = wait_until(lambda: address_in(file))
        yield address, started[1:]
    finally:
        for process in started:
            process.kill()
            process.wait()


def address_in(file: Path) -> str | None:
    """None until all of it is there."""
    with contextlib.suppress(OSError, ValueError):
        return json.loads(file.read_text())["address"]
    return None


def at_work(workers: list[Popen], staging: Path) -> list[Popen]:
    """Those that have something open in the staging folder."""

    def opened(worker: Popen) -> Iterator[Path]:
        for handle in Path(f"/proc/{worker.pid}/fd").iterdir():
            with contextlib.suppress(OSError):  # it was closed meanwhile
                yield handle.readlink()

    return [worker for worker in workers if any(path.is_relative_to(staging) for path in opened(worker))]


def test_a_dask_worker_that_is_killed_is_not_missed(tmp_path, sources):
    store, staging = tmp_path / "s.zarr", tmp_path / "s.zarr.staging"
    with dask_cluster(tmp_path, workers=2) as (address, workers):
        run = start_conversion(store, sources, backend="dask", address=address, sizes=SIZES)
        lost = wait_until(lambda: [*staging.rglob("*.part")] and at_work(workers, staging))[0]
        os.kill(lost.pid, signal.SIGKILL)
        assert lost.wait() == -signal.SIGKILL
        outputs(run)

    convert(tmp_path / "whole.zarr", sources)
    assert files_of(store) == files_of(tmp_path / "whole.zarr")
    assert not staging.exists()


def test_a_conversion_on_dask_that_is_killed_goes_on_without_it(tmp_path, sources):
    store, staging = tmp_path / "s.zarr", tmp_path / "s.zarr.staging"
    with dask_cluster(tmp_path, workers=1) as (address, _):
        run = start_conversion(store, sources, backend="dask", address=address, sizes=SIZES)
        wait_until(lambda: [*staging.rglob("*.part")])
        run.process.kill()
        assert end(run).code == -signal.SIGKILL
        outputs(start_conversion(store, sources, workers=1, sizes=SIZES))

    convert(tmp_path / "whole.zarr", sources)
    assert files_of(store) == files_of(tmp_path / "whole.zarr")
    assert not staging.exists()


def test_bad_input_on_dask_is_the_error_that_it_is_here(tmp_path):
    source = write_lines(tmp_path / "en.jsonl", ["a", None, "b"])
    with dask_cluster(tmp_path, workers=1) as (address, _):
        there = end(
            start_conversion(tmp_path / "s.zarr", {"en": str(source)}, backend="dask", address=address, strict=True)
        )
    with pytest.raises(ConvertError) as here:
        convert(tmp_path / "s.zarr", {"en": source}, strict=True)

    assert there.code == 1
    assert there.errors.splitlines()[-1] == f"ConvertError: {here.value}"
    assert "en.jsonl, line 2: " in str(here.value)


def test_no_scheduler_is_an_error_of_one_line(tmp_path):
    source = write_lines(tmp_path / "en.jsonl", ["a"])
    limit = "import dask; dask.config.set({'distributed.comm.timeouts.connect': '1s'})"
    ended = end(
        start_conversion(tmp_path / "s.zarr", {"en": str(source)}, limit, backend="dask", address="tcp://127.0.0.1:1")
    )

    assert ended.code == 1
    assert "OSError: backend dask at tcp://127.0.0.1:1 cannot be reached: " in ended.errors
    assert "Traceback" not in ended.errors


# Its own Ray, whatever else runs here, in a folder whose name is short enough for sockets.
RAY = """
import os, ray
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, _temp_dir={folder!r})
"""


def test_a_conversion_on_ray_gives_the_same_store(tmp_path, sources):
    store = tmp_path / "s.zarr"

    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        outputs(start_conversion(store, sources, RAY.format(folder=folder), backend="ray", sizes=SIZES))

    convert(tmp_path / "whole.zarr", sources, workers=2, sizes=TINY)
    assert files_of(store) == files_of(tmp_path / "whole.zarr")
    assert not Path(f"{store}.staging").exists()
