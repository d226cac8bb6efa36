"""Files of documents become a store that holds their tokens, all of them, in their order."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from converted import TINY, files_of, read_documents, read_sources, save_bpe, save_words, utf8, write_lines

from flatmix.convert import convert
from flatmix.convert.job import Sizes
from flatmix.store import open_store

TEXTS = ["", "a", "   ", "b c", "世界", ""]


def test_documents_keep_their_texts_and_their_order_over_files(tmp_path):
    write_lines(tmp_path / "in/b.jsonl", ["third", ""])
    write_lines(tmp_path / "in/a.jsonl", ["first", "second"])
    (tmp_path / "in/c.txt").write_text("one\nfile")

    summary = convert(tmp_path / "s.zarr", {"en": tmp_path / "in"})

    assert read_documents(tmp_path / "s.zarr", "en") == utf8("first", "second", "third", "", "one\nfile")
    assert read_sources(tmp_path / "s.zarr", "en") == [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]
    (one,) = summary.languages
    assert (one.documents, one.empty, one.bad, one.tokens, one.utf8_bytes) == (5, 1, 0, 24, 24)
    assert one.digest == open_store(tmp_path / "s.zarr")["en"]["train"].digest


def test_attributes_say_where_the_tokens_came_from(tmp_path):
    write_lines(tmp_path / "in/a.jsonl", ["é"])

    summary = convert(tmp_path / "s.zarr", {"en": [tmp_path / "in/*.jsonl"]}, "validation", end_token=0)

    split = open_store(tmp_path / "s.zarr")["en"]["validation"]
    assert split.tokenizer == summary.tokenizer
    assert split.tokenizer["added"] == {"end": {"id": 0, "token": "0x00"}}
    assert split.utf8_bytes == 2
    assert split.tokens == 3
    assert split.source == {
        "data": "*.jsonl",
        "files": ["a.jsonl"],
        "options": {"text_field": "text", "language_field": None},
    }


def test_equal_input_gives_equal_files_wherever_it_lies_and_whenever_it_was_made(tmp_path):
    for name in ("b", "a", "c"):
        write_lines(tmp_path / "one" / f"{name}.jsonl", [name, "世界"])
    for name in ("c", "b", "a"):
        write_lines(tmp_path / "far/two" / f"{name}.jsonl", [name, "世界"])

    convert(tmp_path / "1.zarr", {"en": tmp_path / "one"})
    convert(tmp_path / "2.zarr", {"en": tmp_path / "far/two"})

    assert files_of(tmp_path / "1.zarr") == files_of(tmp_path / "2.zarr")


def test_a_store_in_zarr_v2_holds_the_same(tmp_path):
    write_lines(tmp_path / "en.jsonl", TEXTS)

    new, old = (convert(tmp_path / f"{v}.zarr", {"en": tmp_path / "en.jsonl"}, zarr_format=v) for v in (3, 2))
    for language in ("sw", "no"):
        convert(tmp_path / "2.zarr", {language: tmp_path / "en.jsonl"}, zarr_format=2)

    assert [one.digest for one in new.languages] == [one.digest for one in old.languages]
    assert open_store(tmp_path / "2.zarr").zarr_format == 2
    assert open_store(tmp_path / "2.zarr").languages == ("en", "no", "sw")
    assert read_documents(tmp_path / "2.zarr", "sw") == read_documents(tmp_path / "3.zarr", "en") == utf8(*TEXTS)
    assert read_sources(tmp_path / "2.zarr", "en") == read_sources(tmp_path / "3.zarr", "en")
    assert not [name for name in files_of(tmp_path / "2.zarr") if name.endswith("zarr.json")]


@pytest.mark.parametrize("tokenizer", ["bytes", "words", "bpe"])
def test_empty_and_missing_texts_and_batch_sizes_leave_no_trace(tmp_path, tokenizer):
    write_lines(tmp_path / "en.jsonl", ["", "a", None, "   ", "b c", ""])
    spec = {"bytes": lambda _: "bytes", "words": save_words, "bpe": save_bpe}[tokenizer](tmp_path)

    for size in (1, 2, 6):
        summary = convert(
            tmp_path / f"{size}.zarr",
            {"en": tmp_path / "en.jsonl"},
            tokenizer=spec,
            sizes=Sizes(batch_documents=size),
        )
        assert summary.bad == summary.languages[0].bad == 1
        assert summary.bad_examples == (f"{tmp_path / 'en.jsonl'}, line 3: Expected `str`, got `null` - at `$.text`",)

    documents = read_documents(tmp_path / "1.zarr", "en")
    assert len(documents) == 5
    assert documents[0] == documents[4] == []
    assert [number for _, number in read_sources(tmp_path / "1.zarr", "en")] == [0, 1, 3, 4, 5]
    assert summary.languages[0].empty == sum(not ids for ids in documents) >= 2
    assert files_of(tmp_path / "1.zarr") == files_of(tmp_path / "2.zarr") == files_of(tmp_path / "6.zarr")


def test_batches_by_characters_leave_no_trace(tmp_path):
    write_lines(tmp_path / "en.jsonl", TEXTS)

    for size in (1, 3, 1000):
        convert(tmp_path / f"{size}.zarr", {"en": tmp_path / "en.jsonl"}, sizes=Sizes(batch_characters=size))

    assert read_documents(tmp_path / "1.zarr", "en") == utf8(*TEXTS)
    assert files_of(tmp_path / "1.zarr") == files_of(tmp_path / "3.zarr") == files_of(tmp_path / "1000.zarr")


def test_a_file_of_one_empty_text_gives_a_split_of_one_empty_document(tmp_path):
    write_lines(tmp_path / "en.jsonl", [""])

    (one,) = convert(tmp_path / "s.zarr", {"en": tmp_path / "en.jsonl"}).languages

    assert (one.documents, one.empty, one.tokens, one.bytes_per_token) == (1, 1, 0, None)
    assert read_documents(tmp_path / "s.zarr", "en") == [[]]


def test_begin_and_end_tokens_are_counted_in_every_document(tmp_path):
    """The tokenizer's own post-processor would put a begin token in front as well."""
    write_lines(tmp_path / "en.jsonl", ["a b", "", "c"])
    words = save_words(tmp_path)
    expected = {
        "plain": ({}, [[2, 3], [], [4]]),
        "begin": ({"begin_token": "<bos>"}, [[1, 2, 3], [1], [1, 4]]),
        "both": ({"begin_token": 1, "end_token": "<eos>"}, [[1, 2, 3, 5], [1, 5], [1, 4, 5]]),
    }

    for name, (options, documents) in expected.items():
        summary = convert(tmp_path / name, {"en": tmp_path / "en.jsonl"}, tokenizer=words, **options)

        assert read_documents(tmp_path / name, "en") == documents
        assert summary.languages[0].empty == 1


