"""Python code in new interpreters, which see the helpers of these tests; alone, or as the processes of one JAX run."""

import os
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


@dataclass
class Run:
    process: subprocess.Popen[str]
    limit: float


@dataclass
class End:
    """How a run ended. `code` is negative where a signal ended it."""

    code: int
    out: str
    errors: str


def end(run: Run) -> End:
    """Waits for a run, and kills it after its limit."""
    try:
        out, errors = run.process.communicate(timeout=run.limit)
    except subprocess.TimeoutExpired:
        run.process.kill()
        out, errors = run.process.communicate()
        errors += f"still running after {run.limit} s"
    return End(run.process.returncode, out, errors)


def outputs(*runs: Run) -> list[str]:
    """What each has written, without the last newline. AssertionError where one failed or took too long."""
    ends = [end(run) for run in runs]  # all of them, also after one has failed, so that none is left behind
    failed = [ended.out + ended.errors for ended in ends if ended.code]
    assert not failed, "\n\n".join(failed)
    return [ended.out.strip() for ended in ends]


def run_python(code: str, *arguments: Any, options: tuple[str, ...] = (), limit: float = 60, **variables: str) -> Run:
    """Starts `python -P options -c code arguments`; several may run at once."""
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-P", *options, "-c", code, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": path, **variables}
    return Run(
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment), limit
    )


def run_together(code: str, count: int, *arguments: Any, devices: int = 8, limit: float = 60) -> list[Run]:
    """Starts the processes of one JAX run, with so many CPU devices between them.

    The arguments of each are the address to meet at, the count, its own number, and then those given.
    """
    with socket.socket() as free:
        free.bind(("localhost", 0))
        address = f"localhost:{free.getsockname()[1]}"
    flags = f"--xla_force_host_platform_device_count={devices // count}"
    return [
        run_python(code, address, count, number, *arguments, limit=limit, XLA_FLAGS=flags) for number in range(count)
    ]
