"""The scripts that measure other loaders in environments of their own, and the tool that makes those."""

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from flatmix.bench.peers import FIGURES, Peer, find_peers, measure_peers

TOOLS = Path(__file__).parents[2] / "tools"
SCRIPTS = ("hf_datasets.py", "google_grain.py", "mosaic_streaming.py")
ENVIRONMENTS = ("hf-datasets", "grain", "mosaic")

HELP = """\
import runpy, sys
for name in ("datasets", "pyarrow", "grain", "array_record", "absl", "streaming", "torch", "numpy", "jax", "flatmix"):
    sys.modules[name] = None  # importing it fails
script = sys.argv[1]
sys.path.insert(0, script.rpartition("/")[0])
sys.argv = [script, "--help"]
runpy.run_path(script, run_name="__main__")
"""

SAME_ROWS = """\
import itertools, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import common, hf_datasets
corpus, store = common._read_corpus(Path(sys.argv[2])), Path(sys.argv[3])
store.mkdir()
hf_datasets.build(corpus, store)
take = lambda variant, step: [b for b in itertools.islice(hf_datasets._mapped(corpus, store, variant, step), 3)]
for step in (0, 2):
    for numpy_rows, arrow_rows in zip(take("map", step), take("arrow", step), strict=True):
        assert numpy_rows.shape == (64, 2048) and (numpy_rows == arrow_rows).all()
assert (take("map", 0)[2] == take("map", 2)[0]).all()
"""


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Raw files of two languages: 150 and 50 rows of 2,048 tokens, and a few tokens more."""
    folder = tmp_path_factory.mktemp("corpora") / "two"
    folder.mkdir()
    random = np.random.default_rng(1)
    sizes = {"la": 150 * 2048 + 9, "lb": 50 * 2048 + 1}
    for name, size in sizes.items():
        random.integers(0, 64_000, size, np.uint16).astype("<u2").tofile(folder / f"{name}.bin")
    languages = {name: {"weight": size / sum(sizes.values()), "tokens": size} for name, size in sizes.items()}
    (folder / "corpus.json").write_text(json.dumps({"languages": languages}))
    return folder


@pytest.fixture
def common() -> ModuleType:
    spec = importlib.util.spec_from_file_location("peers_common", TOOLS / "peers" / "common.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def run(*command: object) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "XLA_"))}
    return subprocess.run([sys.executable, *map(str, command)], capture_output=True, text=True, env=environment)


@pytest.mark.parametrize("script", SCRIPTS)
def test_a_script_describes_itself_without_its_loader(script: str):
    done = run("-c", HELP, TOOLS / "peers" / script)

    assert (done.returncode, done.stderr) == (0, "")
    for text in ("--corpus", "--store", "--variant", "Output: one JSON line"):
        assert text in done.stdout


def test_a_real_loader_gives_every_figure(corpus: Path, tmp_path: Path):
    """The one loader that the tests have at hand anyway."""
    peer = Peer("hf", Path(sys.executable), TOOLS / "peers" / "hf_datasets.py", "arrow", tmp_path)
    found = measure_peers(corpus, peers=[peer], rounds=1, steps=10, seconds=0.0)["hf"]

    assert "error" not in found, found
    assert all(np.isfinite(found[key]) for key in FIGURES)
    assert found["versions"].keys() == {"python", "datasets", "pyarrow", "numpy", "jax"}


def test_both_formats_of_datasets_give_the_same_rows(corpus: Path, tmp_path: Path):
    done = run("-c", SAME_ROWS, TOOLS / "peers", corpus, tmp_path / "store")
    assert done.returncode == 0, done.stderr


# ---------------------------------------------------------------------------------------------- what they share


def endless(rows: Any):
    while True:
        yield rows


def a_peer(common: ModuleType, rows: Any, **changed: Any) -> Any:
    ways = {
        "start": lambda: endless(rows),
        "late_state": lambda step: {"step": step},
        "from_state": lambda state: endless(rows),
        "from_step": lambda step: endless(rows),
    }
    return common.Peer(setting="none", versions={}, **{**ways, **changed})


def test_every_figure_is_measured(common: ModuleType):
    found = common.measure(a_peer(common, np.zeros((64, 2048), np.uint16)), steps=3, seconds=0.0)

    assert {*found, "build_s"} == {*FIGURES, "reasons", "notes"}
    assert all(np.isfinite(found[key]) for key in FIGURES if key != "build_s")
    assert found["p50_ms"] <= found["p99_ms"] <= found["max_ms"]


def test_the_ways_to_resume_get_their_state_and_step(common: ModuleType):
    rows, seen = np.zeros((64, 2048), np.int64), []
    ways = {
        "late_state": lambda step: {"state of": step},
        "from_state": lambda state: seen.append(state) or endless(rows),
        "from_step": lambda step: seen.append(step) or endless(rows),
    }
    common.measure(a_peer(common, rows, **ways), steps=1, seconds=0.0)

    assert seen == [{"state of": 1_000_000}, 1_000_000]


def test_a_way_that_is_not_there_is_none_with_its_reason(common: ModuleType):
    peer = a_peer(common, np.zeros((64, 2048), np.uint16), late_state="no state", from_step="no step")
    found = common.measure(peer, steps=1, seconds=0.0)

    assert found["resume_state_1m_s"] is found["resume_step_1m_s"] is None
    assert found["reasons"] == {"resume_state_1m_s": "no state", "resume_step_1m_s": "no step"}


@pytest.mark.parametrize(("shape", "dtype"), [((64, 2047), np.uint16), ((63, 2048), np.uint16), ((64, 2048), float)])
def test_batches_of_another_form_are_refused(common: ModuleType, shape: tuple[int, int], dtype: type):
    with pytest.raises(ValueError, match=r"and not integer\[64, 2048\]"):
        common.measure(a_peer(common, np.zeros(shape, dtype)), steps=1, seconds=0.0)


def test_a_store_is_built_once_for_a_corpus_and_again_for_another(common: ModuleType, corpus: Path, tmp_path: Path):
    found, built = common._read_corpus(corpus), []
    build = lambda corpus, store: built.append(corpus.languages)  # noqa: E731

    first = common._build_once(found, tmp_path / "store", build)
    assert common._build_once(found, tmp_path / "store", build) == first
    assert built == [("la", "lb")]

    common._build_once(found._replace(languages=("lb",), weights=(1.0,)), tmp_path / "store", build)
    assert built == [("la", "lb"), ("lb",)]


def test_rows_are_whole_and_the_rest_is_left_out(common: ModuleType, corpus: Path):
    rows = common._read_corpus(corpus).rows("lb")
    raw = np.fromfile(corpus / "lb.bin", "<u2")

    assert rows.shape == (50, 2048)
    assert (rows.reshape(-1) == raw[: 50 * 2048]).all()


# ---------------------------------------------------------------------------------------------- environments


@pytest.fixture
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_peers", TOOLS / "bench_peers.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_environments_are_made_once_and_found(
    tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    ran: list[tuple[str, ...]] = []

    def note(*command: str) -> None:
        ran.append(command)
        (tmp_path / "peers" / "mosaic" / "env").mkdir(parents=True, exist_ok=True)

    monkeypatch.setattr(tool, "_run", note)
    tool.main(["--folder", str(tmp_path), "mosaic"])
    assert [command[1:3] for command in ran] == [("-m", "venv"), *[("-m", "pip")] * 3]
    assert ran[-1][3:] == ("uninstall", "--quiet", "--yes", "torchvision")

    tool.main(["--folder", str(tmp_path), "mosaic"])
    assert len(ran) == 4
    assert capsys.readouterr().out.splitlines()[-1].startswith("mosaic: ")
    assert [peer.name for peer in find_peers(tmp_path, ["mosaic"])] == ["mosaic"]


def test_an_environment_with_other_pins_is_made_anew(tool: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made = tmp_path / "peers" / "grain" / "env"
    made.mkdir(parents=True)
    (made / "made.json").write_text(json.dumps({"python": sys.executable, "steps": [["grain==0.1"]]}))
    ran: list[tuple[str, ...]] = []
    monkeypatch.setattr(tool, "_run", lambda *command: ran.append(command) or made.mkdir(exist_ok=True))

    tool.main(["--folder", str(tmp_path), "grain"])
    assert "grain==0.2.18" in ran[-1]


def test_the_tool_makes_every_environment_that_is_looked_for(tool: ModuleType, tmp_path: Path):
    with pytest.raises(ValueError, match="no environment") as refused:
        find_peers(tmp_path)
    assert str(refused.value).endswith(" ".join(ENVIRONMENTS))
    assert tuple(tool.ENVIRONMENTS) == ENVIRONMENTS


def test_an_unknown_environment_is_refused(tool: ModuleType, tmp_path: Path):
    with pytest.raises(SystemExit, match="no peer is called megatron; there are hf-datasets, grain, mosaic"):
        tool.main(["--folder", str(tmp_path), "megatron"])


def test_a_step_that_fails_leaves_no_mark(tool: ModuleType, tmp_path: Path):
    with pytest.raises(SystemExit, match=r"this failed, and so nothing was made: .*false"):
        tool.make(tmp_path, "grain", "false")
    assert not (tmp_path / "peers" / "grain" / "env" / "made.json").exists()
