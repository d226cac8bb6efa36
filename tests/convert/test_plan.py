"""What is refused of names, settings and input before anything is made, and that nothing is."""

from pathlib import Path

import pytest
from converted import files_of, read_documents, save_words, utf8, write_lines
from table_files import write_parquet

from flatmix.convert import SourceSpec, convert
from flatmix.convert.reading import PEEKED
from flatmix.errors import ConvertError, ReadError
from flatmix.store import open_store


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    return write_lines(tmp_path / "texts.jsonl", ["a", "b"])


@pytest.mark.parametrize("name", ["", "a\\b", "train", "validation", "e\u0301", ".en", "zarr.json"])
def test_a_language_that_can_be_no_name_is_refused(tmp_path, texts, name):
    with pytest.raises(ValueError, match="cannot name a language"):
        convert(tmp_path / "s.zarr", {"en": texts, name: texts})
    assert not (tmp_path / "s.zarr").exists()


def test_a_split_that_can_be_no_name_is_refused(tmp_path, texts):
    with pytest.raises(ValueError, match="'a/b' cannot name a split"):
        convert(tmp_path / "s.zarr", {"en": texts}, "a/b")
    with pytest.raises(ValueError, match="'dev/b' cannot name a split"):
        convert(tmp_path / "s.zarr", {"en/dev/b": texts})
    with pytest.raises(ValueError, match="'' cannot name a split"):
        convert(tmp_path / "s.zarr", {"en/": texts})


def test_sources_must_name_languages_in_one_way(tmp_path, texts):
    with pytest.raises(ConvertError, match="not both"):
        convert(tmp_path / "s.zarr", {"en": texts}, language_field="lang")
    with pytest.raises(ConvertError, match="which language is"):
        convert(tmp_path / "s.zarr", texts)
    for both, given in (({"language": "en", "language_field": "lang"}, "both"), ({}, "neither")):
        with pytest.raises(ConvertError, match=f"a language or a field that names it; {given} is given"):
            convert(tmp_path / "s.zarr", [SourceSpec(data=str(texts), **both)])
    for nothing in ({}, {"en": []}, [SourceSpec(data=[], language="en")]):
        with pytest.raises(ConvertError, match=r"nothing to convert|which language is"):
            convert(tmp_path / "s.zarr", nothing)


def test_a_split_that_is_named_twice_is_refused(tmp_path, texts):
    other = write_lines(tmp_path / "other.jsonl", ["c"])

    with pytest.raises(ConvertError, match="en/train is named twice; name all its files in one place"):
        convert(tmp_path / "s.zarr", {"en": texts, "en/train": other})


def test_settings_that_cannot_be_are_refused(tmp_path, texts):
    with pytest.raises(ValueError, match="zarr_format must be 3, or 2 for readers that know no other, not 4"):
        convert(tmp_path / "s.zarr", {"en": texts}, zarr_format=4)
    with pytest.raises(ConvertError, match="cannot both be in the field 'text'"):
        convert(tmp_path / "s.zarr", texts, language_field="text")
    assert [path.name for path in tmp_path.iterdir()] == ["texts.jsonl"]


def test_a_file_of_another_kind_is_refused_before_the_first_is_read(tmp_path):
    (tmp_path / "a.jsonl").write_text("broken")
    (tmp_path / "b.docx").write_bytes(b"PK")

    with pytest.raises(ConvertError, match=r"b\.docx: files of kind \.docx cannot be converted"):
        convert(tmp_path / "s.zarr", {"en": tmp_path / "a.jsonl", "ar": tmp_path / "b.docx"})


def test_an_input_none_of_whose_first_records_is_a_document_is_named_before_anything_is_made(tmp_path):
    for name in ("a", "b"):
        write_lines(tmp_path / f"in/{name}.jsonl", ["good"] * 3)
    convert(tmp_path / "s.zarr", {"en": tmp_path / "in"})
    (tmp_path / "in/c.jsonl").write_text('\n{"content": "bad"}\n' + '{"content": "bad"}\n' * 3)
    before = files_of(tmp_path)

    for store, replace in (("new.zarr", False), ("s.zarr", True)):
        message = r"in/c\.jsonl, line 2: .*missing required field `text` \(none of its first 4 records can be"
        with pytest.raises(ConvertError, match=message):
            convert(tmp_path / store, {"en": tmp_path / "in"}, replace=replace)
    assert files_of(tmp_path) == before

    (tmp_path / "in/c.jsonl").write_text('{"content": "bad"}')
    with pytest.raises(ConvertError, match=r"in/c\.jsonl, line 1: .*\(not its only record can be converted\)"):
        convert(tmp_path / "new.zarr", {"en": tmp_path / "in"})


