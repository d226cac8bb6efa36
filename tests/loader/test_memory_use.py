"""What a loader takes of a process, each in a process of its own: memory, threads, open files, and its end."""

import json
from typing import Any

import pytest
from processes import outputs, run_python

MEMORY = """
import json, os, sys, threading, time
import numpy as np, stores
from flatmix.store.writer import SplitWriter

store, languages, blocks, len_, steps, batch = sys.argv[1], *map(int, sys.argv[2:])
names = [f"l{number}" for number in range(languages)]
windows = blocks * 16
with stores.chunks_of(2**14):
    for name in names:
        with SplitWriter(store, name, "train") as writer:
            ids = np.arange(len_, dtype=np.uint32)
            for window in range(2 * windows):
                writer.add_many(ids, np.array([len_]))
            writer.finish()

def anonymous():
    lines = dict(line.split(":", 1) for line in open("/proc/self/status"))
    return 1024 * int(lines["RssAnon"].split()[0])

def new_loader(blocks):
    return stores.loader(
        store, dict.fromkeys(names, 1), len=len_, batch=batch, sequences_per_read_block=16,
        read_blocks_per_shuffle_buffer=blocks, threads=2,
    )

with new_loader(1) as small:  # so that what is taken at first use is there
    for step in range(20):
        small.load_host(step)
base, peak, ended = anonymous(), [0], threading.Event()

def watch():
    while not ended.wait(0.003):
        peak[0] = max(peak[0], anonymous())

watcher = threading.Thread(target=watch)
watcher.start()
own = new_loader(blocks)
for step in range(steps):
    own.load_host(step)
ended.set()
watcher.join()
print(json.dumps({
    "peak": peak[0] - base, "buffers": own.memory()["buffers"],
    "whole": sum(language["whole"] for language in own.memory()["languages"].values()),
    "filled": own.metrics()["buffers_filled"],
}))
"""


@pytest.mark.parametrize(("languages", "blocks"), [(1, 64), (3, 16)])
def test_memory_stays_within_fifteen_percent_of_the_buffers(tmp_path: Any, languages: int, blocks: int):
    """1,024 windows of 16,384 tokens, 64 MB, or three buffers of a quarter of that, filled more than three times."""
    len_, batch = 2**14, 16
    steps = 4 * languages * blocks * 16 // batch
    run = run_python(MEMORY, tmp_path / "s.zarr", languages, blocks, len_, steps, batch, limit=120)
    found = json.loads(outputs(run)[0])
    block, rows = 4 * 16 * len_, 4 * batch * len_
    assert found["whole"] == languages * blocks * block
    assert found["filled"] >= 3 * languages
    # One batch as it is read and two decoded, at 10 bytes a token; the blocks of two threads, and a chunk each.
    assert found["peak"] <= 1.15 * found["whole"] + 2 * block + 2 * 2**16 + 5.5 * rows
    assert found["buffers"] <= 1.15 * found["whole"] + 2 * block


MANY = """
import json, resource, sys, threading, time
import numpy as np, stores
from flatmix.store.writer import SplitWriter

resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
counts, most = {}, {}

def threads():
    return len(open("/proc/self/stat").read()) and len(__import__("os").listdir("/proc/self/task"))

store = sys.argv[1]
names = [f"l{number:02}" for number in range(20)]
with stores.chunks_of(2**14):
    for name in names:
        with SplitWriter(store, name, "train") as writer:
            writer.add_many(np.arange(256 * 4 * 64, dtype=np.uint32), np.array([256 * 4 * 64]))
            writer.finish()
begun = set(threading.enumerate())
for count in (20, 2, 20):
    own = stores.loader(
        store, dict.fromkeys(names[:count], 1), len=64, batch=256, sequences_per_read_block=4,
        read_blocks_per_shuffle_buffer=256, threads=4, prefetch=2,
    )
    peak, fill = 0, 0.0
    for step, batch in enumerate(own.steps(0, 6 * count)):
        peak, fill = max(peak, threads()), max(fill, own.metrics()["buffer_fill"])
    counts.setdefault(count, []).append(peak)
    most[count] = fill
    own.close()
deadline = time.monotonic() + 5
while set(threading.enumerate()) - begun and time.monotonic() < deadline:
    time.sleep(0.01)
left = [thread.name for thread in set(threading.enumerate()) - begun if thread.name.startswith("flatmix")]
print(json.dumps({"counts": counts, "fill": most, "left": left}), flush=True)
open(sys.argv[2], "w").write(repr(time.time()))
"""


def test_threads_and_files_do_not_grow_with_languages_and_none_is_left(tmp_path: Any):
    """20 languages with 256 blocks a buffer, at most 256 open files; the interpreter ends after them at once."""
    import time

    run = run_python(MANY, tmp_path / "s.zarr", tmp_path / "ended", limit=120)
    found = json.loads(outputs(run)[0])
    assert time.time() - float((tmp_path / "ended").read_text()) < 5
    assert found["left"] == []
    assert min(found["fill"].values()) > 0.5
    first, again = found["counts"]["20"]
    assert again <= first + 2  # a loader leaves none behind; the reader's own pool may still grow by one or two
    assert abs(found["counts"]["2"][0] - again) <= 4
