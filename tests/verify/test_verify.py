"""`verify`: what a user is told about a store that is sound, and about one that was damaged in each way there is."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from damage import (
    ARRAYS,
    DOCUMENTS,
    PIECE,
    STARTS,
    TOKENS,
    edit_attributes,
    files_of_array,
    flip,
    rewrite,
    small_pieces,
    write,
)
from helpers import edit_json
from older_stores import older_store

from flatmix.errors import StoreError
from flatmix.store import open_store
from flatmix.store.writer import SplitWriter
from flatmix.verify import Report, pieces, verify


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    small_pieces(monkeypatch)
    monkeypatch.setattr(pieces, "_BLOCK", 12)  # blocks that divide neither shards nor pieces


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of one split, which stays as it is."""
    path = tmp_path_factory.mktemp("verify") / "s"
    with pytest.MonkeyPatch.context() as patch:
        small_pieces(patch)
        write(path)
    return path


@pytest.fixture
def train(tmp_path: Path, written: Path) -> Path:
    """The folder of the only split of `s`."""
    return Path(shutil.copytree(written, tmp_path / "s"), "en", "train")


def told(report: Report) -> list[str]:
    return [str(finding) for finding in report.findings]


def only(path: Path) -> Any:
    """The report of the one split of a store, whose report it is."""
    report = verify(path)
    (split,) = report.splits.values()
    assert report.findings == split.findings
    return split


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_a_store_is_sound_as_it_was_written(tmp_path: Path, zarr_format: int) -> None:
    write(tmp_path, "en", "train", zarr_format)
    with SplitWriter(tmp_path, "sw", "train", zarr_format=zarr_format) as writer:
        writer.finish()
    report = verify(tmp_path)

    assert report.sound
    assert [(split.language, split.verdict, split.tokens) for split in report.splits.values()] == [
        ("en", "sound", TOKENS),
        ("sw", "sound", 0),
    ]
    assert all(not split.damaged for split in report.splits.values())
    assert ["no checksums" in note for note in report.notes] == ([True] if zarr_format == 2 else [])


@pytest.mark.parametrize("array", ARRAYS)
@pytest.mark.parametrize("way", ["data", "index", "cut", "empty", "gone"])
def test_a_damaged_shard_of_any_array_is_found(tmp_path: Path, train: Path, array: str, way: str) -> None:
    files = files_of_array(train, array)
    number = len(files) // 2
    file = files[number]
    if way == "gone":
        file.unlink()
    elif way in ("cut", "empty"):
        file.write_bytes(file.read_bytes()[: 20 if way == "cut" else 0])
    else:
        flip(file, 24 if way == "data" else -8)
    split = only(tmp_path / "s")

    assert split.verdict == "damaged"
    (finding,) = [finding for finding in split.findings if finding.kind == "damaged"]
    length, shard = open_store(tmp_path / "s")["en"]["train"].arrays[array].shape[0], finding.shard
    size = open_store(tmp_path / "s")["en"]["train"].arrays[array].shard or 0
    assert (finding.array, shard) == (array, number)
    assert number * size <= finding.start < finding.stop <= min(number * size + size, length)
    assert f"[{finding.start}, {finding.stop})" in finding.words
    assert f"(in shard {number})" in finding.words
    if way != "data":
        assert (finding.start, finding.stop) == (number * size, min(number * size + size, length))
    assert split.damaged[array] == [number * size // PIECE]
    assert list(split.damaged) == [array]


@pytest.mark.parametrize("array", ["encoded_tokens", "seq_starts"])
def test_a_flipped_bit_that_no_checksum_shows_is_found_by_the_digest(tmp_path: Path, array: str) -> None:
    folder = write(tmp_path, zarr_format=2)
    rewrite(folder, array, lambda values: values.__setitem__(20, values[20] ^ 2), prove=False)
    split = only(tmp_path)

    assert split.damaged == {array: [0]}
    (finding,) = split.findings
    assert (finding.kind, finding.start, finding.stop) == ("digest", 0, 32)
    assert "is not what was written: its SHA-256 is not the one in piece_digests" in finding.words


def test_two_shards_that_were_exchanged_are_found_as_two_pieces(tmp_path: Path, train: Path) -> None:
    files = files_of_array(train, "encoded_tokens")
    first, second = files[0], files[3]
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)
    split = only(tmp_path / "s")

    assert [(finding.kind, finding.start, finding.stop) for finding in split.findings] == [
        ("digest", 0, 32),
        ("digest", 32, 64),
    ]
    assert split.damaged == {"encoded_tokens": [0, 1]}


