"""`repair`: a damaged store becomes what it was, byte for byte, or stays as it is and the user learns why."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from converted import files_of, save_words, write_lines
from damage import ARRAYS, edit_attributes, files_of_array, flip, rewrite, small_pieces
from older_stores import older_store
from token_files import raw_file

from flatmix.convert import SourceSpec, convert
from flatmix.convert.repair import RepairReport, SplitRepair, repair
from flatmix.errors import ConvertError
from flatmix.store import format as layout
from flatmix.store import open_store
from flatmix.store.locks import locked
from flatmix.verify import verify

TEXTS = [None if number % 11 == 3 else chr(97 + number % 26) * (number % 9) for number in range(120)]
PROVEN = ("encoded_tokens", "seq_starts")


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    small_pieces(monkeypatch)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with `in`, files of TEXTS with bad records between them, and `s`, their store; both stay as they are."""
    folder = tmp_path_factory.mktemp("repair")
    for number in range(3):
        write_lines(folder / f"in/{number}.jsonl", TEXTS[number * 40 : (number + 1) * 40])
    with pytest.MonkeyPatch.context() as patch:
        small_pieces(patch)
        convert(folder / "s", {"en": folder / "in"}, workers=1)
    return folder


@pytest.fixture
def folder(tmp_path: Path, made: Path) -> Path:
    """A copy of it."""
    return shutil.copytree(made, tmp_path / "copy")


def mend(folder: Path, *specs: SourceSpec, **settings: str) -> RepairReport:
    specs = specs or (SourceSpec(language="en", data=str(folder / "in")),)
    return repair(verify(folder / "s"), specs, **settings)


def only(report: RepairReport) -> SplitRepair:
    (split,) = report.splits
    return split


def assert_refused(folder: Path, report: RepairReport, *words: str) -> None:
    """Nothing was written, and one split says why with these words."""
    assert only(report).repaired == {}
    (reason,) = only(report).refused
    for text in words:
        assert text in reason
    assert not report.after.sound


def unlink(file: Path) -> None:
    file.unlink()


def shorten(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-9])


def turn_bit(file: Path) -> None:
    flip(file, 3)


def empty(file: Path) -> None:
    file.write_bytes(b"")


@pytest.mark.parametrize(("harm", "place"), [(unlink, 0), (shorten, -1), (turn_bit, 1), (empty, -1), (shorten, 0)])
@pytest.mark.parametrize("array", ARRAYS)
def test_a_damaged_file_of_any_array_becomes_what_it_was(
    folder: Path, made: Path, array: str, harm: Callable[[Path], None], place: int
) -> None:
    harm(files_of_array(folder / "s/en/train", array)[place])
    report = mend(folder)

    assert report.after.sound
    assert not only(report).refused
    assert len(only(report).repaired[array]) == 1
    assert files_of(folder / "s") == files_of(made / "s")


@pytest.mark.parametrize("arrays", [("seq_starts", "encoded_tokens", "source_file", "source_record"), PROVEN])
def test_many_files_of_many_arrays_become_what_they_were(folder: Path, made: Path, arrays: tuple[str, ...]) -> None:
    for array in arrays:
        for file in files_of_array(folder / "s/en/train", array)[3:]:
            file.unlink()
    report = mend(folder)

    assert report.after.sound
    assert set(only(report).repaired) == set(arrays)
    assert files_of(folder / "s") == files_of(made / "s")


def test_all_files_of_all_arrays_but_the_digests_become_what_they_were(folder: Path, made: Path) -> None:
    for array in set(ARRAYS) - {"piece_digests"}:
        for file in files_of_array(folder / "s/en/train", array):
            file.unlink()

    assert mend(folder).after.sound
    assert files_of(folder / "s") == files_of(made / "s")


@pytest.mark.parametrize("array", PROVEN)
def test_values_that_were_changed_are_found_by_their_digest_and_made_again(
    folder: Path, made: Path, array: str
) -> None:
    def change(values):
        values[40] += 2

    rewrite(folder / "s/en/train", array, change, prove=False)
    report = mend(folder)

    assert report.after.sound
    assert only(report).repaired == {array: [1]}
    assert files_of(folder / "s") == files_of(made / "s")


