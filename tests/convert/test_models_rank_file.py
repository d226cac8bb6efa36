"""A rank file of tiktoken gives ids only with a pattern: from beside it or, for known files, from the library."""

import json
import sys

import numpy as np
import pytest
import tiktoken
from tokenizer_files import rank_lines, save_ranks

from flatmix.convert.tokenizer import DocumentError, load_tokenizer, same_tokenizer
from flatmix.errors import ConvertError

TEXTS = ["the cat thaw", "", "世界 \U0001f600 a\x00b\nc"]


def test_ids_are_those_of_the_library(tmp_path):
    file = save_ranks(tmp_path)
    ranks = {bytes([i]): i for i in range(256)} | {b"th": 256, b"the": 257}
    rules = json.loads((tmp_path / "small.tiktoken.json").read_text())
    library = tiktoken.Encoding("small", mergeable_ranks=ranks, **rules)
    ids, lengths = load_tokenizer(file).encode_documents(TEXTS)

    assert (ids.dtype, lengths.dtype) == (np.uint32, np.int64)
    assert ids[:5].tolist() == [257, *b" cat"]
    assert lengths.tolist() == [len(library.encode_ordinary(text)) for text in TEXTS]
    assert ids.tolist() == [i for text in TEXTS for i in library.encode_ordinary(text)]


def test_special_tokens_are_added_once_and_never_come_from_a_text(tmp_path):
    tokenizer = load_tokenizer(save_ranks(tmp_path), begin="<|end|>", end=300)
    ids, lengths = tokenizer.encode_documents(["the<|end|>", ""])

    assert ids.tolist() == [300, 257, *b"<|end|>", 300, 300, 300]
    assert lengths.tolist() == [10, 2]
    assert tokenizer.decode(ids[:3]) == "<|end|>the<"
    assert tokenizer.identity["vocabulary"] == 301
    assert tokenizer.identity["added"]["end"] == {"id": 300, "token": "<|end|>"}


def test_the_name_of_a_file_does_not_matter(tmp_path):
    """Some models come with a rank file called tokenizer.model."""
    file = save_ranks(tmp_path)
    save_ranks(tmp_path, "tokenizer.model")

    assert same_tokenizer(load_tokenizer(tmp_path).identity, load_tokenizer(file).identity)


def test_the_pattern_is_part_of_the_identity(tmp_path):
    one = load_tokenizer(save_ranks(tmp_path)).identity
    other = load_tokenizer(save_ranks(tmp_path, rules={"pat_str": r"\s+|\S+", "special_tokens": {"<|end|>": 300}}))

    assert not same_tokenizer(one, other.identity)


def test_a_file_without_its_pattern_is_refused(tmp_path):
    file = save_ranks(tmp_path)
    (tmp_path / "small.tiktoken.json").unlink()

    with pytest.raises(ConvertError, match=r"does not say how text is split; write .*small\.tiktoken\.json with"):
        load_tokenizer(file)


def test_a_file_with_the_name_of_a_known_one_must_be_that_one(tmp_path):
    file = save_ranks(tmp_path, "cl100k_base.tiktoken")
    assert load_tokenizer(file).identity["vocabulary"] == 301  # what lies beside it comes first
    (tmp_path / "cl100k_base.tiktoken.json").unlink()

    with pytest.raises(ConvertError, match=r"is not the cl100k_base that tiktoken knows \(sha256 .*, not 223921b76ee9"):
        load_tokenizer(file)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"pattern": "x"}, r"does not say how text is split, .*unknown field `pattern`"),
        ({"pat_str": 3}, r"small\.tiktoken\.json does not say how text is split"),
        ({"pat_str": "("}, r"with its pattern and special tokens is refused"),
    ],
)
def test_rules_that_are_none_are_refused(tmp_path, rules, message):
    with pytest.raises(ConvertError, match=message):
        load_tokenizer(save_ranks(tmp_path, rules=rules))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"IQ== 0\nIg==\n", r"small\.tiktoken, line 2: b'Ig==' is not a token in base64 and its rank"),
        (b"IQ== 0\n!! 1\n", "line 2"),
        (b"IQ== 0\nIg== 0\n", "gives a rank to two tokens"),
        (b"IQ== 0\nIg== 4294967296\n", "ranks must be from 0 to 4294967295, not 4294967296"),
        (b"IQ== 0\nIg== 2147483648\n", "its largest id is 2147483648"),
    ],
)
def test_a_file_that_is_none_is_refused(tmp_path, content, message):
    file = save_ranks(tmp_path)
    file.write_bytes(content)

    with pytest.raises(ConvertError, match=message):
        load_tokenizer(file)


def test_only_ids_can_be_decoded(tmp_path):
    with pytest.raises(ValueError, match=r"ids 5 to 299 are not all of small\.tiktoken"):
        load_tokenizer(save_ranks(tmp_path)).decode([5, 299])


def test_a_text_that_makes_the_library_panic_is_named(tmp_path, capfd):
    """A byte that has no rank does; the panic is no Exception."""
    file = save_ranks(tmp_path)
    file.write_bytes(rank_lines([bytes([i]) for i in range(128)]))
    tokenizer = load_tokenizer(file)

    with pytest.raises(DocumentError, match=r"tokenizer small\.tiktoken fails on the text: ") as caught:
        tokenizer.encode_documents(["a", "b", "é", "c"])

    assert caught.value.index == 2
    assert tokenizer.encode_documents(["a", "c"])[0].tolist() == [97, 99]


def test_a_long_document_is_encoded_whole(tmp_path):
    tokenizer = load_tokenizer(save_ranks(tmp_path))

    for text in ("a" * 1_000_000, "the cat " * 200_000):
        assert tokenizer.decode(tokenizer.encode_documents([text])[0]) == text


def test_without_the_library_the_extra_is_named(tmp_path, monkeypatch):
    file = save_ranks(tmp_path)
    monkeypatch.setitem(sys.modules, "tiktoken", None)

    with pytest.raises(ConvertError, match=r'tiktoken is not installed: pip install "flatmix\[tiktoken\]"'):
        load_tokenizer(file)
