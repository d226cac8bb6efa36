"""Whatever ends a conversion, at whatever moment: the same call goes on, and its store is that of an unbroken one."""

import errno
import glob
import json
import os
import random
import shutil
import signal
import time
from pathlib import Path

import numpy as np
import pytest
from converted import (
    TINY,
    files_of,
    processes_of,
    read_documents,
    start_conversion,
    utf8,
    wait_until,
    write_lines,
)
from processes import Run, end, outputs, run_python

from flatmix.convert import convert, publish
from flatmix.convert.job import Sizes
from flatmix.errors import ConvertError, StoreError
from flatmix.store import open_store

KILLS, KILLS_OF_ONE = 25, 5
MANY_PARTS = {"unit_bytes": 20_000, "part_documents": 20, "batch_documents": 10}


def write_input(folder: Path, documents: int = 1200) -> dict[str, str]:
    """Two files of one language, with bad lines among them, and one of another."""
    chosen = random.Random(5)
    words = ["one", "two", "drei", "世界", "é", ""]
    texts = [" ".join(chosen.choices(words, k=chosen.randrange(40))) for _ in range(documents)]
    write_lines(folder / "en/a.jsonl", texts)
    write_lines(folder / "en/b.jsonl", [None if number % 50 == 3 else text for number, text in enumerate(texts[::-1])])
    write_lines(folder / "fr.jsonl", texts[: documents // 2])
    return {"en": f"{folder}/en", "fr": f"{folder}/fr.jsonl"}


def staging_of(store: Path) -> Path:
    return store.with_name(f"{store.name}.staging")


def parts_of(store: Path) -> dict[str, tuple[int, int]]:
    """The staged parts, and what tells whether one is still the same file."""
    return {path.name: (path.stat().st_ino, path.stat().st_mtime_ns) for path in staging_of(store).rglob("*.part")}


def part_names(store: Path) -> set[str]:
    """Also while they are removed."""
    return set(map(os.path.basename, glob.glob(f"{staging_of(store)}/*/parts/*.part")))  # noqa: PTH207


def visible(store: Path) -> dict[str, str]:
    """The splits that readers see, and their digests. AssertionError for one that is not complete."""
    if not (store / "zarr.json").exists():
        return {}
    opened = open_store(store)
    names = [(language, split) for language in opened for split in opened[language]]
    assert {opened.status(*name) for name in names} <= {"complete"}
    return {f"{language}/{split}": opened[language][split].digest for language, split in names}


def kill(run: Run) -> bool:
    """Whether it was still at work."""
    run.process.kill()
    return end(run).code == -signal.SIGKILL


def wait_for_job(run: Run, store: Path) -> None:
    wait_until(lambda: [*staging_of(store).glob("*/job.json")] or run.process.poll() is not None)


def kill_all(store: Path, run: Run) -> None:
    run.process.kill()
    for process in processes_of(store):
        os.kill(process, signal.SIGKILL)
    end(run)


@pytest.mark.timeout(900)  # some sixty processes, one after another
@pytest.mark.parametrize("workers", [1, 4])
def test_killed_at_random_moments_and_begun_again_it_gives_the_store_of_an_unbroken_run(tmp_path, workers):
    """Every second time, the splits that it writes replace others."""
    sources = write_input(tmp_path / "in")
    settings = {"hold_out": {"test": 0.1}, "workers": workers, "sizes": MANY_PARTS}
    whole, old = tmp_path / "whole.zarr", tmp_path / "old.zarr"
    convert(old, {"en": write_lines(tmp_path / "old.jsonl", ["old"])})
    before = visible(old)
    run = start_conversion(whole, sources, **settings)
    wait_for_job(run, whole)
    begun = time.monotonic()
    parts = 0
    while run.process.poll() is None:
        parts = max(parts, len(part_names(whole)))
        time.sleep(0.01)
    outputs(run)
    span = time.monotonic() - begun
    after = visible(whole)
    moments = random.Random(workers)
    kept = []

    def finish_or_kill(store: Path, **more: bool) -> bool:
        """Whether it was killed while there was something left to do."""
        made = parts_of(store)
        run = start_conversion(store, sources, **settings, **more)
        wait_for_job(run, store)
        if moments.random() < 0.5 or len(made) >= parts:
            time.sleep(moments.uniform(0, span / 2))
        else:  # soon after it has made a part: most of the time goes to the start of workers
            wait_until(lambda: run.process.poll() is not None or part_names(store) > set(made))
            time.sleep(moments.uniform(0, span / 10))
        killed = kill(run)
        seen = visible(store)
        assert all(seen[name] in (before.get(name), after.get(name)) for name in seen)
        there = parts_of(store)
        if there and made:
            assert {name: there[name] for name in made} == made
            kept.append(len(made))
        return killed and staging_of(store).exists()

    kills = number = 0
    while kills < KILLS:
        number += 1
        store = tmp_path / f"{number}.zarr"
        replace = number % 2 == 0
        if replace:
            shutil.copytree(old, store)
        for _ in range(KILLS_OF_ONE):
            if not finish_or_kill(store, replace=replace):
                break
            kills += 1
        if staging_of(store).exists():
            outputs(start_conversion(store, sources, replace=replace, **settings))
        assert files_of(store) == files_of(whole)
        assert not staging_of(store).exists()
        assert wait_until(lambda store=store: not processes_of(store))
    assert len(kept) >= KILLS_OF_ONE  # so often there were parts to keep


# A conversion of one worker that kills itself before it changes a file for the n-th time, for each n given, in a store
# of its own; it prints how often the n-th change came before the end. What is imported once serves them all.
EACH_STEP = """
import json, os, signal, sys
from flatmix.convert import convert
from flatmix.convert.job import Sizes

folder, settings, first, step, last = sys.argv[1], json.loads(sys.argv[2]), *map(int, sys.argv[3:])
CHANGES = {"os.rename", "os.remove", "os.rmdir", "os.mkdir", "os.link", "shutil.rmtree"}

def killed_before(change, store):
    left = [change]

    def hook(event, arguments):
        writing = event == "open" and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if (event in CHANGES or writing) and str(arguments[0]).startswith(folder):
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(hook)
    convert(store, workers=1, **settings)

for change in range(first, last, step):
    store = f"{folder}/{change}.zarr"
    child = os.fork()
    if child == 0:
        status = 1
        try:
            killed_before(change, store)
            status = 0
        finally:
            os._exit(status)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    print(change, code, flush=True)
    if code == 0:
        break
"""


def everything_in(folder: Path) -> dict[str, bytes | None]:
    """Files and folders."""
    return {str(path.relative_to(folder)): None for path in folder.rglob("*")} | files_of(folder)


@pytest.mark.parametrize("replace", [False, True])
def test_killed_before_any_change_of_a_file_it_gives_the_store_of_an_unbroken_run(tmp_path, replace):
    """Every second change that a small conversion makes, odd ones here, even ones where it replaces a split."""
    source = write_lines(tmp_path / "en.jsonl", ["a", "b" * 10])
    settings = {"sources": {"en": str(source)}, "replace": replace}
    convert(tmp_path / "whole.zarr", **settings)
    whole = everything_in(tmp_path / "whole.zarr")
    convert(tmp_path / "old.zarr", {"en": write_lines(tmp_path / "old.jsonl", ["old"])})
    first, step, last, stores = 1 + replace, 2, 300, tmp_path / "stores"
    stores.mkdir()
    for number in range(first, last, step) if replace else ():
        shutil.copytree(tmp_path / "old.zarr", stores / f"{number}.zarr")

    (out,) = outputs(run_python(EACH_STEP, stores, json.dumps(settings), first, step, last, limit=100))

    ends = [(int(number), int(code)) for number, code in map(str.split, out.splitlines())]
    assert len(ends) > 40
    assert {code for _, code in ends[:-1]} == {-signal.SIGKILL}
    assert ends[-1][1] == 0  # all of its changes were seen
    for number, _ in ends:
        store = stores / f"{number}.zarr"
        done = store.exists() and everything_in(store) == whole and not [*staging_of(store).rglob("job.json")]
        if not done:
            convert(store, **settings)
            assert everything_in(store) == whole, number
            assert not staging_of(store).exists(), number


# The shards of two languages, 9 million tokens each: two workers write them.
SHARDS = 2


def write_noise(folder: Path) -> dict[str, str]:
    letters = np.random.default_rng(7).integers(97, 123, (SHARDS, 90, 100_000), np.uint8)
    return {
        f"x{number}": str(write_lines(folder / f"{number}.jsonl", [line.tobytes().decode() for line in lines]))
        for number, lines in enumerate(letters)
    }


@pytest.fixture(scope="module")
def noise(tmp_path_factory) -> tuple[dict[str, str], Path]:
    """Input, and the store that an unbroken run makes of it."""
    folder = tmp_path_factory.mktemp("noise")
    sources = write_noise(folder / "in")
    convert(folder / "whole.zarr", sources, workers=1)
    return sources, folder / "whole.zarr"


@pytest.mark.parametrize("workers", [1, 4])
def test_killed_in_the_middle_of_a_shard_it_gives_the_store_of_an_unbroken_run(tmp_path, noise, workers):
    """A file that TensorStore is writing has `.__lock` in its name; caught when it is still there after the kill."""
    sources, whole = noise
    store = tmp_path / "s.zarr"
    caught = 0
    for _ in range(10):
        run = start_conversion(store, sources, workers=workers)
        wait_until(lambda run=run: run.process.poll() is not None or [*store.glob("x*/.train.new/*/c/*.__lock")])
        if run.process.poll() is None:
            kill_all(store, run)
        if [*store.rglob("*.__lock")]:
            caught += 1
        if caught == 2:
            break
        if not staging_of(store).exists():
            assert files_of(store) == files_of(whole)
            shutil.rmtree(store)
    assert caught == 2
    assert visible(store).items() < visible(whole).items()

    outputs(start_conversion(store, sources, workers=workers))

    assert files_of(store) == files_of(whole)
    assert not staging_of(store).exists()


def test_a_killed_worker_ends_the_run_with_an_error_and_the_same_call_goes_on(tmp_path):
    sources = write_input(tmp_path / "in", documents=3000)
    store = tmp_path / "s.zarr"
    run = start_conversion(store, sources, workers=2, sizes=MANY_PARTS)
    wait_until(lambda: parts_of(store))
    workers = [process for process, command in processes_of(store).items() if "popen_loky" in command]
    assert len(workers) == 2
    os.kill(workers[0], signal.SIGKILL)

    ended = end(run)

    assert ended.code == 1
    assert "OSError: a worker process ended before its work did: it was killed, or there was no memory" in ended.errors
    assert f"what is done is kept in {staging_of(store)}" in ended.errors
    wait_until(lambda: not processes_of(store))
    assert visible(store) == {}
    made = len(parts_of(store))
    assert made > 0
    convert(store, sources, workers=2, sizes=Sizes(**MANY_PARTS))
    convert(tmp_path / "whole.zarr", sources)
    assert files_of(store) == files_of(tmp_path / "whole.zarr")


def test_a_full_disk_ends_the_run_with_an_error_and_the_same_call_goes_on(tmp_path, monkeypatch):
    """Full at the first, the fifth and the fortieth file that is staged."""
    source = write_lines(tmp_path / "en.jsonl", [f"document {number}" for number in range(300)])
    convert(tmp_path / "whole.zarr", {"en": source})
    store = tmp_path / "s.zarr"
    fsync, synced = os.fsync, []
    for count in (1, 5, 40):
        synced.clear()

        def full(handle: int, count: int = count) -> None:
            synced.append(handle)
            if len(synced) == count:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            fsync(handle)

        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left on device") as failed:
            convert(store, {"en": source}, sizes=TINY, workers=1)

        assert Path(failed.value.filename).is_relative_to(staging_of(store))
        assert not [*staging_of(store).rglob("*.partial")]
    monkeypatch.setattr(os, "fsync", fsync)
    convert(store, {"en": source}, sizes=TINY)

    assert files_of(store) == files_of(tmp_path / "whole.zarr")


LITTLE_ROOM = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, 1_000_000))"


