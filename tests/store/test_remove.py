"""Removing splits and languages: what goes, what stays, and what a removal that was killed leaves."""

import shutil
from pathlib import Path

import pytest
from helpers import documents_of, files_of, write_split
from older_stores import older_store

from flatmix.errors import ConvertError, StoreError
from flatmix.store import claim, open_store
from flatmix.store import remove as removing
from flatmix.store.remove import remove, what_would_go
from flatmix.store.writer import SplitWriter


@pytest.fixture(scope="module", params=[3, 2])
def written(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store that stays as it is."""
    path = tmp_path_factory.mktemp("remove") / "s"
    for language, split in (("en", "train"), ("en", "validation"), ("sw", "train")):
        write_split(path, [[1, 2], [3]], language, split, zarr_format=request.param)
    return path


@pytest.fixture
def store(tmp_path: Path, written: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "s"))


def rest(store: Path, *gone: str) -> dict[str, bytes]:
    return {name: content for name, content in files_of(store).items() if not name.startswith(gone)}


def test_a_split_goes_and_nothing_else(store: Path) -> None:
    expected = rest(store, "en/validation/")
    removal = remove(store, "en", "validation")

    assert files_of(store) == expected
    assert not (store / "en/validation").exists()
    assert [(one.name, one.tokens, one.documents) for one in removal.splits] == [("validation", 3, 2)]


def test_a_language_goes_with_all_its_splits(store: Path) -> None:
    expected = rest(store, "en/")
    assert [one.name for one in remove(store, "en").splits] == ["train", "validation"]

    assert files_of(store) == expected
    assert open_store(store).languages == ("sw",)
    assert not (store / "en").exists()


def test_what_would_go_is_told_without_touching_it(store: Path) -> None:
    before = files_of(store)
    removal = what_would_go(store, "en")

    assert files_of(store) == before
    sizes = [
        sum(len(data) for name, data in before.items() if name.startswith(f"en/{one.name}/")) for one in removal.splits
    ]
    assert [one.bytes_on_disk for one in removal.splits] == sizes
    assert removal.whole
    assert not what_would_go(store, "en", "train").whole


def test_the_last_split_leaves_a_language_that_can_be_removed(store: Path) -> None:
    remove(store, "sw", "train")
    assert open_store(store)["sw"].splits == ()
    remove(store, "sw")
    assert open_store(store).languages == ("en",)


def test_incomplete_and_damaged_splits_go_too(store: Path) -> None:
    with SplitWriter(store, "en", "test", zarr_format=open_store(store).zarr_format) as writer:
        writer.add([1])
    for name in ("zarr.json", ".zgroup"):
        if (store / "en/train" / name).exists():
            (store / "en/train" / name).write_text("{")
    removal = remove(store, "en")

    assert [(one.name, one.tokens) for one in removal.splits] == [("test", None), ("train", None), ("validation", 3)]
    assert not (store / "en").exists()


@pytest.mark.parametrize("whole", [False, True])
def test_a_removal_that_is_killed_leaves_no_split_and_goes_on_when_asked_again(
    store: Path, whole: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    split = None if whole else "validation"
    expected = rest(store, "en/" if whole else "en/validation/")
    steps, killed = 0, 0

    def some_more(real: str, folder: Path) -> None:
        """Deletes as rmtree does, one thing after another, until it is killed."""
        nonlocal steps
        for path in sorted(folder.rglob("*"), reverse=True):
            if steps == 0:
                raise KeyboardInterrupt
            steps -= 1
            path.rmdir() if path.is_dir() else path.unlink()
        folder.rmdir()

    monkeypatch.setattr(claim.shutil, "rmtree", lambda folder: some_more("rmtree", folder))
    while killed < 40:
        steps = 2
        try:
            remove(store, "en", split)
            break
        except KeyboardInterrupt:
            killed += 1
        if (store / "en").exists():
            for name in open_store(store)["en"].splits:
                assert documents_of(open_store(store)["en"][name]) == [[1, 2], [3]]  # whole, or no split
    assert killed > 2
    assert files_of(store) == expected


def test_an_empty_folder_of_a_language_is_what_a_killed_removal_left(store: Path) -> None:
    remove(store, "en")
    (store / "en").mkdir()
    remove(store, "en")
    assert not (store / "en").exists()


def test_leftovers_of_a_killed_conversion_go_before_their_split(store: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or else the next writer would take the old one for what it has to put back."""
    shutil.copytree(store / "en/train", store / "en/.train.old")
    shutil.copytree(store / "en/train", store / "en/.train.new")
    gone: list[str] = []
    real = removing.remove_group
    monkeypatch.setattr(removing, "remove_group", lambda folder: (gone.append(folder.name), real(folder)))
    remove(store, "en", "train")

    assert gone == [".train.new", ".train.old", "train"]
    assert sorted(path.name for path in (store / "en").iterdir() if not path.name.startswith(".z")) in (
        ["validation", "zarr.json"],
        ["validation"],
    )


def test_a_split_that_a_conversion_has_left_moved_away_goes(store: Path) -> None:
    (store / "en/train").rename(store / "en/.train.old")
    remove(store, "en", "train")
    assert not (store / "en/.train.old").exists()


@pytest.mark.parametrize("split", ["train", None])
def test_nothing_goes_while_a_writer_has_a_split(store: Path, split: str | None) -> None:
    words = "language 'en', split 'train' of store .* is being written; wait until it is done, or end its writer"
    with SplitWriter(store, "en", "train", replace=True, zarr_format=open_store(store).zarr_format):
        before = files_of(store)
        for attempt in (what_would_go, remove):
            with pytest.raises(StoreError, match=words):
                attempt(store, "en", split)
        assert files_of(store) == before
        remove(store, "en", "validation")


@pytest.mark.parametrize(
    "foreign", ["en/train/mine.txt", "en/train/encoded_tokens/mine.txt", "en/mine.txt", "en/mine/x"]
)
def test_nothing_goes_where_something_foreign_is_in_the_way(store: Path, foreign: str) -> None:
    (store / foreign).parent.mkdir(exist_ok=True)
    (store / foreign).write_text("mine")
    before = files_of(store)
    with pytest.raises(ConvertError, match="not of flatmix; move it away, and remove again"):
        remove(store, "en")

    assert files_of(store) == before
    remove(store, "en", "validation")


def test_links_are_not_followed(store: Path, tmp_path: Path) -> None:
    (store / "en/train").rename(tmp_path / "elsewhere")
    (store / "en/train").symlink_to(tmp_path / "elsewhere")
    before = files_of(tmp_path / "elsewhere")
    for split in ("train", None):
        with pytest.raises(ConvertError, match=r"is a link to .*/elsewhere: what lies there is not removed;"):
            remove(store, "en", split)
    assert files_of(tmp_path / "elsewhere") == before


def test_a_foreign_group_in_a_language_stays(store: Path) -> None:
    import zarr

    zarr.open_group(store, mode="r+")["en"].create_group("notes")
    with pytest.raises(ConvertError, match=r"'notes' of store .* is a Zarr group, and not a split of flatmix;"):
        remove(store, "en", "notes")


def test_names_that_are_not_there_are_told_with_those_that_are(store: Path) -> None:
    with pytest.raises(StoreError, match=r"no language 'xx' in store .*; its languages are 'en', 'sw'"):
        remove(store, "xx")
    with pytest.raises(StoreError, match=r"has no split 'test'; its splits are 'train', 'validation'"):
        remove(store, "en", "test")
    with pytest.raises(ValueError, match=r"'\.\./s' cannot name a language"):
        remove(store, "../s")
    with pytest.raises(StoreError, match="no store at"):
        remove(store / "en/none", "en")


def test_an_older_store_is_not_removed_in_parts(tmp_path: Path) -> None:
    path = older_store(tmp_path / "s", {"train": [[1, 2]]})
    with pytest.raises(StoreError, match="is not a store of format 1: only what flatmix wrote is removed"):
        remove(path, "en", "train")
    assert (path / "train/encoded_tokens").exists()


def test_a_split_can_be_written_again_after_it_has_gone(store: Path) -> None:
    remove(store, "en", "train")
    version = open_store(store).zarr_format
    assert documents_of(write_split(store, [[7]], "en", "train", zarr_format=version)) == [[7]]