def test_one_good_record_among_the_first_is_enough(tmp_path):
    bad, good = '{"content": "x"}\n', '{"text": "good"}\n'
    (tmp_path / "in.jsonl").write_text(bad * (PEEKED - 1) + good)

    summary = convert(tmp_path / "s.zarr", {"en": tmp_path / "in.jsonl"})

    assert summary.bad == summary.languages[0].bad == PEEKED - 1
    assert summary.bad_examples[9].startswith(f"{tmp_path / 'in.jsonl'}, line 10: ")
    assert len(summary.bad_examples) == 10
    assert read_documents(tmp_path / "s.zarr", "en") == utf8("good")
    (tmp_path / "in.jsonl").write_text(bad * PEEKED + good)
    with pytest.raises(ConvertError, match=rf"none of its first {PEEKED} records can be converted"):
        convert(tmp_path / "new.zarr", {"en": tmp_path / "in.jsonl"})


def test_columns_that_are_not_there_are_refused_with_those_that_are(tmp_path):
    write_parquet(tmp_path / "in.parquet", {"content": ["a"], "lang": ["en"], "number": [1]})

    for fields in ({}, {"text_field": "number"}, {"text_field": "content", "language_field": "language"}):
        sources = tmp_path / "in.parquet" if "language_field" in fields else {"en": tmp_path / "in.parquet"}
        columns = r"in\.parquet: .*the columns are 'content' \(string\), 'lang' \(string\), 'number' \(int64\)"
        with pytest.raises(ConvertError, match=columns):
            convert(tmp_path / "s.zarr", sources, **fields)
    assert not (tmp_path / "s.zarr").exists()

    convert(tmp_path / "s.zarr", tmp_path / "in.parquet", text_field="content", language_field="lang")
    assert read_documents(tmp_path / "s.zarr", "en") == utf8("a")


def test_a_file_that_cannot_be_read_is_an_error_of_the_system(tmp_path, texts):
    (tmp_path / "cut.jsonl.gz").write_bytes(b"\x1f\x8b\x08\x00")

    with pytest.raises(ReadError, match=r"cut\.jsonl\.gz was cut"):
        convert(tmp_path / "s.zarr", {"en": texts, "ar": tmp_path / "cut.jsonl.gz"})
    assert not (tmp_path / "s.zarr").exists()


@pytest.mark.parametrize("share", [0, 1, -0.1, 1.5, float("nan"), float("inf")])
def test_shares_that_are_none_are_refused(tmp_path, texts, share):
    with pytest.raises(ConvertError, match=f"hold out dev={share}: a share of the documents lies between 0 and 1"):
        convert(tmp_path / "s.zarr", {"en": texts}, hold_out={"dev": share})
    assert not (tmp_path / "s.zarr").exists()


def test_splits_that_cannot_be_held_out_are_refused(tmp_path, texts):
    with pytest.raises(ConvertError, match="leave nothing for the split itself"):
        convert(tmp_path / "s.zarr", {"en": texts}, hold_out={"dev": 0.5, "test": 0.5})
    with pytest.raises(ConvertError, match="the split 'train' is given, and is to be held out as well"):
        convert(tmp_path / "s.zarr", {"en": texts}, hold_out={"train": 0.1})
    with pytest.raises(ValueError, match="'a/b' cannot name a split"):
        convert(tmp_path / "s.zarr", {"en": texts}, hold_out={"a/b": 0.1})


def test_tokens_get_no_begin_and_no_end(tmp_path):
    (tmp_path / "en.bin").write_bytes(bytes(8))
    tokens = {"type": "uint16", "document_end": 0}

    for given in ({"begin_token": 1}, {"end_token": "<eos>"}):
        with pytest.raises(ConvertError, match=r"en\.bin holds tokens already, and no token is added to them"):
            convert(tmp_path / "s.zarr", {"en": tmp_path / "en.bin"}, tokens=tokens, **given)


