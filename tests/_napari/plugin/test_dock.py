"""The dock: it opens at once, and the panel follows in pieces."""

import itertools
import threading

import numpy as np
import pytest
from qtpy.QtCore import Qt, QTimer
from qtpy.QtWidgets import QApplication

from napari_maskinversion._napari.panel import widget as panel_module
from napari_maskinversion._napari.plugin import commands
from napari_maskinversion._napari.plugin.dock import PanelDock
from tests._napari.panel.test_file_drops import drop

DIRECT = Qt.FindChildOption.FindDirectChildrenOnly


@pytest.fixture
def viewer(window):
    window.add_image(np.zeros((40, 40, 3), np.uint8), name="photo")
    yield window
    window.layers.clear()


@pytest.fixture
def opened(viewer, qtbot):
    """Open the dock from the menu; it is closed at the end."""
    docks = []

    def open_(place=""):
        docks.append(commands.open_widget(viewer, place))
        return docks[-1]

    yield open_
    for dock in set(docks):
        if dock.parent() is not None:
            viewer.window.remove_dock_widget(dock)


def made(qtbot, dock):
    panels = []
    dock.when_made(panels.append)
    qtbot.waitUntil(lambda: bool(panels))
    return panels[0]


def test_the_dock_says_that_it_loads_until_the_panel_is_there(opened, qtbot):
    dock = opened()
    (note,) = dock.findChildren(panel_module.QWidget, options=DIRECT)
    assert note.text() == "Loading..."
    panel = made(qtbot, dock)
    assert note.isHidden()
    assert not panel.isHidden()
    # It has all the room: napari has added no stretch.
    layout = dock.layout()
    assert [layout.itemAt(k).widget() for k in range(layout.count())] == [note, panel]
    assert panel.input.image.layer.name == "photo"


def test_events_are_handled_between_the_parts(opened, qtbot):
    dock, beats = opened(), []
    timer = QTimer()
    timer.timeout.connect(lambda: beats.append(1))
    timer.start(0)
    made(qtbot, dock)
    timer.stop()
    # Each part is followed by a beat; in one piece there would be two.
    assert len(beats) > 8


def test_the_panel_is_shown_before_the_pages_that_are_not_in_view_one_a_step(opened, qtbot):
    dock, seen = opened(), []
    next_part = dock._make_part

    def count():
        next_part()
        if dock.layout().count() == 2:
            areas = dock._panel.tabs.areas.values()
            seen.append([area.widget().layout().count() > 1 for area in areas])

    dock._make_part = count
    panel = made(qtbot, dock)
    assert seen[0] == [True, False, False, False]  # only the tab in view
    assert all(sum(after) - sum(before) <= 1 for before, after in itertools.pairwise(seen))
    assert all(seen[-1])
    (image,) = (one for one in panel._viewer.layers)
    assert image.name == "photo"
    windows = [one for one in QApplication.topLevelWidgets() if not one.isHidden()]
    parts = (panel.why.section, panel.compare.section, panel.review.part, panel.images.part)
    assert not {*parts} & {*windows}


def test_a_tab_that_is_opened_meanwhile_is_filled_at_once(opened, qtbot):
    dock = opened()
    qtbot.waitUntil(lambda: dock.layout().count() == 2)
    dock._timer.stop()
    panel = dock._panel
    assert not panel.tabs.isAncestorOf(panel.images.part)
    panel.tabs.show_tab("images")
    assert panel.tabs.isAncestorOf(panel.images.part)
    assert dock.panel() is panel


@pytest.mark.parametrize("place", ["the note", "the words"])
def test_files_dropped_before_all_is_there_are_opened(opened, qtbot, tmp_path, place):
    folder = tmp_path / "no images"
    folder.mkdir()
    dock = opened()
    onto = dock
    if place == "the words":
        qtbot.waitUntil(lambda: dock.layout().count() == 2)
        onto = dock._panel.vocabulary.text.viewport()
    assert drop(onto, folder)
    panel = made(qtbot, dock)
    qtbot.waitUntil(lambda: "no images" in panel.foot.status.text())
    assert panel.vocabulary.text.toPlainText() == ""


def test_a_menu_entry_asked_for_meanwhile_is_followed_afterwards(opened, qtbot, viewer):
    dock = opened()
    assert opened("review") is dock  # not a second panel
    panel = made(qtbot, dock)
    assert panel.tabs.tabText(panel.tabs.currentIndex()).startswith("Review")
    assert len(viewer.window._qt_window.findChildren(PanelDock)) == 1


def test_closed_while_it_loads_nothing_is_left_running(opened, qtbot, viewer):
    dock = opened()
    viewer.window.remove_dock_widget(dock)
    qtbot.waitUntil(lambda: all(t.name != "imports of the panel" for t in threading.enumerate()))
    qtbot.wait(100)
    assert not dock.findChildren(panel_module.MaskInversionWidget)


def test_closed_between_two_parts_the_panel_lets_go_of_the_viewer(opened, qtbot, viewer):
    callbacks = len(viewer.layers.events.inserted.callbacks)
    dock = opened()
    qtbot.waitUntil(lambda: hasattr(dock._panel, "session"))
    viewer.window.remove_dock_widget(dock)
    assert len(viewer.layers.events.inserted.callbacks) == callbacks
    panel = dock.panel()
    viewer.window.add_dock_widget(dock)
    assert made(qtbot, dock) is panel


def test_closed_it_stops_and_docked_again_it_goes_on(opened, qtbot, viewer):
    dock = opened()
    panel = made(qtbot, dock)
    closed = []
    panel.closed.connect(lambda: closed.append(1))
    viewer.window.remove_dock_widget(dock)
    assert closed
    viewer.window.add_dock_widget(dock)
    labels = viewer.add_labels(np.eye(40, dtype=int))
    assert panel.input.regions.layer is labels


def test_a_panel_that_cannot_be_made_says_why_and_is_not_tried_again(opened, qtbot, monkeypatch):
    tries = []

    def broken(*_):
        tries.append(1)
        raise RuntimeError("no such part")

    monkeypatch.setattr(panel_module, "InputWidget", broken)
    with qtbot.capture_exceptions() as errors:
        dock = opened()
        qtbot.waitUntil(lambda: bool(tries))
        qtbot.wait(100)
    assert [str(error[1]) for error in errors] == ["no such part"]
    assert tries == [1]
    (note,) = dock.findChildren(panel_module.QWidget, options=DIRECT)[:1]
    assert note.text() == "The panel could not be made: no such part"
