import numpy as np
import pytest

from flatmix.store.documents import encode, find_bad_id, one_document, plain_json, source_numbers

PLACE = "language 'en', split 'train' of store /s"


def test_the_worked_example_of_the_format() -> None:
    encoded, ends = encode(np.array([5, 6, 7, 8, 9, 10]), np.array([2, 0, 1, 3]), 0, PLACE)

    assert encoded.tolist() == [11, 12, 15, 17, 18, 20]
    assert encoded.dtype == np.uint32
    assert ends.tolist() == [2, 2, 3, 6]
    assert ends.dtype == np.int64


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64, ">i4"])
def test_ids_of_any_integer_type_are_encoded_alike(dtype: str | type) -> None:
    encoded, _ = encode(np.array([0, 127], dtype), np.array([1, 1], np.uint8), 0, PLACE)

    assert encoded.tolist() == [1, 255]


def test_the_largest_id_fits_with_its_start_bit() -> None:
    encoded, _ = encode(np.array([2**31 - 1]), np.array([1]), 0, PLACE)

    assert encoded.tolist() == [2**32 - 1]


def test_no_documents_and_documents_without_ids() -> None:
    none, no_ends = encode(np.empty(0), np.empty(0), 0, PLACE)
    empty, ends = encode(np.empty(0), np.zeros(3, np.int64), 0, PLACE)

    assert (len(none), len(no_ends), len(empty)) == (0, 0, 0)
    assert ends.tolist() == [0, 0, 0]


@pytest.mark.parametrize("bad", [-1, 2**31, 2**40])
def test_an_id_out_of_range_is_reported_with_its_document(bad: int) -> None:
    with pytest.raises(
        ValueError, match=f"document 13 of {PLACE} has the id {bad}; ids are integers from 0 to 2147483647"
    ):
        encode(np.array([1, 2, 3, bad, 5]), np.array([1, 0, 1, 3]), 10, PLACE)


def test_an_unsigned_id_beyond_63_bits_is_reported() -> None:
    with pytest.raises(ValueError, match=r"document 0 .* has the id 18446744073709551615"):
        encode(np.array([2**64 - 1], np.uint64), np.array([1]), 0, PLACE)


@pytest.mark.parametrize(
    ("ids", "lengths", "message"),
    [
        ([1, 2], [1], "lengths add up to 1, and there are 2 ids"),
        ([1, 2], [1, 2], "lengths add up to 3, and there are 2 ids"),
        ([1, 2], [3, -1], r"lengths must lie in \[0, 2\]"),
        ([1.0], [1], "ids must be one-dimensional integers, not float64"),
        ([True], [1], "ids must be one-dimensional integers, not bool"),
        ([[1, 2]], [1], r"not int64\[1, 2\]"),
        (7, [1], "ids must be one-dimensional integers"),
        ([1], [1.0], "lengths must be one-dimensional integers, not float64"),
        ([1], 1, "lengths must be one-dimensional integers"),
    ],
)
def test_what_is_no_list_of_documents_is_refused(ids: object, lengths: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        encode(np.asarray(ids), np.asarray(lengths), 0, PLACE)


@pytest.mark.parametrize("ids", [[], (), range(0), np.empty(0)])
def test_an_empty_document_may_have_any_type(ids: object) -> None:
    assert one_document(ids, 0, PLACE).size == 0


@pytest.mark.parametrize(
    ("ids", "shown"),
    [
        ([1, None], "None"),
        ([1, 1.5], "1.5"),
        ([1, "2"], "'2'"),
        ([True], "True"),
        ([2**70], str(2**70)),
        ([-1, 2**63], "-1"),
        ([[1, 2]], r"\[1, 2\]"),
    ],
)
def test_a_list_with_anything_but_ids_is_reported_with_its_document(ids: list[object], shown: str) -> None:
    with pytest.raises(ValueError, match=f"document 4 of {PLACE} has the id {shown}; "):
        encode(one_document(ids, 4, PLACE), np.array([len(ids)]), 4, PLACE)


def test_sources_keep_their_whole_range() -> None:
    assert source_numbers("source_file", [2**32 - 1], 1, PLACE).tolist() == [2**32 - 1]
    assert source_numbers("source_record", np.array([2**64 - 1], np.uint64), 1, PLACE).tolist() == [2**64 - 1]
    assert source_numbers("source_file", [], 0, PLACE).dtype == np.uint32


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        (None, "source_file is missing"),
        ([1], "must be 2 integers"),
        ([1.0, 2.0], "must be 2 integers, not float64"),
        ([1, -1], r"must lie in \[0, 4294967295\]"),
        ([1, 2**32], r"must lie in \[0, 4294967295\]"),
    ],
)
def test_sources_that_do_not_fit_are_refused(numbers: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        source_numbers("source_file", numbers, 2, PLACE)


def test_plain_json_is_copied() -> None:
    given = {"name": "bytes", "added": ["é"], "vocabulary": 256}
    kept = plain_json("tokenizer", given)
    given["added"].append("more")

    assert kept == {"name": "bytes", "added": ["é"], "vocabulary": 256}
    assert plain_json("tokenizer", None) is None


@pytest.mark.parametrize("value", [np.uint32(3), float("nan"), "\udc80", {1, 2}])
def test_what_json_cannot_hold_is_refused_before_anything_is_written(value: object) -> None:
    with pytest.raises(ValueError, match="source must be a plain JSON object"):
        plain_json("source", {"value": value})


def test_json_that_readers_would_refuse_for_its_size_is_not_written() -> None:
    """Each of two objects fits, escapes and indentation counted, and then both fit into one file that is read."""
    with pytest.raises(
        ValueError, match=r"source takes \d+ bytes as JSON, and 8323072 are allowed; name fewer or shorter"
    ):
        plain_json("source", {"files": ["é" * 70] * 20_000})

    assert plain_json("source", {"files": ["é" * 70] * 10_000}) is not None


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "uint32"])
def test_the_first_bad_id_is_found_with_its_document(dtype: str) -> None:
    bad = 2**31 if dtype == "uint32" else -1
    ids, lengths = np.array([1, 2, bad, bad], dtype), np.array([0, 2, 0, 1, 1])

    assert find_bad_id(ids, lengths) == (2, 3)
    assert find_bad_id(ids[:2], lengths[:2]) is None
    assert find_bad_id(ids[:0], lengths[:0]) is None


def test_ids_beyond_31_bits_are_bad_and_small_types_have_none() -> None:
    assert find_bad_id(np.array([2**31 - 1, 2**31]), np.array([2])) == (1, 0)
    assert find_bad_id(np.array([65535], np.uint16), np.array([1])) is None
