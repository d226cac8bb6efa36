"""Run files: what they say becomes the settings, and what is wrong is refused with file, line and key."""

import re
from pathlib import Path

import pytest

from flatmix import FlatTokensParams, MixtureParams, TokenBatchParams
from flatmix.runfile import Run, read_run

LEAST = """\
[data]
store = "corpus.zarr"
[batch]
len = 8
batch = 6
[order]
seed = 7
streams = 2
[mixture.weights]
en = 1
"""

FULL = """\
[data]
store = "/data/corpus.zarr"
split = "validation"
language = "en"
vocab_size = 32_000

[data.storage]
retries = 3

[batch]
len = 8
batch = 12
extra_tokens = 1
stride = 8
packing = false

[order]
seed = "18446744073709551615"
streams = 2
selector = "balanced"
sequences_per_read_block = 4
read_blocks_per_shuffle_buffer = { en = 2, no = "auto" }

[order.keys]
no = 9_223_372_036_854_775_807
en = "9223372036854775808"

[mixture]
mode = "content"

[mixture.weights]
en = 0.6
no = 4

[[mixture.phases]]
step = 10
weights = { no = 1 }

[[mixture.phases]]
step = 20
[mixture.phases.weights]
sw = 0.5
en = 0.5

[mixture.byte_premiums]
en = 1
no = 1.1
sw = 1.05

[read]
memory_budget = 1_000_000
prefetch = 0
threads = 3

[[timeline]]
step = 0
slot = 0
batch = 6

[[timeline]]
step = 5
slot = 40
batch = 12
"""


@pytest.fixture
def read(tmp_path: Path):
    """Reads `text` as the run file run.toml."""

    def read_text(text: str) -> Run:
        file = tmp_path / "run.toml"
        file.write_text(text, encoding="utf-8")
        return read_run(file)

    return read_text


def test_a_short_run_file_has_the_defaults_of_the_settings(read, tmp_path: Path):
    assert read(LEAST) == Run(
        split="train",
        params=FlatTokensParams(str(tmp_path / "corpus.zarr"), streams=2, seed=7),
        mixture=MixtureParams({"en": 1.0}),
        token_batch_params=TokenBatchParams(len=8, batch=6),
        timeline=None,
    )


def test_a_full_run_file_says_every_setting(read):
    assert read(FULL) == Run(
        split="validation",
        params=FlatTokensParams(
            "/data/corpus.zarr",
            streams=2,
            seed=2**64 - 1,
            read_blocks_per_shuffle_buffer={"en": 2, "no": "auto"},
            sequences_per_read_block=4,
            sequence_packing=False,
            memory_budget=1_000_000,
            prefetch=0,
            threads=3,
            vocab_size=32_000,
            language="en",
            storage={"retries": 3},
        ),
        mixture=MixtureParams(
            {"en": 0.6, "no": 4.0},
            "balanced",
            [(10, {"no": 1.0}), (20, {"sw": 0.5, "en": 0.5})],
            {"no": 2**63 - 1, "en": 2**63},
            "content",
            {"en": 1.0, "no": 1.1, "sw": 1.05},
        ),
        token_batch_params=TokenBatchParams(len=8, batch=12, extra_tokens=1, stride=8),
        timeline=((0, 0, 6), (5, 40, 12)),
    )


def test_codes_of_languages_stay_text_and_in_sequence(read):
    """`no` is false in YAML, and others of these are numbers or booleans elsewhere."""
    codes = ["no", "on", "nan", "inf", "1e2", "true", "0x10", "2020-01-01", "null", "en"]
    weights = "".join(f"{code} = {number}\n" for number, code in enumerate(codes))
    run = read(LEAST.replace("en = 1\n", weights + '"zh.Hans" = 5\n"中文" = 6\n'))

    assert list(run.mixture.weights) == [*codes, "zh.Hans", "中文"]
    assert run.mixture.weights["no"] == 0.0
    assert run.mixture.weights["1e2"] == 4.0
    assert {type(weight) for weight in run.mixture.weights.values()} == {float}


def test_a_relative_store_stands_beside_its_run_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "run.toml").write_text(LEAST.replace('"corpus.zarr"', '"../corpus.zarr"'))
    monkeypatch.chdir(tmp_path)

    assert read_run("runs/run.toml").params.filespec == str(tmp_path / "runs" / ".." / "corpus.zarr")


@pytest.mark.parametrize("store", ["/data/corpus.zarr", "gs://bucket/corpus.zarr", "file:///data/corpus.zarr"])
def test_a_full_path_and_a_url_stay_as_they_are(read, store: str):
    assert read(LEAST.replace("corpus.zarr", store)).params.filespec == store