def test_ids_beyond_16_bits_and_added_tokens_come_back_whole(tmp_path):
    vocabulary = {f"w{number}": number for number in (0, 65_535, 65_536, 70_001)}
    words = save_words(tmp_path, model={"type": "WordLevel", "vocab": vocabulary, "unk_token": "w0"}, added_tokens=[])
    write_lines(tmp_path / "en.jsonl", ["w65535 w65536 w70001 w0"])

    convert(tmp_path / "s.zarr", {"en": tmp_path / "en.jsonl"}, tokenizer=words)

    assert read_documents(tmp_path / "s.zarr", "en") == [[65_535, 65_536, 70_001, 0]]
    assert open_store(tmp_path / "s.zarr")["en"]["train"].max_token_id == 70_001


def test_a_document_longer_than_a_batch_is_kept_whole(tmp_path):
    """A long one of many words, and one of many letters without a space, among short ones."""
    texts = ["x", "word " * 50_000, "y", "a" * 300_000]
    write_lines(tmp_path / "en.jsonl", texts)
    bpe = save_bpe(tmp_path)

    convert(tmp_path / "bytes.zarr", {"en": tmp_path / "en.jsonl"}, sizes=Sizes(batch_characters=1000))
    convert(tmp_path / "bpe.zarr", {"en": tmp_path / "en.jsonl"}, tokenizer=bpe, sizes=Sizes(batch_characters=1000))

    assert read_documents(tmp_path / "bytes.zarr", "en") == utf8(*texts)
    from flatmix.convert import load_tokenizer

    decoded = [load_tokenizer(bpe).decode(ids) for ids in read_documents(tmp_path / "bpe.zarr", "en")]
    assert decoded == texts
    assert len(files_of(tmp_path / "bpe.zarr")) == len(files_of(tmp_path / "bytes.zarr")) < 20


