"""docs/train.py as users run it, on eight devices: killed and resumed, by two processes, and as its page quotes it."""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import socket
import textwrap
from pathlib import Path

import pytest
from processes import Run, outputs, run_python

from flatmix.convert import convert

ROOT = Path(__file__).parents[1]
CODE = "import runpy, sys; runpy.run_path(sys.argv.pop(1), run_name='__main__')"
STEPS, EVERY = 12, 3
DIVIDED = ("--model", "2", "--divide-rows")
WORDS = {"en": "the cat sat on a mat and ran", "sw": "paka alikaa juu ya mkeka na kukimbia", "ja": "猫 は 上 に 座 る"}
RUN = """
[data]
store = "corpus.zarr"
vocab_size = 256
[batch]
len = 32
batch = 16
extra_tokens = 1
stride = 32
[order]
seed = 7
streams = 4
[mixture.weights]
en = 0.5
sw = 0.3
ja = 0.2
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run file, and a store of generated text with both splits."""
    folder, chance = tmp_path_factory.mktemp("training"), random.Random(1)
    for split, documents in (("train", 200), ("validation", 50)):
        for language, words in WORDS.items():
            texts = [" ".join(chance.choices(words.split(), k=chance.randint(1, 30))) for _ in range(documents)]
            lines = [json.dumps({"text": text}) + "\n" for text in texts]
            (folder / f"{language}-{split}.jsonl").write_text("".join(lines), encoding="utf-8")
        convert(folder / "corpus.zarr", {name: [str(folder / f"{name}-{split}.jsonl")] for name in WORDS}, split=split)
    (folder / "run.toml").write_text(RUN, encoding="utf-8")
    return folder


def start(folder: Path, checkpoints: str, *options: str, devices: int = 8, **variables: str) -> Run:
    """Starts the script. Programs that one run has compiled are taken by the next; none of them is optimised."""
    flags = f"--xla_force_host_platform_device_count={devices} --xla_backend_optimization_level=0"
    variables |= {"XLA_FLAGS": flags, "JAX_NUMPY_DTYPE_PROMOTION": "standard"}  # optax promotes types
    variables["JAX_COMPILATION_CACHE_DIR"] = str(folder / "compiled")
    variables["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"
    arguments = (folder / "run.toml", folder / checkpoints, "--steps", STEPS, "--every", EVERY, *options)
    return run_python(CODE, ROOT / "docs" / "train.py", *arguments, **variables, limit=150)


def lines_of(output: str) -> list[str]:
    """What the script has printed; its libraries may print, too."""
    return re.findall(r"step \d+: .*\)", output)


def losses_of(lines: list[str]) -> list[float]:
    return [float(re.search(r"(?:loss|validation) (\S+) \(en ", line)[1]) for line in lines]


@pytest.fixture(scope="module")
def unbroken(folder: Path) -> list[str]:
    """What an unbroken run prints; it leaves its checkpoints in `unbroken`."""
    return lines_of(*outputs(start(folder, "unbroken", *DIVIDED)))


def test_each_step_prints_a_line_and_the_model_learns(unbroken: list[str]):
    said = [line.rpartition(" (")[0].rpartition(" ")[0] for line in unbroken]
    losses = losses_of(unbroken)

    assert [what for what in said if "loss" in what] == [f"step {step}: loss" for step in range(STEPS)]
    assert [what for what in said if "loss" not in what] == [f"step {step}: validation" for step in (2, 5, 8, 11)]
    assert re.search(r" \(en \d\.\d{4}, sw \d\.\d{4}, ja \d\.\d{4}\)$", unbroken[3])
    assert 5.4 < losses[0] < 6.5  # near log 256 before it has seen anything
    assert losses[-1] < losses[3] < losses[0] - 1


def test_killed_run_goes_on_from_its_checkpoint_with_the_same_losses_to_the_bit(folder: Path, unbroken: list[str]):
    """The checkpoint before step 3 is complete once step 6 is done; the one before step 6 may be or not."""
    run = start(folder, "killed", *DIVIDED)
    killed: list[str] = []
    for line in run.process.stdout:
        killed += lines_of(line)
        if line.startswith("step 6: loss"):
            run.process.kill()
    run.process.communicate()
    resumed = lines_of(*outputs(start(folder, "killed", *DIVIDED)))

    assert run.process.returncode == -signal.SIGKILL
    assert killed == unbroken[: len(killed)]
    assert resumed[0].partition(":")[0] in ("step 3", "step 6")
    assert resumed == unbroken[-len(resumed) :]


def free_job() -> str:
    """A number of a Slurm job of which JAX makes a port that is free: 61440 and the last twelve bits."""
    for job in range(os.getpid(), os.getpid() + 4096):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("localhost", 61440 + job % 4096))
            return str(job)
    raise AssertionError("no port is free")


def test_two_processes_on_another_mesh_go_on_from_a_checkpoint_of_one(folder: Path, unbroken: list[str]):
    """Started as Slurm would, and with whole rows. The data are the same; sums over other devices are rounded anew."""
    shutil.copytree(folder / "unbroken" / "9", folder / "two" / "9")
    slurm = {"SLURM_JOB_ID": free_job(), "SLURM_STEP_NODELIST": "localhost", "SLURM_NTASKS": "2"}
    numbers = [{"SLURM_PROCID": number, "SLURM_LOCALID": number} for number in "01"]
    whole = ("--model", "4", "--processes")
    runs = [start(folder, "two", *whole, devices=4, **slurm, **number) for number in numbers]
    printed, nothing = map(lines_of, outputs(*runs))

    assert nothing == []
    assert [line.split()[:3] for line in printed] == [line.split()[:3] for line in unbroken[-4:]]
    assert losses_of(printed) == pytest.approx(losses_of(unbroken[-4:]), rel=1e-5)


def test_page_quotes_the_script_as_it_is():
    page, script = ((ROOT / "docs" / name).read_text(encoding="utf-8") for name in ("training.md", "train.py"))
    quotes = re.findall(r"^```python notest\n# docs/train.py\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)

    assert len(quotes) > 3
    for quote in quotes:
        assert any(textwrap.indent(quote, " " * depth) in script for depth in (0, 4, 8, 12)), quote
