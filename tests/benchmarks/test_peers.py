"""Other loaders: found, run in turn, their medians taken, whatever one of them does."""

import sys
import time
from pathlib import Path

import pytest

from flatmix.bench.peers import FIGURES, PEERS, Peer, find_peers, measure_peers, medians

ROOT = Path(__file__).parents[2]

STAND_IN = """\
import json, sys
from pathlib import Path

given = dict(zip(sys.argv[1::2], sys.argv[2::2]))
calls = Path(given["--store"]).parent / "calls"
with calls.open("a") as file:
    file.write(given["--variant"] + "\\n")
run = len([line for line in calls.read_text().split() if line == given["--variant"]])
"""
GIVES = """\
print("a line that is no figure")
figures = dict.fromkeys(%s, 1.0)
figures |= {"np_mtok_s": [7, 100, 3][run - 1], "resume_step_1m_s": None, "versions": {"made": "1.0"}, "given": given}
figures |= {"reasons": {"resume_step_1m_s": "it reads everything"}}
print(json.dumps(figures))
"""


@pytest.fixture
def stand_in(tmp_path: Path):
    """Makes a peer that does what the code says."""

    def make(name: str, code: str) -> Peer:
        script = tmp_path / f"{name}.py"
        script.write_text(STAND_IN + code)
        return Peer(name, Path(sys.executable), script, name, tmp_path)

    return make


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    (tmp_path / "four").mkdir()
    return tmp_path / "four"


GOOD = GIVES % (FIGURES,)


def test_the_figures_of_a_peer_are_the_medians_of_its_rounds(stand_in, corpus: Path):
    found = measure_peers(corpus, peers=[stand_in("good", GOOD)], rounds=3)["good"]

    assert found["np_mtok_s"] == 7  # of 7, 100 and 3
    assert found["first_batch_s"] == 1
    assert found["rounds"] == 3
    assert found["versions"] == {"made": "1.0"}


def test_a_way_that_a_peer_does_not_have_has_no_figure_but_a_reason(stand_in, corpus: Path):
    found = measure_peers(corpus, peers=[stand_in("good", GOOD)], rounds=1)["good"]

    assert found["resume_step_1m_s"] is None
    assert found["reasons"] == {"resume_step_1m_s": "it reads everything"}


def test_peers_take_turns(stand_in, corpus: Path, tmp_path: Path):
    told: list[str] = []
    measure_peers(corpus, peers=[stand_in("one", GOOD), stand_in("two", GOOD)], rounds=2, report=told.append)

    assert (tmp_path / "calls").read_text().split() == ["one", "two", "one", "two"]
    assert told == ["one", "two", "one", "two"]


def test_a_peer_is_told_the_corpus_its_own_store_and_how_long(stand_in, corpus: Path, tmp_path: Path):
    told = stand_in("good", GOOD.replace('"versions": {"made": "1.0"}', '"versions": given'))
    found = measure_peers(corpus, peers=[told], rounds=1, steps=30, seconds=0.5)["good"]

    assert found["versions"] == {
        "--corpus": str(corpus),
        "--store": str(tmp_path / "four"),
        "--variant": "good",
        "--steps": "30",
        "--seconds": "0.5",
    }


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("raise RuntimeError('no room')", "status 1: RuntimeError: no room"),
        ("sys.exit(3)", "status 3: it wrote no message"),
        ("pass", "it printed nothing"),
        ("print('done')", "its last line is no JSON object: 'done'"),
        ("print([1])", "its last line is no JSON object: '[1]'"),
    ],
)
def test_a_peer_that_fails_is_reported_and_the_others_go_on(stand_in, corpus: Path, code: str, message: str):
    found = measure_peers(corpus, peers=[stand_in("bad", code), stand_in("good", GOOD)], rounds=2)

    assert found["bad"] == {"error": message}
    assert found["good"]["rounds"] == 2


def test_a_peer_that_failed_is_not_run_again(stand_in, corpus: Path, tmp_path: Path):
    measure_peers(corpus, peers=[stand_in("bad", "sys.exit(1)")], rounds=3)
    assert (tmp_path / "calls").read_text().split() == ["bad"]