@pytest.mark.parametrize("array", PROVEN)
def test_digests_are_made_again_with_the_pieces_that_they_prove(folder: Path, made: Path, array: str) -> None:
    for damaged in (array, "piece_digests"):
        for file in files_of_array(folder / "s/en/train", damaged):
            file.unlink()

    assert mend(folder).after.sound
    assert files_of(folder / "s") == files_of(made / "s")


def test_digests_alone_need_no_source(folder: Path, made: Path) -> None:
    shutil.rmtree(folder / "in")
    for file in files_of_array(folder / "s/en/train", "piece_digests"):
        file.unlink()
    report = repair(verify(folder / "s"), [])

    assert report.after.sound
    assert files_of(folder / "s") == files_of(made / "s")


def test_where_everything_is_damaged_nothing_is_written(folder: Path) -> None:
    for array in (*PROVEN, "piece_digests"):
        files_of_array(folder / "s/en/train", array)[0].unlink()
    before = files_of(folder / "s")

    assert_refused(folder, mend(folder), "piece_digests is damaged with encoded_tokens and seq_starts", "--replace")
    assert files_of(folder / "s") == before


@pytest.mark.parametrize("array", [array for array in ARRAYS if array != "piece_digests"])
def test_a_source_that_changed_is_refused_and_nothing_is_written(folder: Path, array: str) -> None:
    files_of_array(folder / "s/en/train", array)[0].unlink()
    before = files_of(folder / "s")
    write_lines(folder / "in/0.jsonl", [TEXTS[0], TEXTS[1] + "!", *TEXTS[2:40]])

    assert_refused(folder, mend(folder), "the source does not give what was converted", "--replace")
    assert files_of(folder / "s") == before


