"""Records out of files: texts exact, broken ones named, nothing lost at odd line ends."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flatmix.convert.records import BadRecords, Fields, Record, batches, read_records, record_decoder
from flatmix.errors import ConvertError

BROKEN = {
    "no JSON": b'{"text": ',
    "text cut off": b'{"text": "a',
    "two objects": b'{"text": "a"} {"text": "b"}',
    "a list": b'["a"]',
    "a string": b'"a"',
    "no text": b'{"content": "a"}',
    "null": b'{"text": null}',
    "a number": b'{"text": 3}',
    "bad byte in the text": b'{"text": "\xff"}',
    "bad byte elsewhere": b'{"text": "a", "other": "\xff"}',
    "surrogate as bytes": b'{"text": "\xed\xa0\x80"}',
    "lone surrogate": b'{"text": "\\ud800"}',
    "lone surrogate elsewhere": b'{"text": "a", "other": "\\udc00 and more"}',
    "not a number": b'{"text": "a", "score": NaN}',
    "raw newline's twin": b'{"text": "a\tb"}',
    "too deep": b'{"text": "a", "deep": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
}


def read(file: Path, bad: BadRecords | None = None, fields: Fields | None = None) -> list[Record]:
    return list(read_records([file], record_decoder(fields or Fields()), bad or BadRecords()))


def write(folder: Path, content: bytes, name: str = "a.jsonl") -> Path:
    file = folder / name
    file.write_bytes(content)
    return file


@pytest.mark.parametrize(
    ("line", "named"),
    [
        (rb'{"text": "\ud800"}', r"\ud800"),
        (rb'{"text": "\ud83d\ude00 and \uDCFF more"}', r"\uDCFF"),
        (rb'{"text": "\\\udfff"}', r"\udfff"),
        (rb'{"text": "\ud83d\ud83d\ude00 and more"}', r"\ud83d"),
    ],
)
def test_half_a_character_is_named(tmp_path, line: bytes, named: str):
    with pytest.raises(ConvertError) as refused:
        read(write(tmp_path, line))
    assert f"line 1: {named} stands alone: it is half a character (a surrogate), and no text" in str(refused.value)


@pytest.mark.parametrize("line", [rb'{"text": "\ud83d\ude00', rb'{"text": "\\ud800', rb'{"te": "\u00e9'])
def test_other_faults_of_a_line_with_escapes_are_not_taken_for_that(tmp_path, line: bytes):
    with pytest.raises(ConvertError, match="line 1: Input data was truncated"):
        read(write(tmp_path, line))


def test_lines_end_at_the_newline_byte_only(tmp_path):
    """A byte-order mark, Unicode line ends in a text, CR LF, a blank line, an escaped newline, none at the end."""
    lines = [
        b'\xef\xbb\xbf{"text": "first"}\n',
        '{"text": "u\u2028v\u2029w\u0085x"}\n'.encode(),
        b'{"text": "third"}\r\n',
        b"\n",
        b'{"text": "fourth\\nline"}\n',
        b'{"text": "last"}',
    ]
    file = write(tmp_path, b"".join(lines))

    records = read(file)

    assert [record.text for record in records] == ["first", "u\u2028v\u2029w\u0085x", "third", "fourth\nline", "last"]
    assert [record.number for record in records] == [0, 1, 2, 4, 5]
    assert records[-1].end == file.stat().st_size


@pytest.mark.parametrize("line", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_line_is_an_error_with_file_and_line(tmp_path, line):
    file = write(tmp_path, b'{"text": "a"}\n\n' + line + b'\n{"text": "z"}\n')

    with pytest.raises(ConvertError, match=r"a\.jsonl, line 3: .*\(--skip-bad counts such records"):
        read(file)


@pytest.mark.parametrize("line", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_line_is_counted_and_left_out_if_asked_for(tmp_path, line):
    file = write(tmp_path, b'{"text": "a"}\n\n' + line + b'\n{"text": "z"}\n')
    bad = BadRecords(skip=True)

    assert [(record.number, record.text) for record in read(file, bad)] == [(0, "a"), (3, "z")]
    assert bad.count == 1
    assert bad.examples[0].startswith(f"{file}, line 3: ")


def test_the_reason_says_what_is_wrong_with_the_text(tmp_path):
    with pytest.raises(ConvertError, match="missing required field `content`"):
        read(write(tmp_path, b'{"text": "a"}'), fields=Fields(text="content"))
    with pytest.raises(ConvertError, match="Expected `str`, got `null`"):
        read(write(tmp_path, b'{"text": null}'))
    with pytest.raises(ConvertError, match=r"not UTF-8: byte 0xff at byte 10"):
        read(write(tmp_path, b'{"text": "\xff"}'))


def test_only_the_first_places_of_many_bad_records_are_kept(tmp_path):
    bad = BadRecords(skip=True)

    assert read(write(tmp_path, b"{}\n" * 1000), bad) == []
    assert bad.count == 1000
    assert len(bad.examples) == 10


def test_empty_and_blank_texts_are_records(tmp_path):
    file = write(tmp_path, b'{"text": ""}\n{"text": "   "}\n')

    assert [record.text for record in read(file)] == ["", "   "]


def test_a_plain_text_file_is_one_record_kept_byte_for_byte(tmp_path):
    texts = {"a.txt": "one\r\ntwo\u2028\n\n", "b.txt": "", "c.TXT": "\ufeffthree"}
    files = [write(tmp_path, text.encode(), name) for name, text in texts.items()]

    records = list(read_records(files, record_decoder(Fields()), BadRecords()))

    assert [record.text for record in records] == ["one\r\ntwo\u2028\n\n", "", "three"]
    assert [record.file for record in records] == [0, 1, 2]
    assert [record.number for record in records] == [0, 0, 0]


def test_plain_text_that_is_not_utf8_is_bad(tmp_path):
    file = write(tmp_path, b"caf\xe9", "a.txt")

    with pytest.raises(ConvertError, match=r"a\.txt: not UTF-8: byte 0xe9 at byte 3"):
        read(file)
    bad = BadRecords(skip=True)
    assert read(file, bad) == []
    assert bad.count == 1


def test_a_byte_order_mark_counts_only_at_the_start_of_a_file(tmp_path):
    mark = b"\xef\xbb\xbf"
    files = [write(tmp_path, mark + b'{"text": "a"}\n', "a.jsonl"), write(tmp_path, mark + b'{"text": "b"}', "b.jsonl")]

    assert [record.text for record in read_records(files, record_decoder(Fields()), BadRecords())] == ["a", "b"]
    with pytest.raises(ConvertError, match="line 2"):
        read(write(tmp_path, b'{"text": "a"}\n' + mark + b'{"text": "b"}', "c.jsonl"))


def test_positions_run_on_over_files(tmp_path):
    files = [write(tmp_path, b'{"text": "a"}\n\n\n', "a.jsonl"), write(tmp_path, b'{"text": "b"}\n', "b.jsonl")]

    records = list(read_records(files, record_decoder(Fields()), BadRecords()))

    assert [(record.file, record.end) for record in records] == [(0, 14), (1, 30)]


def test_language_codes_of_a_field_stay_strings(tmp_path):
    codes = ["no", "nan", "on", "1e2", "null", "y"]
    file = write(tmp_path, "".join(f'{{"lang": "{code}", "text": "x"}}\n' for code in codes).encode())

    assert [record.language for record in read(file, fields=Fields(language="lang"))] == codes


@pytest.mark.parametrize("value", ["false", "3", "null", '"a/b"', '""', '"train"'])
def test_a_language_that_can_be_no_name_is_a_bad_record(tmp_path, value):
    file = write(tmp_path, f'{{"lang": "en", "text": "x"}}\n{{"lang": {value}, "text": "x"}}'.encode())

    with pytest.raises(ConvertError, match=r"a\.jsonl, line 2: "):
        read(file, fields=Fields(language="lang"))


def test_field_names_that_cannot_be_are_refused():
    with pytest.raises(ConvertError, match="cannot both be in the field 'text'"):
        record_decoder(Fields("text", "text"))
    with pytest.raises(ConvertError, match="no field can be called so"):
        record_decoder(Fields('te"xt'))


@given(sizes=st.lists(st.integers(0, 9), max_size=30), documents=st.integers(1, 5), characters=st.integers(1, 12))
def test_batches_hold_every_record_once_in_order_within_both_bounds(sizes, documents, characters):
    records = [Record(0, number, 0, None, "x" * size) for number, size in enumerate(sizes)]

    made = list(batches(records, documents, characters))

    assert [record for batch in made for record in batch] == records
    for batch in made:
        assert 1 <= len(batch) <= documents
        assert len(batch) == 1 or sum(len(record.text) for record in batch) <= characters
