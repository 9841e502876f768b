"""Preferences: one small file, whatever happens to it."""

import pytest

from napari_maskinversion.base.cache_folder import cache_folder, is_offline
from napari_maskinversion.base.errors import ConfigError, OfflineError
from napari_maskinversion.base.preferences import (
    DEFAULTS,
    FILE,
    Preferences,
    load,
    save,
)
from napari_maskinversion.engine.models.registry import fetch
from napari_maskinversion.language.labels.label import SAFE_COLORS, fill_colors


def test_what_is_saved_is_what_is_loaded(own_config_folder):
    assert load() == DEFAULTS
    chosen = Preferences(model="demo", device="cpu", live=True, heatmap="magma", offline=True)
    save(chosen)
    assert load() == chosen
    assert [path.name for path in own_config_folder.iterdir()] == [FILE.name]
    save(DEFAULTS)
    assert load() == DEFAULTS


def test_the_cache_folder_preferred_is_used_and_the_environment_wins(monkeypatch, tmp_path):
    save(Preferences(cache_folder=str(tmp_path / "mine")))
    assert cache_folder() != tmp_path / "mine"  # the tests' own variable
    monkeypatch.delenv("NAPARI_MASKINVERSION_CACHE")
    assert cache_folder() == tmp_path / "mine"


def test_offline_fetches_nothing(monkeypatch, no_network):
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    assert not is_offline()
    save(Preferences(offline=True))
    assert is_offline()
    with pytest.raises(OfflineError, match="offline mode is on"):
        fetch("ViT-B-32/openai")


@pytest.mark.parametrize(
    "values",
    [
        {"palette": "no-such"},
        {"heatmap": "pink"},
        {"offline": "yes"},
        {"cache_folder": "a/b"},
        {"cache_folder": "~nobody-of-this-name/cache"},
    ],
)
def test_what_cannot_work_is_refused_and_in_a_file_left_out(values):
    ((name, value),) = values.items()
    with pytest.raises(ConfigError, match=rf"^{name}\b.+; got {value!r}\.$"):
        Preferences(**values)
    FILE.write({"device": "cpu"} | values)
    assert load() == Preferences(device="cpu")


def test_a_file_of_an_older_or_other_version_still_opens():
    napari_page = {"model": "demo", "heatmap": "hot"}  # kept by 0.1 to compare with
    FILE.write({"heatmap": "magma", "no_longer_known": 1, "napari": napari_page})
    assert load() == Preferences(heatmap="magma")
    save(load())
    assert set(FILE.read()[0]) == set(Preferences.model_fields)


@pytest.mark.parametrize(
    ("text", "said"),
    [("{", "cannot be read"), ("[]", "cannot be read"), ('{"format": 99}', "newer version")],
)
def test_a_broken_or_newer_file_is_ignored_in_one_line_and_put_aside(own_config_folder, text, said):
    FILE.path.write_text(text)
    assert load() == DEFAULTS
    problem = FILE.read()[1]
    assert said in problem
    assert "\n" not in problem
    save(Preferences(live=True))
    assert load().live
    assert (own_config_folder / f"{FILE.name}.ignored").read_text() == text


def test_safe_colours_come_first_and_given_ones_stay():
    filled = fill_colors(["", "#123456", ""], SAFE_COLORS)
    assert filled == (SAFE_COLORS[0], "#123456", SAFE_COLORS[2])
    assert fill_colors([""]) != (SAFE_COLORS[0],)
    assert len(set(fill_colors([""] * 20, SAFE_COLORS))) == 20
