"""The texts of the demo are the messages of django's catalogues, all of them, and need nothing but its files."""

import gettext
import importlib.util
import json
import sys
from pathlib import Path

import pytest

from flatmix.demo import texts
from flatmix.errors import ConvertError

DJANGO = Path(importlib.util.find_spec("django").submodule_search_locations[0])


def read_texts(file: Path) -> list[str]:
    return [json.loads(line)["text"] for line in file.read_bytes().decode().split("\n")[:-1]]


def test_every_default_language_gives_a_file_of_texts_in_its_script(tmp_path):
    files = texts.write_demo_texts(tmp_path / "texts")

    assert tuple(files) == texts.DEMO_LANGUAGES
    scripts = {
        "ar": "ا",
        "el": "α",
        "hi": "क",
        "ja": "の",
        "ka": "ა",
        "ko": "이",
        "ru": "а",
        "th": "ก",
        "zh_Hans": "的",
    }
    for language, file in files.items():
        assert file == tmp_path / "texts" / f"{language}.jsonl"
        found = read_texts(file)
        assert len(found) > 500
        assert sum(len(text.encode()) for text in found) > 15_000
        assert all(text.strip() for text in found)
        assert scripts.get(language, "e") in "".join(found)
        assert not any("Project-Id-Version" in text for text in found)


def test_the_same_texts_come_in_the_same_order_every_time(tmp_path, monkeypatch):
    first = texts.write_demo_texts(tmp_path / "1", ["sw"])["sw"].read_bytes()
    listed = Path.rglob
    monkeypatch.setattr(Path, "rglob", lambda self, pattern: sorted(listed(self, pattern), reverse=True))

    assert texts.write_demo_texts(tmp_path / "2", ["sw"])["sw"].read_bytes() == first


@pytest.mark.parametrize("language", ["ar", "ka", "ru"])
def test_messages_are_those_of_the_compiled_catalogues(tmp_path, language):
    """gettext, reading what the translators' own tool compiled, finds each message, and no other."""
    (file,) = texts.write_demo_texts(tmp_path, [language]).values()
    compiled: set[str] = set()
    for catalogue in DJANGO.rglob(f"{language}/LC_MESSAGES/*.mo"):
        with catalogue.open("rb") as opened:
            compiled |= {text for key, text in gettext.GNUTranslations(opened)._catalog.items() if key}

    assert set(read_texts(file)) == {text for text in compiled if text.strip()}


def test_english_is_the_message_ids_with_their_plurals(tmp_path):
    found = set(read_texts(texts.write_demo_texts(tmp_path, ["en"])["en"]))

    assert {"Site Maps", "%(num)d year", "%(num)d years"} <= found


def test_a_catalogue_is_read_with_its_plurals_contexts_and_escapes():
    catalogue = """
# a comment
msgid ""
msgstr ""
"Language: xx\\n"

#, python-format
msgctxt "a context"
msgid "one \\"two\\""
msgstr ""
"eins "
"\\"zwei\\"\\n"

#, fuzzy
msgid "guessed"
msgstr "geraten"

msgid "%d day"
msgid_plural "%d days"
msgstr[0] "%d Tag"
msgstr[1] "%d Tage"

#~ msgid "old"
#~ msgstr "alt"
"""

    assert list(texts._messages(catalogue)) == [
        {"msgid": "", "msgstr": "Language: xx\n"},
        {"msgctxt": "a context", "msgid": 'one "two"', "msgstr": 'eins "zwei"\n'},
        {"msgid": "%d day", "msgid_plural": "%d days", "msgstr[0]": "%d Tag", "msgstr[1]": "%d Tage"},
    ]


def test_a_language_without_messages_is_refused_and_nothing_is_written(tmp_path):
    with pytest.raises(ConvertError, match="django has no messages in 'xx'"):
        texts.write_demo_texts(tmp_path / "texts", ["en", "xx"])
    assert not (tmp_path / "texts").exists()


def test_without_django_the_way_to_get_it_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    with pytest.raises(ConvertError, match=r"pip install 'flatmix\[demo\]'"):
        texts.write_demo_texts(tmp_path)


def test_django_itself_is_not_imported(tmp_path):
    texts.write_demo_texts(tmp_path, ["sw"])

    assert "django" not in sys.modules
