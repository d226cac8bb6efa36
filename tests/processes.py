"""Python code in new interpreters, which see the helpers of these tests and one or eight CPU devices."""

import os
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


def outputs(*runs: Run) -> list[str]:
    """What each has written, without the last newline. AssertionError where one failed or took too long."""
    written: list[str] = []
    failed: list[str] = []
    for run in runs:  # all of them, also after one has failed, so that none is left behind
        try:
            out, errors = run.process.communicate(timeout=run.limit)
        except subprocess.TimeoutExpired:
            run.process.kill()
            out, errors = run.process.communicate()
            errors += f"still running after {run.limit} s"
        if run.process.returncode:
            failed.append(out + errors)
        written.append(out.strip())
    assert not failed, "\n\n".join(failed)
    return written


def run_python(code: str, *arguments: Any, options: tuple[str, ...] = (), limit: float = 60, **variables: str) -> Run:
    """Starts `python -P options -c code arguments`; several may run at once."""
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, "-P", *options, "-c", code, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": path, **variables}
    return Run(
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment), limit
    )