def test_text_beside_tokens_needs_their_tokenizer(tmp_path, texts):
    (tmp_path / "ar.bin").write_bytes(bytes([2, 0, 0, 0]))
    sources = [
        SourceSpec(language="en", data=str(texts)),
        SourceSpec(language="ar", data=str(tmp_path / "ar.bin"), tokens={"type": "uint16", "document_end": 0}),
    ]

    with pytest.raises(ConvertError, match=r"ar\.bin holds tokens already, and other input is text: name the tokenize"):
        convert(tmp_path / "s.zarr", sources)
    with pytest.raises(
        ConvertError, match=r"texts\.jsonl is no file of tokens as .*, or leave out the settings of tok"
    ):
        convert(tmp_path / "s.zarr", {"en": [texts, tmp_path / "ar.bin"]}, tokens=sources[1].tokens)

    convert(tmp_path / "s.zarr", sources, tokenizer=save_words(tmp_path))
    assert read_documents(tmp_path / "s.zarr", "en") == [[2], [3]]
    assert read_documents(tmp_path / "s.zarr", "ar") == [[2, 0]]


def test_several_splits_in_one_call_by_key_or_as_specs(tmp_path):
    train, dev, other = (write_lines(tmp_path / f"{name}.jsonl", [name]) for name in ("train", "dev", "other"))

    convert(tmp_path / "keys.zarr", {"en": train, "en/validation": [dev], "ar": other})
    summary = convert(
        tmp_path / "specs.zarr",
        [
            SourceSpec(language="en", data=str(train)),
            SourceSpec(language="en", data=[str(dev)], split="validation"),
            SourceSpec(language="ar", data=str(other)),
        ],
    )

    for name in ("keys.zarr", "specs.zarr"):
        assert read_documents(tmp_path / name, "en") == utf8("train")
        assert read_documents(tmp_path / name, "en", "validation") == utf8("dev")
        assert read_documents(tmp_path / name, "ar") == utf8("other")
        assert open_store(tmp_path / name)["ar"].splits == ("train",)
    assert files_of(tmp_path / "keys.zarr") == files_of(tmp_path / "specs.zarr")
    assert {(one.language, one.split) for one in summary.languages} == {
        ("en", "train"),
        ("en", "validation"),
        ("ar", "train"),
    }


def test_sources_of_one_call_have_their_own_fields(tmp_path):
    named = write_lines(tmp_path / "mixed.jsonl", ["salaam"], lang="ar")
    (tmp_path / "en.jsonl").write_text('{"content": "hello"}\n')

    convert(
        tmp_path / "s.zarr",
        [
            SourceSpec(data=str(named), language_field="lang"),
            SourceSpec(data=str(tmp_path / "en.jsonl"), language="en", text_field="content"),
        ],
    )

    assert read_documents(tmp_path / "s.zarr", "ar") == utf8("salaam")
    assert read_documents(tmp_path / "s.zarr", "en") == utf8("hello")
    assert open_store(tmp_path / "s.zarr")["en"]["train"].source["options"]["text_field"] == "content"


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"workers": 0}, "workers must be an integer of at least 1, not 0"),
        ({"workers": True}, "workers must be an integer of at least 1, not True"),
        ({"backend": "local", "address": "tcp://a:1"}, "the address tcp://a:1 is for a backend"),
        ({"backend": "dask"}, "backend dask needs the address of its scheduler"),
    ],
)
def test_workers_that_cannot_be_are_refused(tmp_path, settings, message):
    with pytest.raises(ConvertError, match=message):
        convert(tmp_path / "s.zarr", {"en": write_lines(tmp_path / "en.jsonl", ["a"])}, **settings)

    assert not (tmp_path / "s.zarr").exists()


def test_one_split_is_not_held_out_of_two(tmp_path):
    for name in ("a", "b"):
        write_lines(tmp_path / f"{name}.jsonl", ["text"])

    with pytest.raises(ConvertError, match="en/test would be held out of two splits"):
        convert(
            tmp_path / "s.zarr",
            {"en": tmp_path / "a.jsonl", "en/validation": tmp_path / "b.jsonl"},
            hold_out={"test": 0.1},
        )
    assert not (tmp_path / "s.zarr.staging").exists()