WRONG: dict[str, tuple[str, str, str]] = {
    # name of the case -> (what stands in LEAST, what stands there instead, the message after the file's path)
    "an unknown table": ("[data]", "[date]\nx = 1\n[data]", "line 1: date is not known: a run file takes data, batch"),
    "an unknown key": (
        "len = 8",
        "len = 8\nlenght = 8",
        "line 5: batch.lenght is not known: [batch] takes len, batch, extra_tokens, stride, packing",
    ),
    "an unknown key of a phase": (
        "[mixture.weights]",
        "[[mixture.phases]]\nstep = 3\nweight = 2\n[mixture.weights]",
        "line 11: mixture.phases[0].weight is not known: [mixture.phases] takes step, weights",
    ),
    "a missing table": ('[data]\nstore = "corpus.zarr"\n', "", ": data is missing: write [data]"),
    "a missing key": ("len = 8\n", "", "line 3: batch.len is missing"),
    "missing weights": ("[mixture.weights]\nen = 1\n", "[mixture]", "line 9: mixture.weights is missing"),
    "a missing key of a list": (
        "[batch]",
        "[[timeline]]\nstep = 0\nslot = 0\n[batch]",
        "line 3: timeline[0].batch is missing",
    ),
    "a number as text": ("len = 8", 'len = "8"', "line 4: batch.len must be int, not str"),
    "a fraction": ("len = 8", "len = 8.0", "line 4: batch.len must be int, not float"),
    "a truth value": ("batch = 6", "batch = true", "line 5: batch.batch must be int, not bool"),
    "a date": ('"corpus.zarr"', "2020-01-01", "line 2: data.store must be str, not date"),
    "a table for a list": (
        "[batch]",
        "[timeline]\nstep = 0\n[batch]",
        "line 3: timeline must be array, not table; write [[timeline]]",
    ),
    "a number for a table": ("[mixture.weights]\nen = 1", "[mixture]\nweights = 1", "mixture.weights must be table"),
    # weights
    "a weight that is nan": ("en = 1", "en = 1\nno = nan", "line 11: mixture.weights.no is nan: it must be finite"),
    "an infinite weight": ("en = 1", "en = inf", "line 10: mixture.weights.en is inf: it must be finite"),
    "a huge weight": ("en = 1", f"en = 1{'0' * 400}", "mixture.weights.en is 1000"),
    "a negative weight": ("en = 1", "en = -0.1", "line 10: mixture.weights.en is -0.1: it must be finite and not"),
    "a weight as text": ("en = 1", 'en = "1"', "line 10: mixture.weights.en is '1': a number is needed"),
    "a weight as truth value": ("en = 1", "en = true", "line 10: mixture.weights.en is True: a number is needed"),
    "a dot in a bare name": ("en = 1", "zh.Hans = 1", 'line 10: mixture.weights.zh is a table: a number is needed; '
                             'write a name that has a dot in quotes, "zh.Hans"'),
    "no weight at all": ("en = 1", "en = 0", "line 9: mixture.weights: the weights ('en': 0.0) have the sum 0.0"),
    "no language": ("en = 1", "", "line 9: mixture.weights: the weights (none) have the sum 0.0"),
    "a negative weight of a phase": (
        "[mixture.weights]",
        "[[mixture.phases]]\nstep = 3\n[mixture.phases.weights]\nsw = -1\n[mixture.weights]",
        "line 12: mixture.phases[0].weights.sw is -1: it must be finite",
    ),
    "a phase at step 0": (
        "[mixture.weights]",
        "[[mixture.phases]]\nstep = 0\nweights = { en = 1 }\n[mixture.weights]",
        "line 10: mixture.phases[0].step is 0: steps of phases rise, and the first is above 0",
    ),
    "an unknown mode": ("[mixture.weights]", "[mixture]\nmode = 'bytes'\n[mixture.weights]", "line 10: mode is 'byt"),
    "content without premiums": (
        "[mixture.weights]",
        "[mixture]\nmode = 'content'\n[mixture.weights]",
        'line 9: byte_premiums are None: mode "content" needs',
    ),
    "premiums without content": (
        "[mixture.weights]",
        "[mixture.byte_premiums]\nen = 1\n[mixture.weights]",
        'byte_premiums are given, and mode is "tokens"',
    ),
    "a premium of no language": (
        "[mixture.weights]",
        "[mixture.byte_premiums]\nsw = 1\n[mixture.weights]",
        "line 10: mixture.byte_premiums.sw is of no language of the mixture, which has 'en'",
    ),
    "a premium of 0": (
        "[mixture.weights]",
        "[mixture.byte_premiums]\nen = 0\n[mixture.weights]",
        "line 10: mixture.byte_premiums.en is 0: it must be above 0",
    ),
    # the order
    "a seed below 0": ("seed = 7", "seed = -1", "line 7: order.seed is -1: a whole number from 0 to 2^64 - 1"),
    "a seed of 65 bits": ("seed = 7", 'seed = "18446744073709551616"', "order.seed is '18446744073709551616': a whole"),
    "a seed in words": ("seed = 7", 'seed = "seven"', "line 7: order.seed is 'seven': a whole number from 0"),
    "a seed with a sign": ("seed = 7", 'seed = "+7"', "line 7: order.seed is '+7': a whole number from 0"),
    "a fraction as seed": ("seed = 7", "seed = 7.0", "line 7: order.seed must be int or str, not float"),
    "no streams": ("streams = 2", "streams = 0", "line 8: streams is 0: it must be at least 1"),
    "a batch off the streams": ("batch = 6", "batch = 7", "line 5: batch 7 (timeline entry 0) is no multiple of str"),
    "an unknown selector": ("streams = 2", "streams = 2\nselector = 'fair'", "line 9: selector is 'fair': take one of"),
    "a size of no language": (
        "streams = 2",
        "streams = 2\nsequences_per_read_block = { sw = 1 }",
        "line 9: order.sequences_per_read_block.sw is of no language of the mixture",
    ),
    "a size of 0": (
        "streams = 2",
        "streams = 2\nread_blocks_per_shuffle_buffer = 0",
        'line 9: order.read_blocks_per_shuffle_buffer is 0: take a number above 0, "auto", or a table of languages',
    ),
    "a size in words": (
        "streams = 2",
        "streams = 2\nsequences_per_read_block = { en = 'big' }",
        "line 9: order.sequences_per_read_block.en is 'big': take a number above 0",
    ),
    "a size as truth value": (
        "streams = 2",
        "streams = 2\nsequences_per_read_block = { en = true }",
        "line 9: order.sequences_per_read_block.en is True: take a number above 0",
    ),
    "a negative key": ("streams = 2", "streams = 2\nkeys.en = -1", "line 9: order.keys.en is -1: a whole number fr"),
    "a key of no language": ("streams = 2", "streams = 2\nkeys.sw = 1", "line 9: order.keys.sw is of no language"),
    # the rest
    "a len of 0": ("len = 8", "len = 0", "line 4: len is 0: it must be at least 1"),
    "an empty store": ('"corpus.zarr"', '""', "line 2: data.store is empty: the path of a store is needed"),
    "a budget in words": ("[batch]", "[read]\nmemory_budget = '1GB'\n[batch]", "line 4: memory_budget is '1GB': take"),
    "negative prefetch": ("[batch]", "[read]\nprefetch = -1\n[batch]", "line 4: prefetch is -1: it must be at least 0"),
    "a vocabulary of 0": ("[batch]", "vocab_size = 0\n[batch]", "line 3: vocab_size is 0: it must be at least 1"),
    "a timeline that ends in another batch": (
        "[batch]",
        "[[timeline]]\nstep = 0\nslot = 0\nbatch = 8\n[batch]",
        "line 6: timeline[0].batch is 8, and batch.batch 6: the last entry's must be equal to it",
    ),
    "a timeline off the streams": (
        "[batch]",
        "[[timeline]]\nstep = 0\nslot = 0\nbatch = 6\n[[timeline]]\nstep = 5\nslot = 31\nbatch = 6\n[batch]",
        ": first slot 31 (timeline entry 1) is no multiple of streams=2: take 30 or 32",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_refused_with_file_line_and_key(read, tmp_path: Path, case: str):
    old, new, message = WRONG[case]
    assert LEAST.count(old) == 1

    with pytest.raises(ValueError, match=f"^{re.escape(str(tmp_path / 'run.toml'))}[,:] ") as error:
        read(LEAST.replace(old, new))

    assert message in str(error.value)
    assert str(error.value).count("run.toml") == 1


def test_broken_syntax_is_refused_with_its_line(read):
    with pytest.raises(ValueError, match=r"run\.toml is not TOML: .*\(at line 4, column 7\)"):
        read(LEAST.replace("len = 8", "len = "))


def test_a_store_in_place_of_a_run_file_is_refused(standard: str):
    with pytest.raises(ValueError, match=r"std\.zarr is a folder: a TOML file is needed"):
        read_run(standard)
