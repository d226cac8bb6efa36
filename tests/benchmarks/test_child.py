"""Measurements in a new process: what it found comes back, and so does the reason why it found nothing."""

from dataclasses import replace
from pathlib import Path

import pytest

from flatmix.bench import child
from flatmix.bench.child import ChildFailed, run_child
from flatmix.bench.settings import Settings, full, quick


@pytest.mark.parametrize("make", [full, quick])
def test_settings_reach_a_child_unchanged(make):
    settings = make(Path("/somewhere/else"), 3)

    assert Settings.from_json(settings.as_json()) == settings


def test_a_child_that_fails_gives_its_last_words(quick_settings: Settings, tmp_path: Path):
    (tmp_path / quick_settings.four_recipe.folder).mkdir()

    with pytest.raises(ChildFailed, match=r"the new process failed: ValueError: .*four-quick-\w+ is not the corpus"):
        run_child("fresh", replace(quick_settings, folder=tmp_path))


def test_a_child_that_hangs_is_ended(quick_settings: Settings, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(child, "_LIMIT", 0.1)

    with pytest.raises(ChildFailed, match=r"was not done after 0\.1 s"):
        run_child("fresh", quick_settings)
