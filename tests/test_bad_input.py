"""What a loader refuses, when it is built or called: by name, with the way out, before anything is read.

The checks run in interpreters of their own, without instrumented types, and once more under `python -O`, which removes
assertions: every case is an expression here, and its error is what comes back.
"""

import json
import re
from pathlib import Path

import pytest
from processes import outputs, run_python
from stores import STD, assert_same, chunks_of, loader, num, write_store

from flatmix.store.writer import SplitWriter

NAN, INF = 'float("nan")', 'float("inf")'

# name of the case -> (expression, words of the message)
REFUSED: dict[str, tuple[str, str]] = {
    # the store
    "no store": ("loader('/nowhere/at/all.zarr')", r"StoreError: no store at /nowhere/at/all.zarr: nothing is there"),
    "an empty path": ("loader('')", r"filespec is '': text or a path is needed"),
    "another folder": ("loader(store + '/en')", r"StoreError: .*/en is not a flat-tokens store"),
    "an object store": (
        "loader('gs://bucket/corpus.zarr')",
        r"StoreError: gs://bucket/corpus.zarr: only local folders",
    ),
    "storage": ("loader(store, storage={'retries': 3})", r"StoreError: storage settings are for object stores"),
    "an older store": ("loader(store, language='en')", r"StoreError: language='en': stores older than format 1"),
    "an unknown language": (
        "loader(store, {'en': 1, 'xx': 1})",
        r"StoreError: no language 'xx' in store .*; its languages are 'ar', 'en', 'sw', 'ti', 'void'",
    ),
    "an unknown language of weight 0": ("loader(store, {'en': 1, 'xx': 0})", r"StoreError: no language 'xx'"),
    "an unknown language of a phase": ("loader(store, phases=[(5, {'xx': 1})])", r"StoreError: no language 'xx'"),
    "no such split": (
        "loader(store, split='test')",
        r"StoreError: language 'en' of store .* has no split 'test'; its splits are 'train'",
    ),
    "a path as language": (
        "loader(store, {'../std.zarr/en': 1})",
        r"'\.\./std\.zarr/en' cannot name a language: it holds one of",
    ),
    "the parent as language": ("loader(store, {'..': 1})", r"'\.\.' cannot name a language: it begins with"),
    "a path as split": ("loader(store, split='../en/train')", r"'\.\./en/train' cannot name a split: it holds one of"),
    "an empty language": ("loader(store, {'': 1})", r"'' cannot name a language: it is empty"),
    "an empty split": ("loader(store, split='')", r"'' cannot name a split: it is empty"),
    "a language that is no string": (
        "loader(store, {False: 1, 'en': 1})",
        r"a language of the mixture is False: names are strings",
    ),
    # weights
    "no weights": ("loader(store, {})", r"weights are \{\}: a mapping of at least one language"),
    "a negative weight": ("loader(store, {'en': -.1, 'ar': 1.1})", r"'en' is -0.1"),
    "weights of 0": ("loader(store, {'en': 0, 'ar': 0})", r"mixture from slot 0 on.*'en'.*'ar'"),
    "a weight that is no number": (f"loader(store, {{'en': {NAN}, 'ar': 1}})", r"'en' is nan"),
    "an infinite weight": (f"loader(store, {{'en': {INF}, 'ar': 1}})", r"'en' is inf"),
    "weights whose sum is infinite": (
        "loader(store, {'en': 1e308, 'ar': 1e308})",
        r"mixture from slot 0 on.*(sum|add)",
    ),
    "a weight as text": ("loader(store, {'en': '1'})", r"'en' is '1'"),
    "a negative weight of a phase": ("loader(store, phases=[(5, {'sw': -1})])", r"mixture from slot 40 on.*'sw' is -1"),
    "a phase of 0": ("loader(store, phases=[(5, {'sw': 0})])", r"mixture from slot 40 on"),
    "phases out of sequence": (
        "loader(store, phases=[(5, {'sw': 1}), (4, {'sw': 1})])",
        r"phase 1 begins at step 4, and the one before it at 5: steps rise",
    ),
    "a phase at step 0": ("loader(store, phases=[(0, {'sw': 1})])", r"the step of phase 0 is 0: it must be at least 1"),
    "a phase at no step": ("loader(store, phases=[(-1, {'sw': 1})])", r"the step of phase 0 is -1"),
    "an unknown selector": ("loader(store, selector='random')", r"selector is 'random': take one of hash, balanced"),
    "a key of an unknown language": (
        "loader(store, keys={'xx': 1})",
        r"keys: unknown language 'xx'; there are 'en', 'ar', 'sw'",
    ),
    "a negative key": ("loader(store, keys={'en': -1})", r"the key of 'en' is -1: it must be at least 0"),
    # sizes
    "a seed below 0": ("loader(store, seed=-1)", r"seed is -1: it must be at least 0"),
    "a seed of 65 bits": ("loader(store, seed=2**64)", r"seed is 18446744073709551616: it must be below 2\^64"),
    "a seed that is no whole number": ("loader(store, seed=7.0)", r"seed is 7.0: a whole number is needed"),
    "a seed as text": ("loader(store, seed='7')", r"seed is '7': a whole number is needed"),
    "no streams": ("loader(store, streams=0)", r"streams is 0: it must be at least 1"),
    "a batch no multiple of the streams": (
        "loader(store, {'en': 1}, batch=10, streams=4)",
        r"batch 10 .* is no multiple of streams=4: take 8 or 12",
    ),
    "fewer windows than streams": (
        "loader(store, {'sw': 1}, streams=8, sequences_per_read_block='auto')",
        r"language 'sw' has 4 windows: 8 streams .* need at least 8; take fewer streams",
    ),
    "fewer blocks than streams": (
        "loader(store, streams=2)",
        r"language 'sw' has 4 windows: 2 streams with read blocks of 4 .* need at least 8; take fewer streams, smaller",
    ),
    "less than a window": (
        "loader(store, {**weights, 'ti': .1})",
        r"language 'ti' has 7 tokens, and one window needs 8: shorten the windows, or leave the language out",
    ),
    "less than a window with an extra token": (
        "loader(store, {'ti': 1}, len=7, extra_tokens=1)",
        r"language 'ti' has 7 tokens, and one window needs 8",
    ),
    "a split without tokens": ("loader(store, {'void': 1})", r"language 'void' has 0 tokens, and one window needs 8"),
    "a len of 0": ("loader(store, len=0)", r"len is 0: it must be at least 1"),
    "a len that is no whole number": ("loader(store, len=8.0)", r"len is 8.0: a whole number is needed"),
    "a batch of 0": ("loader(store, batch=0)", r"batch is 0: it must be at least 1"),
    "a batch that is true": ("loader(store, batch=True)", r"batch is True: a whole number is needed"),
    "a stride of 0": ("loader(store, stride=0)", r"stride is 0: it must be at least 1"),
    "a negative stride": ("loader(store, stride=-8)", r"stride is -8: it must be at least 1"),
    "negative extra tokens": ("loader(store, extra_tokens=-1)", r"extra_tokens is -1: it must be at least 0"),
    "a block of 0": (
        "loader(store, sequences_per_read_block=0)",
        r"sequences_per_read_block of 'en' is 0: it must be at least 1",
    ),
    "a block of an unknown language": (
        "loader(store, sequences_per_read_block={'xx': 4})",
        r"sequences_per_read_block: unknown language 'xx'; there are 'en', 'ar', 'sw'",
    ),
    "a buffer in words": (
        "loader(store, read_blocks_per_shuffle_buffer='large')",
        r"read_blocks_per_shuffle_buffer of 'en' is 'large': take a number, \"auto\"",
    ),
    "a stride between documents": (
        "loader(store, sequence_packing=False, stride=4)",
        r"stride=4 with sequence_packing=False: .* leave the stride out",
    ),
    # what reading may use
    "a negative budget": ("loader(store, memory_budget=-1)", r"memory_budget is -1: it must be at least 0"),
    "a budget in words": (
        "loader(store, memory_budget='1GB')",
        r"memory_budget is '1GB': take a number of bytes or \"auto\"",
    ),
    "negative prefetch": ("loader(store, prefetch=-1)", r"prefetch is -1: it must be at least 0"),
    "no threads": ("loader(store, threads=0)", r"threads is 0: it must be at least 1"),
    "a vocabulary of 0": ("loader(store, vocab_size=0)", r"vocab_size is 0: it must be at least 1"),
    "ids beyond the vocabulary": (
        "loader(store, vocab_size=5000)",
        r"StoreError: language 'ar' has ids up to 5319, and vocab_size is 5000: take at least 5320",
    ),
    # the timeline and the sharding
    "a timeline that ends in another batch": (
        "loader(store, timeline=[(0, 0, 8), (5, 40, 16)])",
        r"batch is 8, and 16 in the timeline's last entry: they must be equal",
    ),
    "a timeline that begins late": ("loader(store, timeline=[(1, 0, 8)])", r"its first entry must be \(0, 0, batch\)"),
    "a timeline out of sequence": (
        "loader(store, timeline=[(0, 0, 8), (5, 40, 8), (5, 48, 8)])",
        r"timeline entry 2 is \(5, 48, 8\) after \(5, 40, 8\): first steps must be strictly increasing",
    ),
    "an empty timeline": ("loader(store, timeline=[])", r"its first entry must be \(0, 0, batch\)"),
    "a timeline off the streams": (
        "loader(store, {'en': 1}, streams=4, batch=8, timeline=[(0, 0, 8), (5, 42, 8)])",
        r"first slot 42 \(timeline entry 1\) is no multiple of streams=4: take 40 or 44",
    ),
    "a batch that the mesh does not divide": (
        "loader(store, batch=6, sharding=sharding(P('data')))",
        r"a batch of 6 rows does not divide into 4 parts over the mesh axes data .*: take a multiple of 4",
    ),
    "columns that the mesh does not divide": (
        "loader(store, len=7, sharding=sharding(P('data', 'model')))",
        r"a row of 7 tokens does not divide into 2 parts over the mesh axes model of .*: take a multiple of 2",
    ),
    "a device as sharding": ("loader(store, sharding=jax.devices()[0])", r"a jax.sharding.NamedSharding is needed"),
    # steps
    **{
        f"{value} for {call}": (f"own.{call.format(value)}", rf"(step|start|stop) is {re.escape(value)}: {words}")
        for call in ("load({})", "load_host({})", "steps({})", "steps(0, {})", "state({})", "stats({})")
        for value, words in (
            ("-1", "it must be at least 0"),
            ("1.5", "a whole number is needed"),
            ("True", "a whole number is needed"),
            ("'3'", "a whole number is needed"),
        )
    },
    "a step beyond all slots": ("own.load_host(2**60)", r"step 1152921504606846976 has slot .*: slots up to 2\^62"),
    "a negative row": ("own.load_host(0, [-1])", r"rows are \[-1\]: step 0 has the rows 0 to 7"),
    "a row beyond the batch": ("own.load_host(2, [8])", r"rows are \[8\]: step 2 has the rows 0 to 7"),
    "a row that is no whole number": ("own.load_host(2, [1.5])", r"rows .*1.5.*whole number"),
    "a row that is true": ("own.load_host(2, [True])", r"rows .*True.*whole number"),
    # states
    "a list as state": (
        "own.restore([1])",
        r"StateError: a state of version None was given: this flatmix restores version 1",
    ),
    "a state of another version": ("own.restore({'version': 9})", r"StateError: a state of version 9 was given"),
    "a damaged state": ("own.restore({**own.state(3), 'slot': '24'})", r"StateError: the state is damaged: .*slot"),
    "a state of another run": (
        "own.restore(loader(store, seed=8).state(3))",
        r"StateError: .* seed: '8' in the state, '7' here",
    ),
}

