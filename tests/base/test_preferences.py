"""Preferences: one small file, whatever happens to it."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from napari_maskinversion.base.cache_folder import cache_folder, is_offline
from napari_maskinversion.base.config_parts import PREFERENCES, ConfigPart, save
from napari_maskinversion.base.errors import ConfigError, OfflineError
from napari_maskinversion.base.preferences import (
    DEFAULTS,
    FILE,
    Preferences,
    load,
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
    PREFERENCES.write({"device": "cpu"} | values)
    assert load() == Preferences(device="cpu")


def test_a_file_of_an_older_or_other_version_still_opens():
    napari_page = {"model": "demo", "heatmap": "hot"}  # kept by 0.1 to compare with
    PREFERENCES.write({"heatmap": "magma", "no_longer_known": 1, "napari": napari_page})
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


PANEL = ConfigPart(("panel",), former="panel.json")
LIMITS = ConfigPart(("limits", "abc"), former="flags/abc.json")


def test_each_part_of_the_file_changes_alone(own_config_folder):
    save(Preferences(device="cpu"))
    PANEL.write({"tab": "review"})
    LIMITS.write({"margin": 0.1})
    ConfigPart(("limits", "abd")).write({"margin": 0.2})
    save(Preferences(model="demo"))
    assert load() == Preferences(model="demo")
    assert PANEL.read() == ({"tab": "review"}, "")
    assert LIMITS.read() == ({"margin": 0.1}, "")
    PANEL.write({"tab": "label"})
    PANEL.remove()
    assert PANEL.read() == ({}, "")
    assert LIMITS.read() == ({"margin": 0.1}, "")
    assert load() == Preferences(model="demo")
    assert [path.name for path in own_config_folder.iterdir()] == [FILE.name]


def test_a_part_that_had_a_file_of_its_own_moves_with_its_first_write(own_config_folder):
    (own_config_folder / "flags").mkdir()
    PANEL.former_file.write_text('{"format": 1, "tab": "review"}')
    LIMITS.former_file.write_text('{"format": 1, "margin": 0.1}')
    for _ in range(2):  # reading leaves it where it is
        assert PANEL.read() == ({"tab": "review"}, "")
    PANEL.write({"tab": "label"})
    assert PANEL.read() == ({"tab": "label"}, "")
    assert not PANEL.former_file.exists()
    assert LIMITS.read() == ({"margin": 0.1}, "")
    LIMITS.remove()
    assert LIMITS.read() == ({}, "")


def test_windows_that_write_at_once_lose_no_part():
    parts = [ConfigPart(("limits", f"model-{number}")) for number in range(8)]
    with ThreadPoolExecutor(8) as windows:
        for turn in range(3):
            list(windows.map(lambda part, turn=turn: part.write({"margin": turn}), parts))
            assert [part.read() for part in parts] == [({"margin": turn}, "")] * 8


def test_safe_colours_come_first_and_given_ones_stay():
    filled = fill_colors(["", "#123456", ""], SAFE_COLORS)
    assert filled == (SAFE_COLORS[0], "#123456", SAFE_COLORS[2])
    assert fill_colors([""]) != (SAFE_COLORS[0],)
    assert len(set(fill_colors([""] * 20, SAFE_COLORS))) == 20
