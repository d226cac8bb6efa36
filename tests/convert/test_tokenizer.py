"""A document's tokens are those of its text, and what an option adds, once."""

import hashlib
import json
from dataclasses import replace

import numpy as np
import pytest
from converted import save_bpe, save_words
from tokenizers import Tokenizer as LibraryTokenizer
from tokenizers import models

from flatmix.convert.tokenizer import DocumentError, describe_tokenizer, load_tokenizer, same_tokenizer
from flatmix.errors import ConvertError, ReadError

TEXTS = ["a b", "", "c"]


def ids_of(tokenizer, texts: list[str]) -> list[list[int]]:
    ids, lengths = tokenizer.encode_documents(texts)
    assert (ids.dtype, lengths.dtype) == (np.uint32, np.int64)
    assert len(lengths) == len(texts)
    return [one.tolist() for one in np.split(ids, np.cumsum(lengths)[:-1])]


def test_bytes_are_those_of_utf8():
    tokenizer = load_tokenizer("bytes")
    text = "aé世\u2028\U0001f600\x00"

    assert ids_of(tokenizer, [text, ""]) == [list(text.encode()), []]
    assert tokenizer.decode(np.frombuffer(text.encode(), np.uint8)) == text
    assert tokenizer.decode([0xE4, 0xB8]) == "\ufffd"
    assert tokenizer.identity["vocabulary"] == 256
    assert tokenizer.identity["added"] == {}


def test_bytes_have_a_frozen_identity():
    """A store made long ago must be found to have the same tokenizer."""
    expected = "d594eae6b54ca90bef6291fdb68bce5402ce2853b4d6233fb6c9caf13119181a"
    assert load_tokenizer("bytes").identity["sha256"] == expected


def test_only_bytes_can_be_decoded_as_bytes():
    with pytest.raises(ValueError, match="ids 3 to 256 are not all bytes"):
        load_tokenizer("bytes").decode([3, 256])


@pytest.mark.parametrize(
    ("begin", "end", "expected"),
    [
        (None, None, [[2, 3], [], [4]]),
        ("<bos>", None, [[1, 2, 3], [1], [1, 4]]),
        (None, "<eos>", [[2, 3, 5], [5], [4, 5]]),
        ("<bos>", "<eos>", [[1, 2, 3, 5], [1, 5], [1, 4, 5]]),
        (1, "5", [[1, 2, 3, 5], [1, 5], [1, 4, 5]]),
        (2, 2, [[2, 2, 3, 2], [2, 2], [2, 4, 2]]),
    ],
)
def test_begin_and_end_tokens_come_once_whatever_the_file_would_add(tmp_path, begin, end, expected):
    tokenizer = load_tokenizer(save_words(tmp_path), begin, end)

    assert ids_of(tokenizer, TEXTS) == expected
    assert tokenizer.added_per_document == (begin is not None) + (end is not None)


def test_begin_and_end_tokens_are_part_of_the_identity(tmp_path):
    file = save_words(tmp_path)
    identity = load_tokenizer(file, begin="<bos>", end=5).identity

    assert identity == {
        "name": "words.json",
        "sha256": hashlib.sha256(file.read_bytes()).hexdigest(),
        "vocabulary": 6,
        "added": {"begin": {"id": 1, "token": "<bos>"}, "end": {"id": 5, "token": "<eos>"}},
    }
    assert json.loads(json.dumps(identity)) == identity


def test_padding_and_truncation_of_the_file_are_off(tmp_path):
    file = save_words(tmp_path)
    assert LibraryTokenizer.from_file(str(file)).encode("a b c").ids == [1, 2, 0, 0, 0, 0, 0, 0]

    assert ids_of(load_tokenizer(file), ["a b c a b c"]) == [[2, 3, 4, 2, 3, 4]]


def test_text_that_reads_like_a_special_token_stays_text(tmp_path):
    tokenizer = load_tokenizer(save_bpe(tmp_path))
    text = "a<|endoftext|>b<|added|>"

    (ids,) = ids_of(tokenizer, [text])

    assert not {0, 266} & set(ids)
    assert tokenizer.decode(ids) == text


def test_special_tokens_are_shown_when_decoded(tmp_path):
    assert load_tokenizer(save_bpe(tmp_path)).decode([0, 266]) == "<|endoftext|><|added|>"


def test_added_tokens_count_in_the_vocabulary(tmp_path):
    tokenizer = load_tokenizer(save_bpe(tmp_path), end="<|added|>")

    assert tokenizer.identity["vocabulary"] == 267
    assert ids_of(tokenizer, [""]) == [[266]]