def test_two_pieces_that_were_exchanged_name_each_other(tmp_path: Path, train: Path) -> None:
    files = files_of_array(train, "encoded_tokens")
    for one, other in ((0, 4), (1, 5)):
        content = files[one].read_bytes()
        files[one].write_bytes(files[other].read_bytes())
        files[other].write_bytes(content)
    findings = only(tmp_path / "s").findings

    assert "but that of piece 2 of encoded_tokens: were files exchanged or copied?" in findings[0].words
    assert "but that of piece 0 of encoded_tokens" in findings[1].words


def test_digests_that_are_wrong_where_the_content_is_proven_are_told_apart(tmp_path: Path, train: Path) -> None:
    rewrite(train, "piece_digests", lambda rows: rows.__setitem__(1, 7), prove=False)
    split = only(tmp_path / "s")

    assert split.damaged == {"piece_digests": [0]}
    assert "1 of the entries [1, 2) are not the digests of their pieces" in split.findings[0].words


def test_another_digest_in_the_attributes_is_found(tmp_path: Path, train: Path) -> None:
    edit_attributes(train, lambda attributes: attributes["flatmix"].update(digest="ab" * 32))
    split = only(tmp_path / "s")

    assert split.damaged == {}
    assert split.findings[0].words.startswith(f"the attribute digest is {'ab' * 32}, and piece_digests has that of ")
    assert split.findings[0].words.endswith(", with which all that can be read agrees")


@pytest.mark.parametrize("said", [5, 62, 64, 2**31 - 1])
def test_a_largest_id_that_is_not_max_token_id_is_found(tmp_path: Path, train: Path, said: int) -> None:
    edit_attributes(train, lambda attributes: attributes.update(max_token_id=said))
    split = only(tmp_path / "s")

    flat = [token for ids in DOCUMENTS for token in ids]
    beyond = [place for place, token in enumerate(flat) if token > said]
    (finding,) = split.findings
    assert (finding.kind, split.verdict, split.damaged) == ("ids", "wrong", {})
    if beyond:
        assert finding.words == (
            f"ids beyond max_token_id, which is {said}: {len(beyond)}, the first at token {beyond[0]}, and the largest "
            "is 63"
        )
        assert (finding.start, finding.stop) == (beyond[0], beyond[-1] + 1)
    else:
        assert finding.words == f"the largest id is 63, and max_token_id is {said}"


@pytest.mark.parametrize("token", [0, 31, 32, 100, TOKENS - 1])
def test_a_wrong_start_bit_is_found_where_it_is(tmp_path: Path, train: Path, token: int) -> None:
    rewrite(train, "encoded_tokens", lambda values: values.__setitem__(token, values[token] ^ 1))
    split = only(tmp_path / "s")

    (finding,) = split.findings
    assert (finding.kind, finding.array, finding.start, finding.stop) == (
        "start bits",
        "encoded_tokens",
        token,
        token + 1,
    )
    assert finding.words.startswith("1 of the tokens ")
    assert finding.words.endswith(f"the first is token {token}")
    assert finding.shard == token // 16


def test_start_bits_that_have_moved_are_found(tmp_path: Path, train: Path) -> None:
    """As many as before, in the same piece."""

    start = next(place for place in STARTS if place > 2 * PIECE and place + 1 not in STARTS)
    assert start + 1 < 3 * PIECE

    def move(values: np.ndarray) -> None:
        values[[start, start + 1]] ^= 1

    rewrite(train, "encoded_tokens", move)
    (finding,) = only(tmp_path / "s").findings
    assert (finding.kind, finding.start, finding.stop) == ("start bits", start, start + 2)
    assert finding.words.startswith("2 of the tokens ")


def test_document_starts_that_do_not_rise_from_0_to_the_tokens_are_found(tmp_path: Path, train: Path) -> None:
    shown = []
    for entry, value in ((0, 1), (40, 3), (40, TOKENS + 9), (32, 0), (60, TOKENS - 1)):
        copy = Path(shutil.copytree(tmp_path / "s", tmp_path / f"{entry}-{value}"))
        rewrite(copy / "en/train", "seq_starts", lambda values, at=entry, to=value: values.__setitem__(at, to))
        split = only(copy)
        assert {finding.kind for finding in split.findings} == {"seq_starts"}
        shown += [finding.words for finding in split.findings]

    assert shown == [
        "entry 0 is 1, not 0",
        "entry 1 is 0, less than the 1 before it",
        f"entry 40 is 3, less than the {STARTS[39]} before it",
        f"entry 40 is {TOKENS + 9}, and there are {TOKENS} tokens",
        f"entry 32 is 0, less than the {STARTS[31]} before it",
        f"the last entry is {TOKENS - 1}, and there are {TOKENS} tokens",
    ]