def test_only_the_pieces_of_documents_that_changed_are_refused(folder: Path, made: Path) -> None:
    for file in files_of_array(folder / "s/en/train", "encoded_tokens"):
        file.unlink()
    write_lines(folder / "in/0.jsonl", [TEXTS[0], "B", *TEXTS[2:40]])
    report = mend(folder)

    assert only(report).repaired == {
        "encoded_tokens": list(range(1, report.after.splits["en", "train"].tokens // 32 + 1))
    }
    assert (
        only(report).refused[0].startswith("encoded_tokens: the source does not give what was converted: its piece 0")
    )
    assert report.after.splits["en", "train"].damaged == {"encoded_tokens": [0]}


def test_digests_are_not_made_of_a_source_that_changed(folder: Path) -> None:
    for file in files_of_array(folder / "s/en/train", "piece_digests"):
        file.unlink()
    files_of_array(folder / "s/en/train", "encoded_tokens")[0].unlink()
    before = files_of(folder / "s")
    write_lines(folder / "in/0.jsonl", [TEXTS[0], "B", *TEXTS[2:40]])

    assert_refused(folder, mend(folder), "what else there is has not the attribute digest")
    assert files_of(folder / "s") == before


def test_a_source_that_lost_documents_is_refused(folder: Path) -> None:
    files_of_array(folder / "s/en/train", "encoded_tokens")[-1].unlink()
    write_lines(folder / "in/2.jsonl", TEXTS[80:110])

    assert_refused(folder, mend(folder), "its source ends before document", "and 109 were converted")


def test_another_tokenizer_is_refused_with_both(folder: Path, tmp_path: Path) -> None:
    files_of_array(folder / "s/en/train", "encoded_tokens")[0].unlink()
    before = files_of(folder / "s")

    assert_refused(folder, mend(folder, tokenizer=str(save_words(tmp_path))), "bytes (sha256", "words.json (sha256")
    assert_refused(folder, mend(folder, end_token="0"), "no added token", "end token 0")
    assert files_of(folder / "s") == before
    with pytest.raises(ConvertError, match="tokenizer"):
        mend(folder, tokenizer=str(folder / "nothing.json"))


def test_begin_and_end_tokens_are_put_in_again(tmp_path: Path) -> None:
    write_lines(tmp_path / "in/a.jsonl", ["a b", "", "c", "a c b"] * 9)
    words = save_words(tmp_path)
    convert(tmp_path / "s", {"en": tmp_path / "in"}, tokenizer=words, begin_token="<bos>", end_token=5, workers=1)
    before = files_of(tmp_path / "s")
    files_of_array(tmp_path / "s/en/train", "encoded_tokens")[2].unlink()

    assert mend(tmp_path, tokenizer=str(words), begin_token="<bos>", end_token="<eos>").after.sound
    assert files_of(tmp_path / "s") == before


def test_other_files_are_refused_with_both_names(folder: Path) -> None:
    files_of_array(folder / "s/en/train", "encoded_tokens")[0].unlink()
    (folder / "in/1.jsonl").rename(folder / "in/9.jsonl")

    words = ("from 3 files, and 3 are named", "number 1 was '1.jsonl', and now it is '2.jsonl'")
    assert_refused(folder, mend(folder), *words)


def test_a_source_that_is_gone_or_not_named_is_refused(folder: Path) -> None:
    files_of_array(folder / "s/en/train", "encoded_tokens")[0].unlink()
    other = SourceSpec(language="sw", data=str(folder / "in"))

    assert_refused(folder, mend(folder, other), "its source is not named", "--language en=FILES")
    shutil.rmtree(folder / "in")
    assert_refused(folder, mend(folder), str(folder / "in"))


def test_other_splits_are_left_alone(tmp_path: Path) -> None:
    specs = [
        SourceSpec(language=name, data=str(write_lines(tmp_path / f"{name}.jsonl", TEXTS)))
        for name in ("af", "be", "ca")
    ]
    convert(tmp_path / "s", specs, workers=1)
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "s").rglob("*") if file.is_file()}
    files = files_of(tmp_path / "s")
    for language in ("af", "be"):
        files_of_array(tmp_path / f"s/{language}/train", "encoded_tokens")[4].unlink()
    (tmp_path / "be.jsonl").unlink()
    report = mend(tmp_path, *specs)

    assert [(one.language, bool(one.repaired)) for one in report.splits] == [("af", True), ("be", False)]
    assert [split.sound for split in report.after.splits.values()] == [True, False, True]
    lost = "be/train/encoded_tokens/c/4"
    assert files_of(tmp_path / "s") == {name: content for name, content in files.items() if name != lost}
    changed = {file for file in before if file.exists() and file.stat().st_mtime_ns != before[file]}
    assert {file.relative_to(tmp_path / "s").as_posix() for file in changed} <= {
        f"af/train/encoded_tokens/c/{number}" for number in (4, 5)
    }


@pytest.mark.parametrize("array", ["encoded_tokens", "source_record"])
def test_documents_held_out_and_told_apart_by_a_field_find_their_split_again(tmp_path: Path, array: str) -> None:
    lines = write_lines(tmp_path / "in/a.jsonl", TEXTS[::2], lang="en")
    with lines.open("ab") as file:
        file.write(write_lines(tmp_path / "b", [f"{text}." for text in TEXTS], lang="sw").read_bytes())
    convert(tmp_path / "s", tmp_path / "in", language_field="lang", hold_out={"test": 0.3}, workers=1)
    before = files_of(tmp_path / "s")
    assert len(open_store(tmp_path / "s")["sw"].splits) == 2
    for split in (tmp_path / "s").glob("*/*/"):
        files = files_of_array(split, array)
        for file in files[: max(1, len(files) - 1)]:
            file.unlink()
    report = mend(tmp_path, SourceSpec(language_field="lang", data=str(tmp_path / "in")))

    assert len(report.splits) == 4
    assert report.after.sound
    assert files_of(tmp_path / "s") == before


