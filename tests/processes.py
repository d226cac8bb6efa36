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

    def wait_for_output(self) -> str:
        """Its output, without the last newline. AssertionError where it failed or took longer than its limit."""
        try:
            out, errors = self.process.communicate(timeout=self.limit)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, errors = self.process.communicate()
            raise AssertionError(f"still running after {self.limit} s: {out}{errors}") from None
        assert self.process.returncode == 0, errors
        return out.strip()


def run_python(code: str, *arguments: Any, options: tuple[str, ...] = (), limit: float = 60, **variables: str) -> Run:
    """Starts `python options -c code arguments`; several may run at once."""
    path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, *options, "-c", code, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": path, **variables}
    return Run(
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment), limit
    )
