"""Pictures of the documentation show the panel as it is: by its names, not by its pixels."""

import json

import pytest


@pytest.fixture
def panel(dock):
    """The panel as it opens, without an image."""
    return dock(words="")


def test_pictures_show_the_names_that_the_panel_has_now(panel, scripts):
    record = scripts("panel_record")
    now = record.titles(panel)
    assert json.loads(record.FILE.read_text("utf-8")) == now, (
        "run scripts/docs_pictures.py and look at the pictures"
    )


def test_the_record_names_tabs_sections_buttons_columns_and_pages(panel, scripts):
    now = scripts("panel_record").titles(panel)
    assert list(now["tabs"]) == ["Label", "Review", "Explore", "Images"]
    assert "Find by words" in now["tabs"]["Explore"]["sections"]
    assert "Margin" in now["tabs"]["Explore"]["columns"]
    assert "Export..." in " ".join(now["tabs"]["Label"]["buttons"])
    assert "Words and limits" in now["settings"]