def test_a_shard_that_does_not_fit_ends_the_run_with_an_error_and_the_same_call_goes_on(tmp_path):
    """The parts are smaller than what a file may have, the shard is larger."""
    letters = np.random.default_rng(7).integers(97, 123, (30, 100_000), np.uint8)
    source = write_lines(tmp_path / "en.jsonl", [line.tobytes().decode() for line in letters])
    settings = {"workers": 1, "sizes": {"unit_bytes": 2**24, "part_documents": 3, "batch_documents": 3}}
    store = tmp_path / "s.zarr"

    ended = end(start_conversion(store, {"en": str(source)}, LITTLE_ROOM, **settings))

    assert ended.code == 1
    assert ended.errors.startswith("OSError: [Errno 27] File too large: ")
    assert f"{store}/en/.train.new/encoded_tokens" in ended.errors
    assert len(parts_of(store)) == 11  # the last, which says that all is done, is empty
    assert visible(store) == {}
    outputs(start_conversion(store, {"en": str(source)}, **settings))
    assert read_documents(store, "en") == utf8(*(line.tobytes().decode() for line in letters))
    assert not [*store.rglob(".*")]
    assert not [*store.rglob("*.__lock")]


def test_a_split_whose_attributes_cannot_be_written_is_none_for_readers_and_the_same_call_goes_on(
    tmp_path, monkeypatch
):
    source = write_lines(tmp_path / "en.jsonl", ["a", "b"])
    convert(tmp_path / "whole.zarr", {"en": source})
    store = tmp_path / "s.zarr"

    def full(group: object, attributes: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(store))

    with monkeypatch.context() as patch:
        patch.setattr(publish, "write_attributes", full)
        with pytest.raises(OSError, match="No space left on device"):
            convert(store, {"en": source}, workers=1)

    with pytest.raises(StoreError, match="no split 'train'"):
        open_store(store)["en"]["train"]
    convert(store, {"en": source}, workers=1)
    assert files_of(store) == files_of(tmp_path / "whole.zarr")