def test_a_vocabulary_with_gaps_reaches_to_its_largest_id(tmp_path):
    library = LibraryTokenizer(models.WordLevel({"a": 0, "b": 70_000}, unk_token="a"))
    library.save(str(tmp_path / "gaps.json"))
    tokenizer = load_tokenizer(tmp_path / "gaps.json")

    assert tokenizer.identity["vocabulary"] == 70_001
    assert ids_of(tokenizer, ["b"]) == [[70_000]]
    with pytest.raises(ConvertError, match="begin token 3 is no id"):
        load_tokenizer(tmp_path / "gaps.json", begin=3)


def test_ids_that_the_format_cannot_hold_are_refused(tmp_path):
    file = save_words(tmp_path, model={"type": "WordLevel", "vocab": {"a": 0, "b": 2**31}, "unk_token": "a"})

    with pytest.raises(ConvertError, match="largest id is 2147483648"):
        load_tokenizer(file)


def test_dropout_of_the_file_is_off(tmp_path):
    """It would give other tokens every time."""
    text = "the cat and the hat and the rat " * 20
    (plain,) = ids_of(load_tokenizer(save_bpe(tmp_path)), [text])
    file = save_bpe(tmp_path, dropout=0.5)
    assert LibraryTokenizer.from_file(str(file)).encode(text).ids != plain

    assert ids_of(load_tokenizer(file), [text]) == [plain]


@pytest.mark.parametrize("place", ["begin", "end"])
@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("<nope>", "token '<nope>' is not in the vocabulary"),
        ("", "token '' is not in the vocabulary"),
        (6, "token 6 is no id of words.json, whose vocabulary is 6"),
        ("6", "token 6 is no id"),
        (-1, "token -1 is no id"),
        (True, "token must be an id or a token's text, not True"),
    ],
)
def test_a_token_that_is_not_there_is_refused(tmp_path, place, token, message):
    with pytest.raises(ConvertError, match=f"the {place} {message}"):
        load_tokenizer(save_words(tmp_path), **{place: token})


def test_bytes_take_begin_and_end_tokens_too():
    assert ids_of(load_tokenizer("bytes", begin=0, end="\n"), ["a", ""]) == [[0, 97, 10], [0, 10]]
    with pytest.raises(ConvertError, match="end token 256 is no id of bytes"):
        load_tokenizer("bytes", end=256)


def test_a_file_that_is_no_tokenizer_is_refused(tmp_path):
    (tmp_path / "other.json").write_text('{"a": 1}')

    with pytest.raises(ConvertError, match=r"other\.json is not a tokenizer\.json: "):
        load_tokenizer(tmp_path / "other.json")
    with pytest.raises(ConvertError, match=r'gpt2: there is no such file; .* "bytes", or "hf:NAME"'):
        load_tokenizer("gpt2")
    with pytest.raises(ConvertError, match=r"is a folder without tokenizer\.json or tokenizer\.model"):
        load_tokenizer(tmp_path)
    (tmp_path / "other.model").write_text("a model?")
    with pytest.raises(ConvertError, match=r"other\.model is not a tokenizer\.json, nor a model of SentencePiece, nor"):
        load_tokenizer(tmp_path / "other.model")


def test_a_tekken_json_is_refused_by_name(tmp_path):
    (tmp_path / "tekken.json").write_text('{"vocab": [{"rank": 0, "token_bytes": "AA=="}]}')

    with pytest.raises(ConvertError, match=r"looks like a tekken\.json, which is not read"):
        load_tokenizer(tmp_path / "tekken.json")


def test_a_tokenizer_is_the_same_under_another_name_only(tmp_path):
    file = save_words(tmp_path)
    copy = tmp_path / "copy.json"
    copy.write_bytes(file.read_bytes())
    identity = load_tokenizer(file).identity

    assert same_tokenizer(identity, load_tokenizer(copy).identity)
    assert not same_tokenizer(identity, load_tokenizer(file, end=5).identity)
    assert not same_tokenizer(identity, load_tokenizer("bytes").identity)
    assert describe_tokenizer(load_tokenizer(file, end=5).identity).endswith("vocabulary 6, end token 5)")


def test_no_texts_give_no_ids(tmp_path):
    for spec in ("bytes", save_bpe(tmp_path)):
        for end in (None, 5):
            ids, lengths = load_tokenizer(spec, end=end).encode_documents([])

            assert (ids.dtype, len(ids)) == (np.uint32, 0)
            assert (lengths.dtype, len(lengths)) == (np.int64, 0)


