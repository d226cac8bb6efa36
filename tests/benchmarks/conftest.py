"""The settings of a quick benchmark, with its data, for all tests here."""

from dataclasses import replace
from typing import Any

import pytest


@pytest.fixture(scope="session")
def quick_settings(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """One round, and fewer steps yet. Imported late: typeguard instruments flatmix after this file is loaded."""
    from flatmix.bench.settings import quick

    return replace(quick(tmp_path_factory.mktemp("bench"), 1), warm=8, segment=4, steps=12)
