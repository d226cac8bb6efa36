"""Lines of keys: what people write in a TOML file is found, and nothing else is taken for it."""

import tomllib
from pathlib import Path

import pytest

from flatmix.tomlfile import dotted, key_lines, read_toml

TEXT = """\
top = 1   # a key before all tables
[a]
plain = 1
"quoted.key" = 2
'literal' = 3
dotted.below = 4
  indented=5
inline = { x = 1, y.z = 2 }
# commented = 6

[a.b."c.d"] # a comment
no = true
[[list]]
step = 1
[list.weights]
en = 1
[[list]]
step = 2
weights = { en = 1 }
several = [
  1,
  2,
]
after = "a # = b"
"""


def test_the_line_of_every_key_is_found():
    assert key_lines(TEXT) == {
        ("top",): 1,
        ("a",): 2,
        ("a", "plain"): 3,
        ("a", "quoted.key"): 4,
        ("a", "literal"): 5,
        ("a", "dotted"): 6,
        ("a", "dotted", "below"): 6,
        ("a", "indented"): 7,
        ("a", "inline"): 8,
        ("a", "inline", "x"): 8,
        ("a", "inline", "y"): 8,
        ("a", "inline", "y", "z"): 8,
        ("a", "b", "c.d"): 11,
        ("a", "b", "c.d", "no"): 12,
        ("list", 0): 13,
        ("list", 0, "step"): 14,
        ("list", 0, "weights"): 15,
        ("list", 0, "weights", "en"): 16,
        ("list", 1): 17,
        ("list", 1, "step"): 18,
        ("list", 1, "weights"): 19,
        ("list", 1, "weights", "en"): 19,
        ("list", 1, "several"): 20,
        ("list", 1, "after"): 24,
    }


def test_every_key_that_is_found_is_one_of_the_file():
    values = tomllib.loads(TEXT)
    for keys in key_lines(TEXT):
        value = values
        for key in keys:
            value = value[key]


def test_windows_line_ends_change_no_line():
    assert key_lines(TEXT.replace("\n", "\r\n")) == key_lines(TEXT)


@pytest.fixture
def file(tmp_path: Path):
    path = tmp_path / "a.toml"
    path.write_text(TEXT)
    return read_toml(path)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (("a", "plain"), ", line 3: a.plain is odd"),
        (("list", 1, "weights", "sw"), ", line 19: list[1].weights.sw is odd"),  # not there: the line of its table
        (("list", 1, "several", 1), ", line 20: list[1].several[1] is odd"),
        (("absent",), ": absent is odd"),
    ],
)
def test_an_error_names_the_file_the_line_and_the_key(file, keys, message):
    assert str(file.error(keys, "is odd")) == f"{file.path}{message}"


def test_an_error_of_a_setting_gets_its_line(file):
    with pytest.raises(ValueError, match=r"^\S+/a\.toml, line 3: plain is 1: too plain$"), file.settings("list", "a"):
        raise ValueError("plain is 1: too plain")
    with pytest.raises(ValueError, match=r"^\S+/a\.toml, line 2: other is 1$"), file.settings("a", keys=("a",)):
        raise ValueError("other is 1")
    with pytest.raises(ValueError, match=r"^\S+/a\.toml: other is 1$"), file.settings("a"):
        raise ValueError("other is 1")


def test_key_paths_are_written_as_in_python():
    assert dotted(("mixture", "phases", 0, "step")) == "mixture.phases[0].step"
    assert dotted(("x",)) == "x"


def test_broken_files_are_refused_by_name_and_place(tmp_path: Path):
    file = tmp_path / "broken.toml"
    for content, message in (
        (b"a = 1\nb = \n", r"broken\.toml is not TOML: .*line 2, column 5"),
        (b"a = 1\na = 2\n", r"broken\.toml is not TOML: Cannot overwrite a value"),
        (b"a = '\xff'", r"broken\.toml is not TOML: byte 5 is not UTF-8"),
    ):
        file.write_bytes(content)
        with pytest.raises(ValueError, match=message):
            read_toml(file)
    with pytest.raises(ValueError, match="is a folder: a TOML file is needed"):
        read_toml(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"none\.toml"):
        read_toml(tmp_path / "none.toml")