@pytest.mark.parametrize("text", ["a" * 1_000_000, "a cat " * 200_000], ids=["letters", "words"])
def test_a_long_document_is_encoded_whole(tmp_path, text):
    tokenizer = load_tokenizer(save_bpe(tmp_path))

    (ids,) = ids_of(tokenizer, [text])

    assert tokenizer.decode(ids) == text


def test_the_text_that_a_tokenizer_fails_on_is_named(tmp_path):
    """Without a token for unknown words the library gives up."""
    vocabulary = {"a": 0, "b": 1}
    file = save_words(tmp_path, model={"type": "WordLevel", "vocab": vocabulary, "unk_token": "<none>"})
    tokenizer = load_tokenizer(file, end=1)

    with pytest.raises(DocumentError, match=r"tokenizer words\.json fails on the text: .*") as caught:
        tokenizer.encode_documents(["a", "b a", "a what", "b", "what"])

    assert caught.value.index == 2
    assert ids_of(tokenizer, ["a", "b a", "b"]) == [[0, 1], [1, 0, 1], [1, 1]]


def test_text_that_is_no_utf8_is_the_fault_of_its_document():
    with pytest.raises(DocumentError, match="surrogates not allowed") as caught:
        load_tokenizer("bytes").encode_documents(["a", "\ud800"])

    assert caught.value.index == 1


def test_a_lack_of_memory_is_no_fault_of_a_document():
    def encode(texts):
        raise MemoryError

    tokenizer = load_tokenizer("bytes")
    short = replace(tokenizer, model=tokenizer.model._replace(encode=encode))

    with pytest.raises(MemoryError):
        short.encode_documents(["a"])


def test_a_folder_stands_for_the_tokenizer_in_it(tmp_path):
    folder = tmp_path / "small"
    folder.mkdir()
    file = save_words(folder).rename(folder / "tokenizer.json")
    tokenizer = load_tokenizer(folder)

    assert tokenizer.identity == load_tokenizer(file).identity | {"name": "small/tokenizer.json"}


def test_the_spec_loads_the_same_tokenizer_from_any_folder(tmp_path, monkeypatch):
    file = save_words(tmp_path)
    monkeypatch.chdir(tmp_path)
    loaded = load_tokenizer("words.json")
    monkeypatch.chdir("/")

    assert loaded.spec == str(file)
    assert load_tokenizer(loaded.spec).identity == loaded.identity
    assert load_tokenizer("bytes").spec == "bytes"


def save_at_hub(monkeypatch, folder, name: str, commit: str):
    """As if `name` had been fetched before; its branch "main" is at `commit`."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(folder))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    kept = folder / f"models--{name.replace('/', '--')}"
    (kept / "refs").mkdir(parents=True, exist_ok=True)
    (kept / "refs" / "main").write_text(commit)
    (kept / "snapshots" / commit).mkdir(parents=True)
    return kept / "snapshots" / commit


def test_a_tokenizer_of_the_hub_is_pinned_to_its_revision(tmp_path, monkeypatch):
    old, new = "a" * 40, "b" * 40
    file = save_words(save_at_hub(monkeypatch, tmp_path, "us/small", old))
    file.rename(file.with_name("tokenizer.json"))
    loaded = load_tokenizer("hf:us/small", end=5)
    save_bpe(save_at_hub(monkeypatch, tmp_path, "us/small", new)).rename(
        tmp_path / "models--us--small" / "snapshots" / new / "tokenizer.json"
    )

    assert loaded.identity["name"] == "us/small"
    assert loaded.spec == f"hf:us/small@{old}"
    assert load_tokenizer(loaded.spec, end=5).identity == loaded.identity
    assert load_tokenizer("hf:us/small").identity["vocabulary"] == 267
    assert load_tokenizer(f"hf:us/small@{old}").identity["vocabulary"] == 6


def test_a_tokenizer_that_cannot_be_fetched_is_an_error_of_reading(tmp_path, monkeypatch):
    save_at_hub(monkeypatch, tmp_path, "us/small", "a" * 40)

    with pytest.raises(ReadError, match="tokenizer hf:us/other could not be fetched and was not fetched before"):
        load_tokenizer("hf:us/other")
    with pytest.raises(ConvertError, match="tokenizer hf:us/a/b is not at the Hugging Face Hub"):
        load_tokenizer("hf:us/a/b")
