"""Files of earlier versions with a setting that is gone: they open, and a line says so."""

import warnings

import pytest
import yaml

from napari_maskinversion.batch.project import FORMAT, VERSION, read_project
from napari_maskinversion.results.export.archive import open_archive
from napari_maskinversion.results.settings import without_dropped
from tests.test_earlier_files import EARLIER

GONE = "multi_scale"


def test_an_archive_opens_and_one_line_says_what_does_nothing():
    with pytest.warns(UserWarning, match=r"multi_scale \(on\) does nothing any more") as warned:
        results = open_archive(EARLIER / "results.npz").results
    assert results.info.settings.inversion.steps == 4
    assert len(warned) == 1


def test_a_limit_that_is_gone_is_named_only_where_it_was_used():
    for odds, lines in ((None, 0), (3, 1)):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            for values in ({"unsure": {"tokens": 1.0, "odds": odds}}, {"unsure.odds": odds}):
                assert "odds" not in str(without_dropped(values, "It"))
        assert [str(one.message) for one in warned] == 2 * lines * [
            "It: the setting unsure.odds (3) does nothing any more; unsure.margin takes its place."
        ]


@pytest.mark.parametrize(("value", "model", "lines"), [("auto", "demo", 1), ("auto", "other", 0)])
def test_what_made_no_difference_is_not_worth_a_line(value, model, lines):
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert without_dropped({"model": model, GONE: value}, "It") == {"model": model}
    assert len(warned) == lines


def test_a_project_opens_and_the_command_line_says_it_in_one_line(tmp_path, call):
    file = tmp_path / "project.yaml"
    settings = {"inversion.alpha": 1.0, GONE: "off"}
    content = {"format": FORMAT, "version": VERSION, "settings": settings}
    file.write_text(yaml.safe_dump(content), "utf-8")
    with pytest.warns(UserWarning, match=GONE):
        project = read_project(file)
    assert project.run_settings(tmp_path).inversion.alpha == 1
    _, _, error = call("project", "status", file, "--out", tmp_path / "out")
    (line,) = [line for line in error.splitlines() if GONE in line]
    assert line.startswith("The project: the setting multi_scale (off) does nothing any more")


def test_the_panel_starts_with_its_other_settings():
    from napari_maskinversion._napari.panel.panel_state import PanelState

    with pytest.warns(UserWarning, match=f"The settings of the last time: the setting {GONE}"):
        state = PanelState(settings={"inversion.alpha": 2.0, GONE: "on"})
    assert state.settings.inversion.alpha == 2
