"""Records out of lines: texts exact, broken ones told, the same whatever the cuts; nothing is lost without an error."""

import gzip
import random
from itertools import pairwise
from pathlib import Path

import pytest
import zstandard
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from flatmix.convert.inputs import Cut, Fields, Input, Record
from flatmix.convert.lines import check_fields, cut, kind_of, read_records
from flatmix.errors import ConvertError, ReadError

MARK = b"\xef\xbb\xbf"
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
ODD = (
    MARK + b'{"text": "first"}\n'
    b"\n \t\r\n"
    b'{"text": "crlf"}\r\n'
    + '{"text": "u\u2028v\u2029w\u0085x\u00e9\U0001f600"}\n'.encode()
    + b'{"text": \n{"text": ""}\n{"text": "a\\nb"}\n\n{"text": "last"}'
)
WRITERS = {"gz": gzip.compress, "zst": zstandard.compress}


def write(folder: Path, content: bytes, name: str = "a.jsonl") -> Input:
    file = folder / name
    file.write_bytes(content)
    kind, compression = kind_of(name) or ("", None)
    return Input(
        path=str(file), name=name, kind=kind, size=len(content), options={"compression": compression}, stamp="1"
    )


def read(found: Input, fields: Fields | None = None, size: int = 2**40, skip: int = 0) -> list[Record]:
    """The records of all stretches of that size, without the first `skip` of each."""
    stretches = cut(found, size)
    assert [stretch.start for stretch in stretches] == [0, *(stretch.stop for stretch in stretches[:-1])]
    assert sum(stretch.size for stretch in stretches) == found.size
    return [
        record
        for stretch in stretches
        for record in read_records(found, stretch.start, stretch.stop, fields or Fields(), skip)
    ]


def told(records: list[Record]) -> list[tuple[str | None, str | None, str | None]]:
    """What may not depend on the cuts."""
    return [(record.text, record.language, record.problem) for record in records]


def texts(found: Input, **options) -> list[str | None]:
    return [record.text for record in read(found, **options)]


def test_lines_end_at_the_newline_byte_only(tmp_path):
    """A byte-order mark, Unicode line ends in a text, CR LF, blank lines, an escaped newline, none at the end."""
    found = write(tmp_path, ODD)

    records = read(found)

    assert [record.text for record in records] == [
        "first",
        None,
        None,
        "crlf",
        "u\u2028v\u2029w\u0085x\u00e9\U0001f600",
        None,
        "",
        "a\nb",
        None,
        "last",
    ]
    assert [number for number, record in enumerate(records) if record.problem is not None] == [5]
    assert records[-1].end == found.size
    assert [record.end for record in records] == sorted(record.end for record in records)


@pytest.mark.parametrize("size", range(1, len(ODD) + 2))
def test_records_are_the_same_whatever_the_size_of_the_stretches(tmp_path, size):
    found = write(tmp_path, ODD)

    assert told(read(found, size=size)) == told(read(found))


def test_one_cut_at_every_byte_changes_nothing(tmp_path):
    found = write(tmp_path, ODD)
    whole = told(read(found))

    for place in range(1, len(ODD)):
        first = list(read_records(found, 0, place, Fields(), 0))
        second = list(read_records(found, place, None, Fields(), 0))
        assert told(first + second) == whole
        assert first[-1].end >= place
        if second:
            assert place + second[-1].end == len(ODD)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    lines=st.lists(st.sampled_from([b"", b" ", b"{", b'{"text": "a"}', b'{"text": "%s"}' % (b"long " * 20), b"\xff"])),
    end=st.sampled_from([b"", b"\n", b"\r\n"]),
    mark=st.booleans(),
    places=st.lists(st.integers(1, 500), unique=True),
    skip=st.integers(0, 3),
)
def test_any_cuts_give_the_records_of_the_whole(tmp_path, lines, end, mark, places, skip):
    content = MARK * mark + b"\n".join(lines) + end
    found = write(tmp_path, content)
    edges = sorted({0, len(content), *(place for place in places if place < len(content))})

    parts = [list(read_records(found, i, j, Fields(), 0)) for i, j in pairwise(edges)]
    records = [record for part in parts for record in part]

    assert told(records) == told(list(read_records(found, 0, None, Fields(), 0)))
    assert len(records) == content.count(b"\n") + (not content.endswith(b"\n") and content != b"")
    for (i, j), part in zip(pairwise(edges), parts, strict=True):
        assert list(read_records(found, i, j, Fields(), skip)) == part[skip:]


def test_a_line_longer_than_many_stretches_belongs_to_the_first(tmp_path):
    long = "x" * 3_000_000
    found = write(tmp_path, f'{{"text": "a"}}\n{{"text": "{long}"}}\n{{"text": "z"}}\n'.encode())

    parts = [
        [record.text for record in read_records(found, start, stop, Fields(), 0)]
        for start, stop, _ in cut(found, 500_000)
    ]

    assert parts == [["a", long], [], [], [], [], [], ["z"]]