def test_a_peer_that_hangs_is_ended_with_its_workers(stand_in, corpus: Path, tmp_path: Path):
    hangs = """\
import subprocess, time
worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
(calls.parent / "worker").write_text(str(worker.pid))
time.sleep(300)
"""
    found = measure_peers(corpus, peers=[stand_in("hangs", hangs), stand_in("good", GOOD)], rounds=1, limit=2)

    assert found["hangs"] == {"error": "it was ended, after 2 s without an end"}
    assert found["good"]["rounds"] == 1
    assert_ended(int((tmp_path / "worker").read_text()))


def test_workers_that_a_peer_leaves_behind_are_ended(stand_in, corpus: Path, tmp_path: Path):
    leaves = """\
import subprocess
worker = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"])
(calls.parent / "worker").write_text(str(worker.pid))
"""
    found = measure_peers(corpus, peers=[stand_in("good", leaves + GOOD)], rounds=1)

    assert found["good"]["rounds"] == 1
    assert_ended(int((tmp_path / "worker").read_text()))


def assert_ended(process: int) -> None:
    """The process is gone, or dead and waited for by nobody; within ten seconds."""
    for _ in range(200):
        try:
            state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return
        if state == "Z":
            return
        time.sleep(0.05)
    raise AssertionError(f"process {process} is still running")


def test_a_peer_sees_none_of_the_settings_that_are_ours(stand_in, corpus: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("PYTHONPATH", "JAX_NUMPY_DTYPE_PROMOTION", "XLA_FLAGS"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("KEPT", "1")
    code = """\
import os
print(json.dumps({"versions": [n for n in os.environ if n == "KEPT" or n[:4] in ("PYTH", "JAX_", "XLA_")]}))
"""
    assert measure_peers(corpus, peers=[stand_in("sees", code)], rounds=1)["sees"]["versions"] == ["KEPT"]


def test_a_python_that_is_not_there_is_that_peers_error(stand_in, corpus: Path, tmp_path: Path):
    gone = Peer("gone", tmp_path / "no-python", tmp_path / "gone.py", "gone", tmp_path)
    found = measure_peers(corpus, peers=[gone, stand_in("good", GOOD)], rounds=1)

    assert found["gone"]["error"].startswith("it could not be started: ")
    assert found["good"]["rounds"] == 1


def test_no_rounds_are_refused(corpus: Path):
    with pytest.raises(ValueError, match="rounds is 0; it must be 1 or more"):
        measure_peers(corpus, peers=[], rounds=0)


def test_a_figure_that_one_run_lacks_has_no_median():
    assert medians([{"np_mtok_s": 1.0}, {"np_mtok_s": None}])["np_mtok_s"] is None


# ---------------------------------------------------------------------------------------------- environments


def test_missing_environments_are_named_with_the_command_that_makes_them(tmp_path: Path):
    made = tmp_path / "peers" / "grain" / "env"
    made.mkdir(parents=True)
    (made / "made.json").write_text("{}")

    with pytest.raises(ValueError, match="no environment") as refused:
        find_peers(tmp_path)
    command = f"python {ROOT / 'tools' / 'bench_peers.py'} --folder {tmp_path} hf-datasets mosaic"
    assert str(refused.value).endswith(f"this makes what is missing: {command}")


def test_without_a_choice_all_peers_are_looked_for_beside_the_corpus(corpus: Path, tmp_path: Path):
    with pytest.raises(ValueError, match="no environment") as refused:
        measure_peers(corpus)
    assert f"--folder {tmp_path} hf-datasets grain mosaic" in str(refused.value)


def test_an_environment_without_its_mark_is_missing(tmp_path: Path):
    (tmp_path / "peers" / "grain" / "env" / "bin").mkdir(parents=True)
    with pytest.raises(ValueError, match=r"no environment below .* for grain; "):
        find_peers(tmp_path, ["grain"])


def test_peers_are_found_in_the_sequence_of_their_names(tmp_path: Path):
    for name in ("hf-datasets", "grain"):
        (tmp_path / "peers" / name / "env").mkdir(parents=True)
        (tmp_path / "peers" / name / "env" / "made.json").write_text("{}")

    found = find_peers(tmp_path, ["grain", "hf-datasets", "hf-datasets-stream"])
    assert [peer.name for peer in found] == ["grain", "hf-datasets", "hf-datasets-stream"]
    assert [peer.variant for peer in found] == ["processes", "map", "stream"]
    assert found[1].python == tmp_path / "peers" / "hf-datasets" / "env" / "bin" / "python"


def test_an_unknown_peer_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match=f"no peer is called megatron; there are {', '.join(PEERS)}"):
        find_peers(tmp_path, ["megatron"])
