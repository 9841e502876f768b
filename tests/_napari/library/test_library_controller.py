"""The library of the panel: chosen by name, filled with a click, and kept up to date."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QFileDialog

from napari_maskinversion._napari.library import library_controller
from napari_maskinversion._napari.panel.panel_state import read_state
from napari_maskinversion.base.cache_folder import cache_folder
from napari_maskinversion.library.library import Library
from napari_maskinversion.library.store import ROWS
from napari_maskinversion.pipeline import job
from napari_maskinversion.pipeline.cache_usage import usage


@pytest.fixture
def choose(monkeypatch, tmp_path):
    """Choose a folder in the dialog."""

    def choose_folder(panel, name):
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        monkeypatch.setattr(QFileDialog, "getExistingDirectory", lambda *_: str(folder))
        panel.library.ask()
        return folder

    return choose_folder


def press_add(qtbot, panel):
    qtbot.mouseClick(panel.library.part.add, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: not panel.library.adding.busy)


def test_a_library_is_made_shown_by_name_and_chosen_again_next_time(
    widget, dock, viewer, choose, messages
):
    part = widget.library.part
    assert part.choose.text() == "Library: none"
    folder = choose(widget, "cells")
    assert part.choose.text() == "Library: cells"
    assert widget.session.explore.library.info()["regions"] == 0
    (folder.parent / "photos").mkdir()
    (folder.parent / "photos" / "a.txt").touch()
    choose(widget, "photos")
    assert "has other files" in messages[-1]
    assert widget.session.explore.library.folder == folder
    widget.controller.keep()
    assert read_state()[0].library == str(folder)
    widget.shut_down()
    widget.session.explore.library = None
    again = dock(words=None)
    assert again.library.part.choose.text() == "Library: cells"
    again.library.none.trigger()
    assert again.session.explore.library is None


def test_regions_are_added_with_thumbnails_and_later_decisions_follow(
    opened, qtbot, choose, photo, messages
):
    panel = opened()
    assert not panel.library.part.add.isEnabled()
    folder = choose(panel, "cells")
    press_add(qtbot, panel)
    assert messages[-1] == "Added 50 regions to cells, which has 50 now."
    library = Library.open(folder)
    rows = library.rows()
    assert set(rows["image"]) == {photo.as_posix()}
    assert library.thumbnail(1).shape[2] == 4
    assert set(rows["decision"]) == {"undecided"}
    panel._begin_review()
    qtbot.waitUntil(lambda: panel.session.reviewed is not None)
    word = panel.review.state.suggestion(panel.review.state.row)
    region = panel.review.state.results.regions[panel.review.state.row].id
    panel.review.act("accept")
    panel.review.act("reject")
    qtbot.waitUntil(lambda: len(library.rows(decision=("accepted", "rejected"))) == 2)
    rows = library.rows(decision=("accepted", "rejected")).set_index("region")
    assert rows["decision"].tolist().count("rejected") == 1
    assert (rows.loc[region, "decision"], rows.loc[region, "label"]) == ("accepted", word)
    # Added again, regions are replaced, and keep their decisions.
    press_add(qtbot, panel)
    assert library.info()["decisions"] == {"accepted": 1, "rejected": 1, "undecided": 48}
    panel.review.act("accept")
    panel.viewer.layers.clear()  # before the pause is over
    qtbot.waitUntil(lambda: library.info()["decisions"]["accepted"] == 2)


def test_the_sample_library_is_made_at_first_use_and_chosen(widget, qtbot, monkeypatch, messages):
    monkeypatch.setattr(library_controller, "scene_names", lambda: ["everyday-1", "everyday-2"])
    monkeypatch.setattr(library_controller, "_SETTINGS", {"inversion.steps": 1, "resolution": 64})
    widget.library.open_sample()
    assert not widget.library.part.progress.isHidden()
    qtbot.waitUntil(lambda: not widget.library.adding.busy)
    assert "The sample library" in messages[-1]
    library = widget.session.explore.library
    assert library.folder == cache_folder() / library_controller.FOLDER
    assert library.info()["images"] == 2
    assert library.thumbnail(1) is not None
    assert usage().sizes["library"] > 0
    computed = []
    run = job.run_job
    monkeypatch.setattr(job, "run_job", lambda *args: computed.append(args) or run(*args))
    widget.library.open_sample()
    qtbot.waitUntil(lambda: not widget.library.adding.busy)
    assert not computed
    assert widget.session.explore.library.info()["images"] == 2
    # Installed in another place, the scenes are found there.
    with closing(sqlite3.connect(library.folder / ROWS)) as database:
        database.execute("UPDATE images SET path = '/gone/' || name")
        database.commit()
    widget.library.open_sample()
    qtbot.waitUntil(lambda: not widget.library.adding.busy)
    assert library.info()["images"] == 2
    assert all(Path(image).exists() for image in library.rows()["image"])