@pytest.mark.parametrize("array", ["encoded_tokens", "source_file"])
def test_tokens_that_were_imported_are_read_again(tmp_path: Path, array: str) -> None:
    tokens = {"type": "uint16", "document_end": 7}
    raw_file(tmp_path / "a.bin", [number % 23 for number in range(700)])
    spec = SourceSpec(language="en", data=str(tmp_path / "a.bin"), tokens=tokens)
    convert(tmp_path / "s", [spec], hold_out={"test": 0.4}, workers=1)
    before = files_of(tmp_path / "s")
    for split in ("train", "test"):
        files = files_of_array(tmp_path / "s/en" / split, array)
        files[len(files) // 2].unlink()

    assert mend(tmp_path, spec).after.sound
    assert files_of(tmp_path / "s") == before


@pytest.mark.parametrize("array", ["encoded_tokens", "piece_digests"])
def test_a_store_in_zarr_v2_becomes_what_it_was(tmp_path: Path, made: Path, array: str) -> None:
    shutil.copytree(made / "in", tmp_path / "in")
    convert(tmp_path / "s", {"en": tmp_path / "in"}, zarr_format=2, compression="small", workers=1)
    before = files_of(tmp_path / "s")
    for number, file in enumerate(sorted((tmp_path / "s/en/train" / array).glob("[0-9]*"))):
        file.unlink() if number % 2 else shorten(file)

    assert mend(tmp_path).after.sound
    assert files_of(tmp_path / "s") == before


def test_a_loader_that_is_open_reads_what_is_repaired(folder: Path) -> None:
    reader = open_store(folder / "s")["en"]["train"]
    whole = reader.seq_starts(0, reader.documents + 1).tolist()
    files_of_array(folder / "s/en/train", "seq_starts")[0].unlink()
    mend(folder)

    assert reader.seq_starts(0, reader.documents + 1).tolist() == whole


def test_a_split_that_is_being_written_is_left_alone(folder: Path) -> None:
    files_of_array(folder / "s/en/train", "encoded_tokens")[0].unlink()
    with locked(folder / "s/en/train", wait=False):
        assert_refused(folder, mend(folder), "it is being written at this moment")


def test_what_lies_in_no_piece_is_not_repaired(folder: Path) -> None:
    edit_attributes(folder / "s/en/train", lambda attributes: attributes.update(max_token_id=99))

    assert_refused(folder, mend(folder), "lies in no piece of an array", "--replace")


def test_an_older_store_is_not_repaired(tmp_path: Path) -> None:
    path = older_store(tmp_path / "s", {"train": [[1, 2, 3]] * 99})
    files_of_array(path / "train", "encoded_tokens")[0].unlink()
    report = repair(verify(path, ["fa"]), [])

    assert_refused(tmp_path, report, "an older store has no digests")


def test_a_sound_store_is_read_and_nothing_else(folder: Path, made: Path) -> None:
    report = mend(folder)

    assert report.splits == ()
    assert report.after.sound
    assert files_of(folder / "s") == files_of(made / "s")


def test_json_has_the_repairs_and_what_is_there_now(folder: Path) -> None:
    files_of_array(folder / "s/en/train", "seq_starts")[0].unlink()
    found = mend(folder).as_dict()

    assert found["sound"] is True
    assert found["repairs"] == [{"language": "en", "split": "train", "repaired": {"seq_starts": [0]}, "refused": ()}]


def test_pieces_of_their_true_size_become_what_they_were(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    assert layout.PIECE == 2**24
    write_lines(tmp_path / "in/a.jsonl", [f"{number} {'x' * 4090}" for number in range(4200)])
    convert(tmp_path / "s", {"en": tmp_path / "in"}, workers=1)
    before = files_of(tmp_path / "s")
    files = files_of_array(tmp_path / "s/en/train", "encoded_tokens")
    assert len(files) == 2
    flip(files[0], 5000)
    files[1].unlink()
    report = mend(tmp_path)

    assert only(report).repaired == {"encoded_tokens": [0, 1]}
    assert report.after.sound
    assert files_of(tmp_path / "s") == before