def test_records_go_to_the_languages_they_name(tmp_path):
    one = write_lines(tmp_path / "in/1.jsonl", ["a", "b"], lang="no")
    with one.open("ab") as more:
        more.write(b'\n{"lang": "en", "text": "c"}\n{"lang": "no", "text": "d"}\n')
    write_lines(tmp_path / "in/2.jsonl", ["e"], lang="en")

    summary = convert(tmp_path / "s.zarr", [tmp_path / "in"], language_field="lang", sizes=Sizes(batch_documents=2))

    assert [one.language for one in summary.languages] == ["en", "no"]
    assert read_documents(tmp_path / "s.zarr", "no") == utf8("a", "b", "d")
    assert read_documents(tmp_path / "s.zarr", "en") == utf8("c", "e")
    assert read_sources(tmp_path / "s.zarr", "no") == [(0, 0), (0, 1), (0, 4)]
    assert read_sources(tmp_path / "s.zarr", "en") == [(0, 3), (1, 0)]
    assert open_store(tmp_path / "s.zarr")["en"]["train"].source["files"] == ["1.jsonl", "2.jsonl"]


def test_language_codes_that_look_like_other_types_stay_names(tmp_path):
    codes = ["no", "nan", "on", "1e2"]
    for code in codes:
        write_lines(tmp_path / f"{code}.jsonl", [code])

    convert(tmp_path / "s.zarr", {code: tmp_path / f"{code}.jsonl" for code in codes})

    assert open_store(tmp_path / "s.zarr").languages == tuple(sorted(codes))


def test_another_language_is_added_and_the_others_stay_as_they_are(tmp_path):
    write_lines(tmp_path / "en.jsonl", ["a"])
    convert(tmp_path / "s.zarr", {"en": tmp_path / "en.jsonl"})
    before = files_of(tmp_path / "s.zarr")

    convert(tmp_path / "s.zarr", {"ar": tmp_path / "en.jsonl"})
    convert(tmp_path / "s.zarr", {"en": tmp_path / "en.jsonl"}, "validation")

    after = files_of(tmp_path / "s.zarr")
    assert {name: after[name] for name in before} == before
    assert open_store(tmp_path / "s.zarr").languages == ("ar", "en")
    assert open_store(tmp_path / "s.zarr")["en"].splits == ("train", "validation")


def test_replacing_gives_the_store_that_a_first_conversion_gives(tmp_path):
    old = write_lines(tmp_path / "old/en.jsonl", ["a", "long text " * 10_000])
    new = write_lines(tmp_path / "new/en.jsonl", ["b"])
    convert(tmp_path / "s.zarr", {"en": old})

    convert(tmp_path / "s.zarr", {"en": new}, replace=True)
    convert(tmp_path / "fresh.zarr", {"en": new})

    assert files_of(tmp_path / "s.zarr") == files_of(tmp_path / "fresh.zarr")


