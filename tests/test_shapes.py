"""Types and shapes are checked: everywhere while these tests run, and where arrays are decoded always."""

import jax.numpy as jnp
import numpy as np
import pytest
from processes import outputs, run_python
from typeguard import TypeCheckError

from flatmix.loader.batch import _decode_rows
from flatmix.loader.host import RowFormat
from flatmix.order.windows import window_count

FORM = RowFormat(8, extra_tokens=1)

WRONG = {
    "signed tokens": ((4, 9), "int32", (4,), "int32"),
    "tokens of 16 bits": ((4, 9), "uint16", (4,), "int32"),
    "tokens without rows": ((9,), "uint32", (4,), "int32"),
    "unsigned languages": ((4, 9), "uint32", (4,), "uint32"),
    "languages in a column": ((4, 9), "uint32", (4, 1), "int32"),
    "a language more than rows": ((4, 9), "uint32", (5,), "int32"),
}


def test_the_decoder_takes_tokens_and_languages():
    batch = _decode_rows(FORM, jnp.zeros((4, 9), jnp.uint32), jnp.zeros(4, jnp.int32))
    assert batch.inputs.shape == batch.loss_mask.shape == (4, 8)


@pytest.mark.parametrize("what", WRONG)
def test_the_decoder_refuses_other_shapes_and_types(what: str):
    shape, dtype, rows, kind = WRONG[what]
    with pytest.raises(TypeCheckError, match=r"rows|language"):
        _decode_rows(FORM, jnp.zeros(shape, dtype), jnp.zeros(rows, kind))


def test_the_decoder_refuses_numpy_arrays():
    with pytest.raises(TypeCheckError):
        _decode_rows(FORM, np.zeros((4, 9), np.uint32), np.zeros(4, np.int32))


PLAIN = """
import jax.numpy as jnp
from flatmix.loader.batch import _decode_rows
from flatmix.loader.host import RowFormat
from flatmix.loader.host import RowFormat
from flatmix.order.windows import window_count
from typeguard import TypeCheckError
assert window_count(8.0, 8, 8) == 1  # nothing is instrumented here
try:
    _decode_rows(RowFormat(8, extra_tokens=1), jnp.zeros((4, 9), jnp.uint32), jnp.zeros(5, jnp.int32))
except TypeCheckError as error:
    print(error)
"""


def test_the_decoder_refuses_them_outside_of_tests_too():
    assert "language" in outputs(run_python(PLAIN))[0]


def test_these_tests_check_the_types_of_every_function():
    with pytest.raises(TypeCheckError, match="tokens"):
        window_count(8.0, 8, 8)
