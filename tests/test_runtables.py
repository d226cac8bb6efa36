"""The tables of a run file and their page name the same keys. What they refuse is shown in test_runfile.py."""

import re
from pathlib import Path

import msgspec
import pytest

from flatmix.runtables import _TABLES

PAGE = (Path(__file__).parents[1] / "docs" / "run-files.md").read_text(encoding="utf-8")
SECTIONS = {
    heading.strip("`[]"): dict(re.findall(r"^\| `(\w+)` \|[^|]*\| ([^|]*) \|", section, re.MULTILINE))
    for heading, section in re.findall(r"^### (\S+)\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL)
}


def test_every_table_has_its_section():
    assert SECTIONS.keys() | {""} == _TABLES.keys()


@pytest.mark.parametrize("table", SECTIONS)
def test_every_key_and_whether_it_is_required_stands_on_the_page(table: str):
    fields = msgspec.structs.fields(_TABLES[table])

    assert list(SECTIONS[table]) == [field.name for field in fields]
    assert {name for name, default in SECTIONS[table].items() if default == "required"} == {
        field.name for field in fields if field.required
    }