def test_stretches_have_the_size_that_is_asked_for(tmp_path):
    found = write(tmp_path, b"\n" * 10)

    assert cut(found, 4) == [Cut(0, 4, 4), Cut(4, 8, 4), Cut(8, 10, 2)]
    assert cut(found, 10) == cut(found, 11) == [Cut(0, 10, 10)]
    assert cut(write(tmp_path, b""), 4) == [Cut(0, None, 0)]
    assert cut(write(tmp_path, b"0123456789", "a.txt"), 4) == [Cut(0, None, 10)]
    assert cut(write(tmp_path, b"0123456789", "a.jsonl.gz"), 4) == [Cut(0, None, 10)]


def test_an_empty_file_has_no_records(tmp_path):
    assert read(write(tmp_path, b"")) == []
    assert read(write(tmp_path, MARK)) == [Record(3, None, None)]


@pytest.mark.parametrize("line", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_line_is_a_record_with_a_problem(tmp_path, line):
    good, broken, last = read(write(tmp_path, b'{"text": "a"}\n' + line + b'\n{"text": "z"}\n'))

    assert (good.text, good.problem, last.text, last.problem) == ("a", None, "z", None)
    assert broken.text is None
    assert broken.problem


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
    (record,) = read(write(tmp_path, line))

    assert record.problem == f"{named} stands alone: it is half a character (a surrogate), and no text"


@pytest.mark.parametrize("line", [rb'{"text": "\ud83d\ude00', rb'{"text": "\\ud800', rb'{"te": "\u00e9'])
def test_other_faults_of_a_line_with_escapes_are_not_taken_for_that(tmp_path, line: bytes):
    (record,) = read(write(tmp_path, line))

    assert record.problem == "Input data was truncated"


def test_the_problem_says_what_is_wrong_with_the_text(tmp_path):
    def problem(line: bytes, **names: str) -> str:
        return read(write(tmp_path, line), Fields(**names))[0].problem or ""

    assert "missing required field `content`" in problem(b'{"text": "a"}', text="content")
    assert "Expected `str`, got `null`" in problem(b'{"text": null}')
    assert "not UTF-8: byte 0xff at byte 10" in problem(b'{"text": "\xff"}')


def test_blank_texts_are_documents(tmp_path):
    assert texts(write(tmp_path, b'{"text": ""}\n{"text": "   "}\n')) == ["", "   "]


def test_a_byte_order_mark_counts_only_at_the_start_of_a_file(tmp_path):
    first, second = read(write(tmp_path, MARK + b'{"text": "a"}\n' + MARK + b'{"text": "b"}'))

    assert first.text == "a"
    assert "JSON is malformed" in (second.problem or "")


def test_language_codes_of_a_field_stay_strings(tmp_path):
    codes = ["no", "nan", "on", "1e2", "null", "y"]
    found = write(tmp_path, "".join(f'{{"lang": "{code}", "text": "x"}}\n' for code in codes).encode())

    assert [record.language for record in read(found, Fields(language="lang"))] == codes


@pytest.mark.parametrize("value", ["false", "3", "null", '"a/b"', '""', '"c"'])
def test_a_language_that_can_be_no_name_is_a_problem(tmp_path, value):
    found = write(tmp_path, f'{{"lang": "en", "text": "x"}}\n{{"lang": {value}, "text": "x"}}'.encode())

    good, bad = read(found, Fields(language="lang"))

    assert (good.language, good.text) == ("en", "x")
    assert bad.text is None
    assert bad.problem


def test_field_names_that_cannot_be_are_refused():
    check_fields(Fields("body", "lang"))
    with pytest.raises(ConvertError, match="cannot both be in the field 'text'"):
        check_fields(Fields("text", "text"))
    with pytest.raises(ConvertError, match="no field can be called so"):
        check_fields(Fields('te"xt'))


def test_a_plain_text_file_is_one_record_kept_byte_for_byte(tmp_path):
    kept = {"a.txt": "one\r\ntwo\u2028\n\n", "b.txt": "", "c.TXT": "\ufeffthree"}

    records = [read(write(tmp_path, text.encode(), name)) for name, text in kept.items()]

    assert [[record.text for record in one] for one in records] == [["one\r\ntwo\u2028\n\n"], [""], ["three"]]
    assert texts(write(tmp_path, b"a\nb", "d.txt"), skip=1) == []


def test_plain_text_that_is_not_utf8_is_a_problem(tmp_path):
    (record,) = read(write(tmp_path, b"caf\xe9", "a.txt"))

    assert record.text is None
    assert "not UTF-8: byte 0xe9 at byte 3" in (record.problem or "")


@pytest.mark.parametrize("compression", WRITERS)
def test_what_is_compressed_gives_the_same_records(tmp_path, compression):
    """Also in several members, which may begin within a line."""
    compress = WRITERS[compression]
    whole = told(read(write(tmp_path, ODD)))
    for parts in ([ODD], [ODD[:50], ODD[50:]], [ODD[:1], b"", ODD[1:60], ODD[60:]]):
        found = write(tmp_path, b"".join(map(compress, parts)), f"a.jsonl.{compression}")

        records = read(found)

        assert told(records) == whole
        assert records[-1].end == found.size
        assert told(read(found, skip=4)) == whole[4:]
    assert texts(write(tmp_path, compress(b"a\nb"), f"a.txt.{compression}")) == ["a\nb"]
    assert texts(write(tmp_path, compress(b""), f"a.jsonl.{compression}")) == []


@pytest.mark.parametrize("compression", WRITERS)
def test_large_content_comes_out_of_small_files(tmp_path, compression):
    text = "0123456789" * 500_000

    found = write(tmp_path, WRITERS[compression](f'{{"text": "{text}"}}\n'.encode() * 3), f"a.jsonl.{compression}")

    assert texts(found) == [text] * 3


def test_a_zst_with_a_wide_window_and_a_skippable_frame_is_read(tmp_path):
    """As `zstd --long=31` and `pzstd` write them."""
    wide = zstandard.ZstdCompressionParameters(window_log=30, strategy=1, chain_log=6, hash_log=6)
    stream = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    frame = stream.compress(ODD) + stream.flush()

    found = write(tmp_path, b"\x50\x2a\x4d\x18\x04\0\0\0abcd" + frame, "a.jsonl.zst")

    assert told(read(found)) == told(read(write(tmp_path, ODD)))


@pytest.mark.parametrize("known", [True, False], ids=["size known", "size unknown"])
@pytest.mark.parametrize("compression", WRITERS)
def test_a_compressed_file_that_was_cut_anywhere_is_an_error(tmp_path, compression, known):
    """Where it was cut between two members, only its size tells."""
    first = WRITERS[compression](ODD)
    content = first + WRITERS[compression](ODD)
    found = write(tmp_path, content, f"a.jsonl.{compression}")
    for length in range(len(content)):
        Path(found.path).write_bytes(content[:length])
        shorter = Input(path=found.path, name="", kind=found.kind, size=found.size * known, options=found.options)
        if length == len(first) and not known:
            assert len(read(shorter)) == 10
            continue
        with pytest.raises(ReadError, match=rf"a\.jsonl\.{compression}"):
            read(shorter)


@pytest.mark.parametrize("compression", WRITERS)
def test_a_compressed_file_that_was_cut_says_how_far_it_goes(tmp_path, compression):
    lines = b"".join(b'{"text": "%s"}\n' % random.Random(line).randbytes(500).hex().encode() for line in range(400))
    found = write(tmp_path, WRITERS[compression](lines)[:150_000], f"a.jsonl.{compression}")

    with pytest.raises(
        ReadError, match=rf"was cut: its {compression} data goes on after its 150000 bytes, which are \d{{6,}} bytes"
    ):
        read(found)


@pytest.mark.parametrize("compression", WRITERS)
def test_what_is_not_compressed_as_its_name_says_is_an_error(tmp_path, compression):
    found = write(tmp_path, b'{"text": "a"}\n', f"a.jsonl.{compression}")

    with pytest.raises(ReadError, match=rf"a\.jsonl\.{compression} is no {compression}, or damaged"):
        read(found)


@pytest.mark.parametrize("compression", WRITERS)
def test_a_damaged_byte_or_rubbish_at_the_end_is_an_error(tmp_path, compression):
    content = bytearray(zstandard.ZstdCompressor(write_checksum=True).compress(ODD * 50))
    if compression == "gz":
        content = bytearray(gzip.compress(ODD * 50))
    found = write(tmp_path, bytes(content) + b"rubbish", f"a.jsonl.{compression}")
    with pytest.raises(ReadError, match=rf"is no {compression}, or damaged: after {50 * len(ODD)} bytes"):
        read(found)

    content[len(content) // 2] ^= 1
    found = write(tmp_path, bytes(content), f"a.jsonl.{compression}")
    with pytest.raises(ReadError, match=rf"is no {compression}, or damaged"):
        read(found)


@pytest.mark.parametrize("name", ["a.jsonl", "a.txt"])
def test_a_file_that_became_shorter_or_longer_is_an_error(tmp_path, name):
    found = write(tmp_path, b'{"text": "a"}\n' * 9, name)
    for length in range(found.size):
        Path(found.path).write_bytes(b'{"text": "a"}\n' * 9)
        with Path(found.path).open("r+b") as file:
            file.truncate(length)
        with pytest.raises(
            ReadError, match=rf"had {found.size} bytes when it was found, and {length} were read: it was"
        ):
            read(found)
        if name == "a.jsonl" and length < 100:
            with pytest.raises(ReadError, match="it was cut"):
                list(read_records(found, 100, 110, Fields(), 0))


def test_a_last_line_that_has_grown_is_an_error(tmp_path):
    found = write(tmp_path, b'{"text": "a"}\n{"text": "b"}')
    with Path(found.path).open("ab") as file:
        file.write(b', {"text": "c"}')

    with pytest.raises(ReadError, match="it has grown"):
        read(found)


def test_a_file_that_is_gone_is_an_error_with_its_name(tmp_path):
    found = write(tmp_path, b"{}")
    Path(found.path).unlink()

    with pytest.raises(ReadError, match=r"a\.jsonl cannot be opened: No such file or directory"):
        read(found)
