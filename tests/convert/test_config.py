"""Conversion files: what they say is what `convert` takes, and what is wrong is refused with file, line and key."""

from pathlib import Path

import pytest

from flatmix.convert import SourceSpec
from flatmix.convert.config import Config, load_config
from flatmix.errors import ConvertError

FULL = """\
tokenizer = "tokenizer.json"
begin_token = 1
end_token = "</s>"
compression = "small"
zarr_format = 2
strict = true

[hold_out]
validation = 0.01
test = 0.02

[[source]]
language = "en"
data = ["en/*.jsonl", "hf:wikimedia/wikipedia:20231101.en", "s3://bucket/en"]
download = true

[[source]]
language_field = "lang"
data = "/data/mixed.jsonl"
text_field = "content"
split = "dev"

[[source]]
language = "nan"
data = "old/train.bin"
tokens = { type = "uint16", document_end = 50256 }
"""
LEAST = """\
[[source]]
language = "en"
data = "en.jsonl"
"""


def load(folder: Path, text: str) -> Config:
    (folder / "c.toml").write_text(text, encoding="utf-8")
    return load_config(folder / "c.toml")


def test_everything_that_a_file_can_say(tmp_path: Path) -> None:
    assert load(tmp_path, FULL) == Config(
        sources=(
            SourceSpec(
                data=[f"{tmp_path}/en/*.jsonl", "hf:wikimedia/wikipedia:20231101.en", "s3://bucket/en"],
                language="en",
                download=True,
            ),
            SourceSpec(data=["/data/mixed.jsonl"], language_field="lang", text_field="content", split="dev"),
            SourceSpec(
                data=[f"{tmp_path}/old/train.bin"],
                language="nan",
                tokens={"type": "uint16", "document_end": 50256},
            ),
        ),
        tokenizer=f"{tmp_path}/tokenizer.json",
        begin_token=1,
        end_token="</s>",
        hold_out={"validation": 0.01, "test": 0.02},
        strict=True,
        zarr_format=2,
        compression="small",
    )


def test_a_language_and_its_data_are_enough(tmp_path: Path) -> None:
    assert load(tmp_path, LEAST) == Config(sources=(SourceSpec(data=[f"{tmp_path}/en.jsonl"], language="en"),))


def test_paths_count_from_the_folder_of_the_file_wherever_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs/c.toml").write_text(LEAST)
    monkeypatch.chdir(tmp_path)

    assert load_config("jobs/c.toml").sources[0].data == [f"{tmp_path}/jobs/en.jsonl"]


def test_a_glob_means_what_it_says_in_a_folder_whose_name_looks_like_one(tmp_path: Path) -> None:
    folder = tmp_path / "[ab]"
    folder.mkdir()

    assert load(folder, LEAST.replace("en.jsonl", "*.jsonl")).sources[0].data == [f"{tmp_path}/[[]ab]/*.jsonl"]
    (folder / "x[1].jsonl").write_text("")
    assert load(folder, LEAST.replace("en.jsonl", "x[1].jsonl")).sources[0].data == [f"{folder}/x[1].jsonl"]


@pytest.mark.parametrize("given", ["bytes", "hf:openai-community/gpt2", "s3://bucket/tokenizer.json"])
def test_a_tokenizer_that_is_no_path_stays_as_it_is(tmp_path: Path, given: str) -> None:
    assert load(tmp_path, f'tokenizer = "{given}"\n{LEAST}').tokenizer == given


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "c.toml: source is missing: write [[source]], with its language and its data"),
        ("[source]\nlanguage = 'en'", "c.toml, line 1: source must be tables: write [[source]]"),
        ("source = 3", "c.toml, line 1: source must be tables"),
        ("[[source]]\nlanguage = en", "c.toml is not TOML: Invalid value (at line 2, column 12)"),
        ("split = 'dev'\n" + LEAST, "c.toml, line 1: split is not known: a conversion file takes tokenizer, begin_"),
        (LEAST + "store = 's'", "c.toml, line 4: source[0].store is not known: a source takes data, language, "),
        ("[[source]]\nlanguage = 'en'", "c.toml, line 1: source[0].data is missing: name files, as in data = "),
        ("[[source]]\ndata = 'a'", "c.toml, line 1: source[0] has neither language nor language_field: say one of"),
        (LEAST + "language_field = 'l'", "c.toml, line 1: source[0] has both language and language_field"),
        (LEAST.replace('"en"', "nan"), "c.toml, line 2: source[0].language is nan: a name is text, in quotes"),
        (LEAST.replace('"en"', "false"), "c.toml, line 2: source[0].language is false: a name is text, in quotes"),
        (LEAST.replace('"en"', '"a/b"'), "c.toml, line 2: 'a/b' cannot name a language: it holds one of"),
        (LEAST + 'split = "."', "c.toml, line 4: '.' cannot name a split"),
        (LEAST + LEAST, "c.toml, line 4: source[1] is of en/train, as source[0] is; name all its data there"),
        (LEAST.replace('"en.jsonl"', "[]"), "c.toml, line 3: source[0].data is empty: name at least one file"),
        (LEAST.replace('"en.jsonl"', '["a", 3]'), "c.toml, line 3: source[0].data[1] is 3: text in quotes is needed"),
        (LEAST.replace("en.jsonl", ""), "c.toml, line 3: source[0].data is empty"),
        (LEAST + "download = 1", "c.toml, line 4: source[0].download is 1: true or false is needed, without quotes"),
        (LEAST + "tokens = 'uint16'", "c.toml, line 4: source[0].tokens is 'uint16': a table is needed, as in {"),
        (LEAST + "tokens = { typ = 'uint16' }", "c.toml, line 4: tokens: tokens have no setting 'typ'; there are"),
        (LEAST + "tokens = { type = 'int8' }", "c.toml, line 4: tokens: the type of tokens must be uint16 or uint32"),
        ("end_token = true\n" + LEAST, "c.toml, line 1: end_token is true: the text of a token, or its id, is needed"),
        ("tokenizer = 3\n" + LEAST, "c.toml, line 1: tokenizer is 3: text in quotes is needed"),
        ("strict = 'yes'\n" + LEAST, "c.toml, line 1: strict is 'yes': true or false is needed"),
        ("zarr_format = 4\n" + LEAST, "c.toml, line 1: zarr_format must be 3, or 2 for readers"),
        ("zarr_format = '3'\n" + LEAST, "c.toml, line 1: zarr_format is '3': 3 or 2 is needed, without quotes"),
        ("compression = 'zip'\n" + LEAST, "c.toml, line 1: compression must be 'fast' or 'small', not 'zip'"),
        ("hold_out = 0.1\n" + LEAST, "c.toml, line 1: hold_out is 0.1: a table of shares is needed, as in {"),
        ("[hold_out]\ntest = 1.5\n" + LEAST, "c.toml, line 2: hold out test=1.5: a share of the documents lies"),
        ("[hold_out]\ntest = '1%'\n" + LEAST, "c.toml, line 2: hold_out.test is '1%': a share of the documents is a"),
        ("[hold_out]\na = 0.5\nb = 0.5\n" + LEAST, "c.toml, line 1: hold out: the shares"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConvertError) as refused:
        load(tmp_path, text)

    assert str(refused.value).startswith(f"{tmp_path}/{message}")


def test_a_file_that_is_not_there_is_an_error_of_the_system(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_config(tmp_path / "c.toml")