PROBE = """
import json, sys
import jax
from jax.sharding import NamedSharding, PartitionSpec as P
from flatmix.store.split import Split
from stores import WEIGHTS as weights, loader

def sharding(spec):
    return NamedSharding(jax.make_mesh((4, 2), ("data", "model")), spec)

store, cases = sys.argv[1], json.loads(sys.argv[2])
own = loader(store)
reads = []
reader = Split.reader
Split.reader = lambda self, threads=None: reads.append(self.language) or reader(self, threads)
answers = {}
for name, expression in cases.items():
    try:
        eval(expression)
    except Exception as error:
        kinds = [kind.__name__ for kind in type(error).__mro__]
        answers[name] = f"{kinds} {type(error).__name__}: {error}"
    else:
        answers[name] = "[] nothing was refused"
    if reads and expression.startswith("loader"):
        answers[name] = f"[] readers were made before it was refused: {reads}"
    reads.clear()
print(json.dumps(answers))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, str]]:
    """The error of each case, of plain Python and of Python without assertions."""
    store = write_store(tmp_path_factory.mktemp("bad") / "std.zarr", {**STD, "ti": num(7, 100), "void": [[]]})
    cases = json.dumps({name: expression for name, (expression, _) in REFUSED.items()})
    runs = {kind: run_python(PROBE, store, cases, options=options) for kind, options in (("", ()), ("-O", ("-O",)))}
    return {kind: json.loads(output) for kind, output in zip(runs, outputs(*runs.values()), strict=True)}


@pytest.mark.parametrize("options", ["", "-O"])
@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_by_name(answers: dict[str, dict[str, str]], case: str, options: str):
    kinds, _, message = answers[options][case].partition("] ")
    _, words = REFUSED[case]
    assert re.search(words, message, re.DOTALL), message
    assert "'ValueError'" in kinds, message


def test_what_looks_odd_and_is_right_is_taken(tmp_path: Path):
    """Weights that are whole numbers, or do not add up to 1."""

    store = write_store(tmp_path / "s.zarr", STD)
    standard = loader(store)
    assert_same(standard.load_host(9), loader(store, {"en": 6, "ar": 3, "sw": 1}).load_host(9))
    assert_same(loader(store, {"en": 0.5, "ar": 0.4}).load_host(9), loader(store, {"en": 0.25, "ar": 0.2}).load_host(9))
    names = [f"l{number}" for number in range(10)]
    ten = loader(write_store(tmp_path / "ten.zarr", {name: num(80, 0) for name in names}), dict.fromkeys(names, 0.1))
    assert ten.load_host(0).targets.shape == (8, 8)


def test_an_incomplete_split_is_refused(tmp_path: Path):
    from stores import loader

    store = write_store(tmp_path / "s.zarr", {"en": num(640, 0)})
    with chunks_of(50), SplitWriter(store, "ar", "train") as writer:
        writer.add([1, 2, 3])
    with pytest.raises(ValueError, match=r"language 'ar', split 'train' of store .* was not completed"):
        loader(store, {"en": 1, "ar": 1})


NUMPY = """
import json, sys
import numpy as np
from stores import FIELDS, WEIGHTS, loader
one = loader(sys.argv[1])
other = loader(
    sys.argv[1], {"en": np.float64(0.6), "ar": np.float64(0.3), "sw": np.float32(0.5) / 5}, len=np.int64(8),
    batch=np.uint8(8), seed=np.uint64(7), streams=np.int32(1), sequences_per_read_block=np.int64(4),
    read_blocks_per_shuffle_buffer=np.int16(2), timeline=np.array([[0, 0, 8]]), phases=[(np.int64(50), WEIGHTS)],
)
for step in (np.int64(3), np.uint8(4)):
    assert all((getattr(one.load_host(step), name) == getattr(other.load(step), name)).all() for name in FIELDS)
state = json.loads(json.dumps(other.state(np.int32(9))))
assert state == other.state(9)
assert {type(weight) for weight in state["phases"][0][1]} == {float}
assert other.restore(state) == 9
assert {type(value) for of in other.stats(np.int64(9)).values() for value in of.values()} == {int, float}
"""


def test_numpy_numbers_are_numbers(tmp_path: Path):
    assert outputs(run_python(NUMPY, write_store(tmp_path / "s.zarr", STD)))[0] == ""