def test_a_document_start_that_is_a_token_off_is_found_in_the_tokens(tmp_path: Path, train: Path) -> None:
    rewrite(train, "seq_starts", lambda values: values.__setitem__(25, values[25] + 1))

    (finding,) = only(tmp_path / "s").findings
    assert (finding.kind, finding.start, finding.stop) == ("start bits", STARTS[25], STARTS[25] + 2)
    assert finding.words.startswith("2 of the tokens ")


def test_a_source_file_that_there_is_not_is_found(tmp_path: Path, train: Path) -> None:
    rewrite(train, "source_file", lambda values: values.__setitem__([20, 50], [3, 9]))

    (finding,) = only(tmp_path / "s").findings
    assert (finding.kind, finding.array, finding.start, finding.stop) == ("sources", "source_file", 20, 51)
    assert finding.words == (
        "source files beyond the 3 that the attribute source names: 2, the first of document 20, and the largest is "
        "number 9"
    )


def test_a_source_without_files_is_only_read(tmp_path: Path) -> None:
    with SplitWriter(tmp_path, "en", "train", record_sources=True) as writer:
        writer.add([1, 2], source_file=7)
        writer.finish()
    report = verify(tmp_path)

    assert report.sound
    assert report.notes == (
        "language 'en', split 'train': how many source files there are is not said, so source_file was only read",
    )


@pytest.mark.parametrize("key", ["tokens", "documents"])
def test_a_count_that_is_not_that_of_the_arrays_is_told_as_readers_tell_it(
    tmp_path: Path, train: Path, key: str
) -> None:
    edit_attributes(train, lambda attributes: attributes["flatmix"].update({key: 77}))
    split = only(tmp_path / "s")

    assert (split.verdict, split.tokens, split.documents) == ("refused", None, None)
    assert "and the attributes say [7" in split.findings[0].words


def test_what_is_wrong_in_one_split_is_not_in_another(tmp_path: Path, train: Path) -> None:
    write(tmp_path / "s", "sw")
    write(tmp_path / "s", "en", "validation")
    files_of_array(train, "encoded_tokens")[2].unlink()
    report = verify(tmp_path / "s")

    assert [(*names, split.verdict) for names, split in report.splits.items()] == [
        ("en", "train", "damaged"),
        ("en", "validation", "sound"),
        ("sw", "train", "sound"),
    ]
    assert verify(tmp_path / "s", ["sw"]).sound
    assert verify(tmp_path / "s", splits=["validation"]).sound
    assert list(verify(tmp_path / "s", ["en"], ["train"]).splits) == [("en", "train")]


def test_findings_do_not_depend_on_threads(tmp_path: Path, train: Path) -> None:
    write(tmp_path / "s", "ar")
    for number in (1, 2, 7, 11):
        files_of_array(train, "encoded_tokens")[number].unlink()
    flip(files_of_array(train, "seq_starts")[1], 24)
    expected = told(verify(tmp_path / "s", threads=1))

    assert len(expected) == 5
    for threads in (2, 5):
        assert told(verify(tmp_path / "s", threads=threads)) == expected


