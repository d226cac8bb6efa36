"""A model of SentencePiece (tokenizer.model, *.model) -> Model, by the `sentencepiece` library.

Normalisation, as of spaces and of width, is the model's. Control symbols such as "<s>" never come from a text; symbols
that the maker of the model defined for users do, because the library finds them before all else.
"""

import numpy as np

from flatmix.convert.models import Model, gather
from flatmix.errors import ConvertError


def load(name: str, definition: bytes) -> Model:
    try:
        import sentencepiece  # here, because it is an extra
    except ImportError:
        raise ConvertError(
            f"tokenizer {name} is a model of SentencePiece, and sentencepiece is not installed: pip install "
            '"flatmix[sentencepiece]"'
        ) from None
    library = sentencepiece.SentencePieceProcessor()
    try:
        library.LoadFromSerializedProto(definition)
    except Exception as error:  # the library raises no narrower kind
        raise ConvertError(
            f"tokenizer {name} is not a tokenizer.json, nor a model of SentencePiece, nor a rank file of tiktoken: "
            f"{error}"
        ) from error
    vocabulary = library.get_piece_size()

    def find_id(token: str) -> int | None:
        token_id = library.piece_to_id(token)  # that of the unknown, for what is not there
        return token_id if find_token(token_id) == token else None

    def find_token(token_id: int) -> str | None:
        return library.id_to_piece(token_id) if 0 <= token_id < vocabulary else None

    def encode(texts: list[str]) -> tuple[np.ndarray, np.ndarray]:
        return gather(
            library.encode(texts, out_type=int, add_bos=False, add_eos=False, enable_sampling=False, num_threads=1)
        )

    def decode(ids: list[int]) -> str:
        if any(not 0 <= i < vocabulary for i in ids):
            raise ValueError(f"ids {min(ids)} to {max(ids)} are not all of {name}, which has 0 to {vocabulary - 1}")
        text: list[str] = []
        run: list[int] = []
        for i in ids:  # the library leaves control symbols out
            if library.is_control(i):
                text += [library.decode(run), library.id_to_piece(i)]
                run = []
            else:
                run.append(i)
        return "".join([*text, library.decode(run)])

    return Model(vocabulary, find_id, find_token, encode, decode)
