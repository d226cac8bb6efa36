"""language -> a file of short texts: the messages of django's translation catalogues, parallel in 99 languages.

They come with one package (the extra `demo`), so that a first store in many scripts needs no download of its own.
Only the files are read; django itself is not imported. The texts of English are the catalogues' message ids. A
language gives 25 to 80 kB.
"""

import ast
import importlib.util
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from flatmix.errors import ConvertError

DEMO_LANGUAGES = ("en", "ar", "el", "hi", "ja", "ka", "ko", "ru", "sw", "th", "zh_Hans")


def write_demo_texts(folder: str | Path, languages: Sequence[str] = DEMO_LANGUAGES) -> dict[str, Path]:
    """Write `<folder>/<language>.jsonl` for each language, a record `{"text": ...}` a message; returns the files.

    Messages stand in the order of the catalogues, sorted by path; those without a translation are left out, and each
    form of a plural is a record. Raises ConvertError without django and for a language it does not have.
    """
    root = django_folder()
    texts = {language: list(_texts(root, language)) for language in languages}
    Path(folder).mkdir(parents=True, exist_ok=True)
    files: dict[str, Path] = {}
    for language, messages in texts.items():
        files[language] = Path(folder) / f"{language}.jsonl"
        lines = [json.dumps({"text": message}, ensure_ascii=False) + "\n" for message in messages]
        files[language].write_bytes("".join(lines).encode())
    return files


def django_folder() -> Path:
    """Where django is installed; ConvertError where it is not."""
    found = importlib.util.find_spec("django")
    if found is None or not found.submodule_search_locations:
        raise ConvertError("the demo's texts come with django, which is not there: pip install 'flatmix[demo]'")
    return Path(found.submodule_search_locations[0])


def _texts(root: Path, language: str) -> Iterator[str]:
    catalogues = [file for file in root.rglob("*.po") if file.parts[-3:-1] == (language, "LC_MESSAGES")]
    if not catalogues:
        raise ConvertError(f"django has no messages in {language!r}; see the folders in {root / 'conf' / 'locale'}")
    prefix = "msgid" if language == "en" else "msgstr"  # the ids are English
    for catalogue in sorted(catalogues, key=lambda file: file.relative_to(root).parts):
        for message in _messages(catalogue.read_text(encoding="utf-8")):
            forms = [text for key, text in message.items() if key.startswith(prefix)]
            if message["msgid"] != "":  # that of "" is the catalogue's header
                yield from dict.fromkeys(text for text in forms if text.strip())


def _messages(catalogue: str) -> Iterator[dict[str, str]]:
    """The messages of a .po file, {"msgid": ..., "msgid_plural": ..., "msgstr": ... or "msgstr[0]": ...} each.

    A string may go on over several lines, each in quotes, with C's escapes. Fuzzy messages are guesses of a tool and
    are left out, as are obsolete ones, which are comments.
    """
    for paragraph in catalogue.split("\n\n"):
        message: dict[str, str] = {}
        key = ""
        fuzzy = False
        for line in paragraph.split("\n"):
            if line.startswith("#"):
                fuzzy = fuzzy or (line.startswith("#,") and "fuzzy" in line)
            elif line.startswith("msg"):
                key, _, quoted = line.partition(" ")
                message[key] = ast.literal_eval(quoted)
            elif line.startswith('"'):
                message[key] += ast.literal_eval(line)
        if "msgid" in message and not fuzzy:
            yield message
