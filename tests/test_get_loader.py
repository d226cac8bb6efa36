"""`get_loader` gives the loader that the settings give, whether they come as objects or in a run file."""

from pathlib import Path

import pytest
from stores import STD, WEIGHTS, assert_same, loader, num, params, standard_store, write_store
from typeguard import suppress_type_checks

from flatmix import MixtureParams, TokenBatchParams, get_loader, open_store
from flatmix.mixing import token_weights
from flatmix.store.writer import SplitWriter

SHAPE = TokenBatchParams(8, 8)

RUN = """\
[data]
store = "std.zarr"
[batch]
len = 8
batch = 8
[order]
seed = 7
streams = 1
sequences_per_read_block = 4
read_blocks_per_shuffle_buffer = 2
[mixture.weights]
en = 0.6
ar = 0.3
sw = 0.1
"""


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    """A run file of the standard loader, beside its store."""
    standard_store(tmp_path / "std.zarr")
    file = tmp_path / "run.toml"
    file.write_text(RUN)
    return file


def test_settings_as_objects_give_their_loader(standard: str):
    with get_loader("train", params(standard), SHAPE, MixtureParams(WEIGHTS)) as own, loader(standard) as expected:
        for step in (0, 7, 100):
            assert_same(expected.load_host(step), own.load_host(step))
            assert_same(expected.load(step), own.load(step))
        assert own.state(7) == expected.state(7)


@pytest.mark.parametrize("kind", [str, Path])
def test_a_run_file_gives_its_loader(run_file: Path, standard: str, kind: type):
    with get_loader(None, kind(run_file)) as own, loader(standard) as expected:
        assert_same(expected.load_host(100), own.load_host(100))
        assert own.state(100) == expected.state(100)


def test_a_run_file_of_everything_gives_its_loader(run_file: Path, standard: str):
    """Phases, timeline, keys, selector and the shape of windows reach the order."""
    run_file.write_text(
        RUN.replace("[order]", 'extra_tokens = 1\nstride = 4\n[order]\nselector = "balanced"\nkeys = { ar = 5 }')
        + "[[mixture.phases]]\nstep = 20\nweights = { sw = 1, en = 1 }\n"
        + "[[timeline]]\nstep = 0\nslot = 0\nbatch = 4\n[[timeline]]\nstep = 10\nslot = 80\nbatch = 8\n"
    )
    expected = loader(
        standard,
        extra_tokens=1,
        stride=4,
        selector="balanced",
        keys={"ar": 5},
        phases=[(20, {"sw": 1, "en": 1})],
        timeline=[(0, 0, 4), (10, 80, 8)],
    )

    own = get_loader(None, run_file)

    for step in (3, 12, 25):
        assert_same(expected.load_host(step), own.load_host(step))
    assert own.state(25) == expected.state(25)


def test_what_is_given_counts_and_not_the_run_file(run_file: Path, standard: str, tmp_path: Path):
    mixture, shape = MixtureParams({"ar": 1, "en": 1}), TokenBatchParams(8, 4)
    write_store(tmp_path / "std.zarr", {"en": num(200, 100), "ar": num(200, 500)}, split="validation")

    own = get_loader("validation", run_file, shape, mixture)
    direct = get_loader("validation", params(tmp_path / "std.zarr"), shape, mixture)

    assert_same(direct.load_host(3), own.load_host(3))
    assert own.languages == ("ar", "en")
    assert own.load_host(3).targets.shape == (4, 8)


def test_the_only_language_of_a_store_needs_no_mixture(tmp_path: Path):
    store = write_store(tmp_path / "s.zarr", {"en": STD["en"]})

    with get_loader("train", params(store), SHAPE) as own, loader(store, {"en": 1}) as expected:
        assert_same(expected.load_host(3), own.load_host(3))


def test_several_languages_without_a_mixture_are_listed(standard: str, tmp_path: Path):
    with pytest.raises(
        ValueError, match=r"std\.zarr has 3 languages, 'ar', 'en', 'sw': say how much of each .*'ar': 0"
    ):
        get_loader("train", params(standard), SHAPE)
    many = write_store(tmp_path / "many.zarr", {f"l{number:02}": [[1]] for number in range(23)})
    with pytest.raises(ValueError, match=r"has 23 languages, 'l00', .*'l19' and 3 more: say"):
        get_loader("train", params(many), SHAPE)


def test_shares_of_content_reach_the_order(tmp_path: Path):
    store = tmp_path / "s.zarr"
    for language, utf8_bytes in (("en", 2560), ("hi", 1280)):
        with SplitWriter(store, language, "train") as writer:
            writer.add(num(640, 0)[0], utf8_bytes)
            writer.finish()
    mixture = MixtureParams({"en": 0.5, "hi": 0.5}, mode="content", byte_premiums={"en": 1, "hi": 2})

    own = get_loader("train", params(store), SHAPE, mixture)
    solved = token_weights(mixture, open_store(store).open(["en", "hi"], "train"))
    expected = get_loader("train", params(store), SHAPE, solved)

    assert solved.weights == {"en": 0.2, "hi": 0.8}
    assert_same(expected.load_host(30), own.load_host(30))
    assert own.state(30) == expected.state(30)
    assert own.stats(500)["hi"]["rows"] == pytest.approx(0.8 * 4000, abs=150)


def test_what_is_missing_or_wrong_is_refused_by_name(run_file: Path, standard: str):
    """Without the types that tests instrument, so that the checks are flatmix's own."""
    run_file.write_text(RUN + "[[timeline]]\nstep = 0\nslot = 0\nbatch = 8\n")

    for arguments, message in (
        ((None, params(standard), SHAPE), "split is None: only a run file can stand in for it, and config is none"),
        (("train", params(standard)), "token_batch_params is None: only a run file can stand in for it, and config"),
        (
            ("train", {"store": 1}, SHAPE),
            r"config is \{'store': 1\}: FlatTokensParams, HuggingFaceDataParams or the path of a run file is need",
        ),
        (("train", standard, SHAPE), r"std\.zarr is a folder: a TOML file is needed"),
        (
            (None, run_file, TokenBatchParams(8, 4)),
            "batch is 4, and 8 in the timeline's last entry: they must be equal",
        ),
    ):
        with pytest.raises(ValueError, match=message), suppress_type_checks():
            get_loader(*arguments)
    with pytest.raises(FileNotFoundError, match=r"none\.toml"):
        get_loader("train", run_file.with_name("none.toml"))
