"""A model of SentencePiece gives the ids that its own library gives, and nothing comes from a text but its pieces."""

import hashlib
import sys

import numpy as np
import pytest
import sentencepiece
from tokenizer_files import save_sentence_piece

from flatmix.convert.tokenizer import load_tokenizer
from flatmix.errors import ConvertError

TEXTS = ["the cat and the hat", "", " two  spaces ", "世界 \U0001f600 a\x00b\nc", "ﬁ Ａ"]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_sentence_piece(tmp_path_factory.mktemp("model"))


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_ids_are_those_of_the_library(tmp_path, model_type):
    file = save_sentence_piece(tmp_path, model_type=model_type)
    library = sentencepiece.SentencePieceProcessor(model_file=str(file))
    ids, lengths = load_tokenizer(file).encode_documents(TEXTS)

    assert (ids.dtype, lengths.dtype) == (np.uint32, np.int64)
    assert lengths.tolist() == [len(library.encode(text)) for text in TEXTS]
    assert ids.tolist() == [i for text in TEXTS for i in library.encode(text)]


def test_identity_is_that_of_the_file(model):
    tokenizer = load_tokenizer(model, begin="<s>", end="</s>")
    library = sentencepiece.SentencePieceProcessor(model_file=str(model))

    assert tokenizer.identity == {
        "name": "tokenizer.model",
        "sha256": hashlib.sha256(model.read_bytes()).hexdigest(),
        "vocabulary": library.get_piece_size(),
        "added": {"begin": {"id": 1, "token": "<s>"}, "end": {"id": 2, "token": "</s>"}},
    }
    assert load_tokenizer(model.parent).identity["sha256"] == tokenizer.identity["sha256"]


def test_begin_and_end_tokens_come_once(model):
    plain, lengths = load_tokenizer(model).encode_documents(TEXTS)
    ids, longer = load_tokenizer(model, begin="<s>", end=2).encode_documents(TEXTS)

    assert (longer - lengths).tolist() == [2] * len(TEXTS)
    for text, before in zip(
        np.split(ids, np.cumsum(longer)[:-1]), np.split(plain, np.cumsum(lengths)[:-1]), strict=True
    ):
        assert text.tolist() == [1, *before.tolist(), 2]


def test_a_symbol_comes_from_a_text_only_if_it_was_defined_for_users(model):
    tokenizer = load_tokenizer(model)
    text = "a<s></s><0x41><unk>b"
    ids, _ = tokenizer.encode_documents([text])
    found, _ = tokenizer.encode_documents(["a<user>b"])

    assert not {0, 1, 2} & set(ids.tolist())
    assert tokenizer.decode(ids) == text
    assert "<user>" in [tokenizer.model.find_token(int(i)) for i in found]


def test_control_symbols_are_shown_when_decoded(model):
    tokenizer = load_tokenizer(model, begin=1, end=2)
    ids, _ = tokenizer.encode_documents(["the cat", "a mat"])

    assert tokenizer.decode(ids) == "<s>the cat</s><s>a mat</s>"
    with pytest.raises(ValueError, match=r"ids -1 to 5 are not all of .*tokenizer\.model, which has 0 to "):
        tokenizer.decode([5, -1])


def test_a_token_that_is_not_there_is_refused(model):
    """The library has the unknown token's id for it."""
    with pytest.raises(ConvertError, match="the end token '<nope>' is not in the vocabulary"):
        load_tokenizer(model, end="<nope>")
    assert load_tokenizer(model, end="<unk>").identity["added"]["end"]["id"] == 0
    with pytest.raises(ConvertError, match=r"the begin token 99999 is no id of tokenizer\.model"):
        load_tokenizer(model, begin=99999)


def test_a_long_document_is_encoded_whole(model):
    tokenizer = load_tokenizer(model)

    for text in ("a" * 500_000, "the cat" + " sat" * 200_000):
        assert tokenizer.decode(tokenizer.encode_documents([text])[0]) == text


def test_without_the_library_the_extra_is_named(model, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)

    with pytest.raises(ConvertError, match=r'sentencepiece is not installed: pip install "flatmix\[sentencepiece\]"'):
        load_tokenizer(model)


def test_a_model_that_was_cut_short_is_refused(model, tmp_path):
    (tmp_path / "short.model").write_bytes(model.read_bytes()[:-100])

    with pytest.raises(ConvertError, match=r"short\.model is not a tokenizer\.json, nor a model of SentencePiece"):
        load_tokenizer(tmp_path / "short.model")
