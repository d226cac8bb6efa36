"""Small files of tokenizers, made on the spot; those of the `tokenizers` library are in `converted`."""

import base64
import io
import json
from pathlib import Path

SENTENCES = ["the cat and the hat and the rat", "a cat sat on the mat", "what a fat rat"] * 20


def save_sentence_piece(folder: Path, name: str = "tokenizer.model", **options) -> Path:
    """300 pieces with all bytes among them, <s> and </s> as control symbols, and <user> as a symbol of its user."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES),
        model_writer=model,
        minloglevel=2,
        num_threads=1,
        **{
            "vocab_size": 300,
            "model_type": "bpe",
            "byte_fallback": True,
            "character_coverage": 1.0,
            "user_defined_symbols": ["<user>"],
            "hard_vocab_limit": False,
            **options,
        },
    )
    file = folder / name
    file.write_bytes(model.getvalue())
    return file


def rank_lines(tokens: list[bytes]) -> bytes:
    return b"".join(base64.b64encode(token) + b" %d\n" % rank for rank, token in enumerate(tokens))


def save_ranks(folder: Path, name: str = "small.tiktoken", rules: dict | None = None) -> Path:
    """The bytes are 0 to 255, "th" 256, "the" 257; <|end|> is 300. Words are split off with the space before them."""
    file = folder / name
    file.write_bytes(rank_lines([bytes([i]) for i in range(256)] + [b"th", b"the"]))
    said = {"pat_str": r" ?\p{L}+|\s|[^\s\p{L}]+", "special_tokens": {"<|end|>": 300}} if rules is None else rules
    file.with_name(name + ".json").write_text(json.dumps(said))
    return file