@pytest.mark.parametrize("counts", [(101,), (50, 1, 50)])
def test_each_document_is_there_once_and_in_order_whoever_converts_it(tmp_path, counts):
    texts = [f"document {number} " + "x" * (number % 7) for number in range(101)]
    left = list(texts)
    for file, count in enumerate(counts):
        write_lines(tmp_path / f"in/{file}.jsonl", left[:count])
        left = left[count:]

    convert(tmp_path / "whole.zarr", {"en": tmp_path / "in"}, workers=1)
    for workers in (1, 2, 4):
        convert(tmp_path / f"{workers}.zarr", {"en": tmp_path / "in"}, workers=workers, sizes=TINY)

        assert files_of(tmp_path / f"{workers}.zarr") == files_of(tmp_path / "whole.zarr")
    assert read_documents(tmp_path / "whole.zarr", "en") == utf8(*texts)
    assert read_sources(tmp_path / "whole.zarr", "en") == [
        (file, record) for file, count in enumerate(counts) for record in range(count)
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["1.zarr", "2.zarr", "4.zarr", "in", "whole.zarr"]


def test_records_that_name_their_language_keep_their_order_whoever_converts_them(tmp_path):
    for file in range(3):
        write_lines(tmp_path / f"in/{file}.jsonl", [f"{file} {number}" for number in range(40)])
        lines = (tmp_path / f"in/{file}.jsonl").read_text().splitlines()
        named = [line[:-1] + f', "lang": "{["de", "ar", "en"][number % 3]}"}}' for number, line in enumerate(lines)]
        (tmp_path / f"in/{file}.jsonl").write_text("\n".join(named))

    convert(tmp_path / "whole.zarr", tmp_path / "in", language_field="lang", workers=1)
    for workers in (1, 2):
        store = tmp_path / f"{workers}.zarr"
        convert(store, tmp_path / "in", language_field="lang", workers=workers, sizes=TINY)

        assert files_of(store) == files_of(tmp_path / "whole.zarr")
    for rest, language in enumerate(("de", "ar", "en")):
        texts = [f"{file} {number}" for file in range(3) for number in range(rest, 40, 3)]
        assert read_documents(tmp_path / "whole.zarr", language) == utf8(*texts)


def test_small_compression_holds_the_same_tokens_in_less_room(tmp_path):
    texts = [f"the document {number} and what is in it" for number in range(3000)]
    write_lines(tmp_path / "en.jsonl", texts)

    fast = convert(tmp_path / "fast.zarr", {"en": tmp_path / "en.jsonl"})
    small = convert(tmp_path / "small.zarr", {"en": tmp_path / "en.jsonl"}, compression="small")

    assert fast.languages[0].digest == small.languages[0].digest
    assert read_documents(tmp_path / "small.zarr", "en") == utf8(*texts)
    sizes = [sum(map(len, files_of(tmp_path / name).values())) for name in ("small.zarr", "fast.zarr")]
    assert sizes == sorted(sizes)
    assert sizes[0] != sizes[1]


def test_languages_are_added_at_the_same_time(tmp_path):
    """All of them are at work at once: each waits for the others before its first document."""
    languages = [f"l{number}" for number in range(4)]
    for language in languages:
        write_lines(tmp_path / f"{language}.jsonl", [f"{language} {number}" for number in range(30)])
    together = threading.Barrier(len(languages), timeout=60)

    def add(language: str) -> None:
        waited: list[bool] = []

        def wait(_) -> None:
            if not waited:
                waited.append(True)
                together.wait()

        convert(tmp_path / "s.zarr", {language: tmp_path / f"{language}.jsonl"}, sizes=TINY, workers=1, progress=wait)

    with ThreadPoolExecutor(len(languages)) as pool:
        list(pool.map(add, languages))

    assert open_store(tmp_path / "s.zarr").languages == tuple(languages)
    for language in languages:
        assert read_documents(tmp_path / "s.zarr", language) == utf8(*[f"{language} {n}" for n in range(30)])
    assert not (tmp_path / "s.zarr.staging").exists()