def test_a_second_conversion_of_a_split_is_refused_while_one_is_under_way_and_another_language_is_not(tmp_path):
    """The first is stopped in its midst, for as long as the others try."""
    sources = write_input(tmp_path / "in")
    other = str(write_lines(tmp_path / "other.jsonl", ["other"]))
    store = tmp_path / "s.zarr"
    run = start_conversion(store, sources, workers=1, sizes=MANY_PARTS)
    wait_until(lambda: parts_of(store))
    run.process.send_signal(signal.SIGSTOP)
    try:
        with pytest.raises(ConvertError, match="the same conversion is under way in another process"):
            convert(store, sources, workers=1, sizes=Sizes(**MANY_PARTS))
        with pytest.raises(ConvertError, match=r"fr/train of .* is being converted by another process"):
            convert(store, {"fr": other}, workers=1)
        convert(store, {"sw": other}, workers=1)
        assert read_documents(store, "sw") == utf8("other")
        assert set(visible(store)) == {"sw/train"}
    finally:
        assert kill(run)

    with pytest.raises(ConvertError, match="an unfinished conversion of fr/train is in"):
        convert(store, {"fr": other}, workers=1)
    convert(store, sources, workers=1, sizes=Sizes(**MANY_PARTS))
    convert(tmp_path / "whole.zarr", sources | {"sw": other})
    assert files_of(store) == files_of(tmp_path / "whole.zarr")


def test_two_languages_that_are_converted_into_one_store_at_once_are_both_complete(tmp_path):
    source = write_input(tmp_path / "in")["fr"]
    store = tmp_path / "s.zarr"

    outputs(*[start_conversion(store, {name: source}, workers=1, sizes=MANY_PARTS) for name in ("en", "fr")])

    for name in ("en", "fr"):
        convert(tmp_path / "whole.zarr", {name: source})
    assert files_of(store) == files_of(tmp_path / "whole.zarr")
    assert not staging_of(store).exists()