def test_all_of_an_array_that_is_gone_is_one_finding_for_each_shard(tmp_path: Path, train: Path) -> None:
    shutil.rmtree(train / "encoded_tokens/c")
    split = only(tmp_path / "s")

    shards = -(-TOKENS // 16)
    assert [finding.shard for finding in split.findings] == list(range(shards))
    assert split.damaged == {"encoded_tokens": list(range(-(-TOKENS // PIECE)))}


def test_content_is_proven_where_only_its_digests_cannot_be_read(tmp_path: Path, train: Path) -> None:
    shutil.rmtree(train / "piece_digests/c")
    split = only(tmp_path / "s")

    assert list(split.damaged) == ["piece_digests"]
    assert split.notes == ()
    rewrite(train, "encoded_tokens", lambda values: values.__setitem__(9, values[9] ^ 2), prove=False)
    again = only(tmp_path / "s")
    assert list(again.damaged) == ["piece_digests"]  # there is nothing to tell the one piece from the others by
    assert "pieces can be read, and could not be proven" in again.notes[0]


def test_a_block_that_could_be_read_the_second_time_is_no_fault(
    tmp_path: Path, train: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shard = files_of_array(train, "encoded_tokens")[0]
    content = shard.read_bytes()
    shard.unlink()
    real = pieces._read_again

    def put_back(*arguments: Any) -> Any:
        shard.write_bytes(content)
        return real(*arguments)

    monkeypatch.setattr(pieces, "_read_again", put_back)
    assert verify(tmp_path / "s", threads=1).sound


def test_a_split_that_is_replaced_meanwhile_is_a_finding(
    tmp_path: Path, train: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = pieces.read_blocks

    def replaced(*arguments: Any) -> Any:
        edit_attributes(train, lambda attributes: attributes.update(max_token_id=1))
        return real(*arguments)

    monkeypatch.setattr("flatmix.verify.facts.read_blocks", replaced)
    report = verify(tmp_path / "s", threads=1)
    assert "is gone or was replaced while it was open" in report.findings[0].words


@pytest.mark.parametrize("delta", [False, True])
@pytest.mark.parametrize("zarr_format", [2, 3])
def test_an_older_store_is_checked_as_far_as_it_can_be(
    tmp_path: Path, zarr_format: int, delta: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = older_store(tmp_path / "s", {"train": DOCUMENTS, "validation": []}, zarr_format, delta)
    with pytest.raises(StoreError, match="is an older store, of one language, which it does not name"):
        verify(path)
    report = verify(path, ["fa"])

    assert report.sound
    assert [(*names, split.verdict) for names, split in report.splits.items()] == [
        ("fa", "train", "no fault found"),
        ("fa", "validation", "no fault found"),
    ]
    assert "an older store has no digests, nor checksums: a value that was changed" in report.notes[0]

    files_of_array(path / "train", "encoded_tokens")[0].write_bytes(b"")
    (finding,) = verify(path, ["fa"]).findings
    assert (finding.kind, finding.split, finding.start, finding.stop) == ("damaged", "train", 0, 4)


@pytest.mark.parametrize("delta", [False, True])
def test_start_bits_of_an_older_store_are_compared(tmp_path: Path, delta: bool) -> None:
    path = older_store(tmp_path / "s", {"train": DOCUMENTS}, delta=delta)
    rewrite(path / "train", "encoded_tokens", lambda values: values.__setitem__(33, values[33] ^ 1), prove=False)

    (finding,) = verify(path, ["en"]).findings
    assert (finding.kind, finding.start, finding.stop) == ("start bits", 33, 34)


def test_progress_ends_with_all_bytes(tmp_path: Path, train: Path) -> None:
    calls: list[tuple[int, int]] = []
    verify(tmp_path / "s", progress=lambda done, total: calls.append((done, total)))

    rows = -(-TOKENS // PIECE) + 2
    assert calls[-1] == (4 * TOKENS + 8 * 61 + 32 * rows + 60 * (4 + 8),) * 2
    assert [done for done, _ in calls] == sorted(done for done, _ in calls)


def test_the_report_is_plain_json(tmp_path: Path, train: Path) -> None:
    files_of_array(train, "encoded_tokens")[2].unlink()
    report = json.loads(json.dumps(verify(tmp_path / "s").as_dict()))

    assert report["sound"] is False
    (split,) = report["splits"]
    assert (split["verdict"], split["findings"], split["damaged"]) == ("damaged", 1, {"encoded_tokens": [1]})
    (finding,) = report["findings"]
    assert (finding["array"], finding["shard"], finding["start"], finding["stop"]) == ("encoded_tokens", 2, 32, 48)


def test_what_was_asked_for_must_be_names(tmp_path: Path, train: Path) -> None:
    with pytest.raises(ValueError, match=r"languages must be several names, not the str 'en'; write \['en'\]"):
        verify(tmp_path / "s", "en")
    with pytest.raises(ValueError, match="splits is empty: name some, or leave it out to verify all"):
        verify(tmp_path / "s", splits=[])
    with pytest.raises(ValueError, match="threads must be None or an integer of at least 1, not True"):
        verify(tmp_path / "s", threads=True)


def test_an_array_without_its_metadata_is_refused(tmp_path: Path, train: Path) -> None:
    (train / "source_record/zarr.json").unlink()
    assert "holds no source_record" in only(tmp_path / "s").findings[0].words
    edit_json(train, lambda group: group.update(node_type="array"))
    assert "it holds 'encoded_tokens', and no zarr.json of a group" in only(tmp_path / "s").findings[0].words


def test_a_damaged_digest_says_nothing_against_those_beside_it(tmp_path: Path, train: Path) -> None:
    """All are read together, and one alone cannot be read."""
    flip(files_of_array(train, "piece_digests")[0], 12)
    split = only(tmp_path / "s")

    assert list(split.damaged) == ["piece_digests"]
    (finding,) = [finding for finding in split.findings if finding.kind == "damaged"]
    assert (finding.start, finding.stop) == (0, 1)
    assert "digest" not in {finding.kind for finding in split.findings}
