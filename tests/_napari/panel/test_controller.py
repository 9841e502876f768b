"""The plugin in napari's menus, its keys, and what it keeps between starts."""

import ast
import tomllib
from pathlib import Path

import numpy as np
import pytest
from qtpy.QtCore import Qt
from qtpy.QtGui import QDesktopServices
from qtpy.QtWidgets import QDockWidget, QFileDialog, QPushButton

import napari_maskinversion
from napari_maskinversion._napari.plugin.dock import PanelDock
from napari_maskinversion._napari.review import review_keys
from napari_maskinversion._napari.widgets import keys
from napari_maskinversion._napari.widgets.keys import KEYS

from .test_keyboard import bring

NAME = "napari-maskinversion"
PANEL = Path(napari_maskinversion.__file__).parent / "_napari"


# -- menus --------------------------------------------------------------------------------------


@pytest.fixture
def installed(make_napari_viewer):
    """A viewer whose menus know the plugin, as an installed one does."""
    from napari._app_model import get_app_model
    from napari.plugins import _npe2
    from npe2 import PluginManager

    made = make_napari_viewer(show=True)
    manager = PluginManager.instance()
    if NAME not in manager:
        manager.discover()
    if f"{NAME}.review" not in get_app_model().commands:
        _npe2.on_plugins_registered({manager.get_manifest(NAME)})
    return made


def menu_action(menu, *titles):
    """Walk down a menu as the mouse would; the entry at the end."""
    menu.aboutToShow.emit()
    for action in menu.actions():
        if action.text().replace("&", "") == titles[0]:
            return menu_action(action.menu(), *titles[1:]) if titles[1:] else action
    raise AssertionError(f"{titles[0]!r} is not among {[a.text() for a in menu.actions()]}")


def panels(viewer):
    """Panels docked in this viewer, made whole."""
    return [dock.panel() for dock in viewer.window._qt_window.findChildren(PanelDock)]


ENTRIES = {
    ("layers_menu", "Classify", "Label regions (MaskInversion)"): "label",
    ("layers_menu", "Annotate", "Review suggestions (MaskInversion)"): "review",
    ("layers_menu", "Segment", "Regions from boxes and points (MaskInversion)"): "segment",
    ("file_menu", "IO Utilities", "Export labels and embeddings (MaskInversion)"): "label",
}


def test_every_entry_is_in_its_menu_and_opens_the_panel_at_its_place(installed, qtbot):
    viewer = installed
    first = viewer.add_labels(np.eye(20, dtype=int), name="first")
    viewer.add_image(np.random.rand(20, 20))
    viewer.add_labels(np.eye(20, dtype=int), name="second")
    for (menu, *titles), place in ENTRIES.items():
        viewer.layers.selection.active = first
        for panel in panels(viewer):
            panel.tabs.show_tab("explore")
            panel.segment.dialog.hide()
        menu_action(getattr(viewer.window, menu), *titles).trigger()
        (panel,) = panels(viewer)  # one panel, however often it is asked for
        assert panel.input.regions.layer is first
        if place == "segment":
            assert panel.segment.dialog.isVisible()
        else:
            assert panel.tabs.shown == place
            assert panel.tabs.areas[place].isAncestorOf(panel.window().focusWidget())
    # The Plugins menu hides the same panel, and shows it again.
    dock = panel.parentWidget()
    while not isinstance(dock, QDockWidget):
        dock = dock.parentWidget()
    entry = menu_action(viewer.window.plugins_menu, "MaskInversion (MaskInversion)")
    shown = dock.isVisible()
    entry.trigger()
    assert dock.isVisible() is not shown
    assert panels(viewer) == [panel]
    panel.shut_down()


def test_regions_of_a_file_are_asked_for_from_the_file_menu(installed, monkeypatch):
    viewer = installed
    viewer.add_image(np.random.rand(20, 20))
    asked = []
    monkeypatch.setattr(QFileDialog, "getOpenFileName", lambda *a: asked.append(a[1]) or ("", ""))
    entry = ("IO Utilities", "Regions from file... (MaskInversion)")
    menu_action(viewer.window.file_menu, *entry).trigger()
    (panel,) = panels(viewer)
    assert asked == ["Regions from file"]
    panel.shut_down()


# -- keys ---------------------------------------------------------------------------------------


def test_the_list_of_keys_shows_the_whole_table(widget, qtbot, monkeypatch):
    opened = []
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: opened.append(url.toString()))
    qtbot.mouseClick(widget.controller.part.keys, Qt.MouseButton.LeftButton)
    listed = widget.controller.keys
    assert listed.isVisible()
    heads = [listed.list.topLevelItem(row) for row in range(listed.list.topLevelItemCount())]
    rows = [(head, head.child(row)) for head in heads for row in range(head.childCount())]
    texts = [(head.text(0), item.text(0), item.text(1)) for head, item in rows]
    assert texts == [(key.place, key.shown, key.effect) for key in KEYS]
    (docs,) = (one for one in listed.findChildren(QPushButton) if "Docum" in one.text())
    qtbot.mouseClick(docs, Qt.MouseButton.LeftButton)
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text("utf-8"))
    assert opened == [project["project"]["urls"]["Documentation"]]
    listed.close()


def test_the_list_of_keys_opens_by_key_from_anywhere_in_the_panel(window, widget, qtbot):
    bring(qtbot, widget)
    for start in (widget.vocabulary.text, widget.input.image):
        start.setFocus()
        qtbot.waitUntil(start.hasFocus)
        qtbot.keyClick(start, Qt.Key.Key_F1)
        assert widget.controller.keys.isVisible()
        widget.controller.keys.close()


def test_no_module_knows_a_key_that_is_not_in_the_table():
    for path in PANEL.rglob("*.py"):
        if path.name == "keys.py":
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            name = node.attr if isinstance(node, ast.Attribute) else ""
            assert not name.startswith("Key_"), f"{path.name}:{node.lineno} names Qt.{name}"
            assert name != "StandardKey", f"{path.name}:{node.lineno}"
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name):
                called = getattr(node.func, "attr", getattr(node.func, "id", ""))
                plain = any(isinstance(argument, ast.Constant) for argument in node.args)
                assert not (plain and called in ("setShortcut", "QShortcut", "QKeySequence")), (
                    f"{path.name}:{node.lineno} has a key of its own"
                )


def test_what_is_listened_to_is_what_is_listed(monkeypatch, widget):
    from qtpy.QtGui import QKeyEvent

    plain, ctrl = Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.ControlModifier
    press = QKeyEvent.Type.KeyPress
    assert keys.pressed(QKeyEvent(press, Qt.Key.Key_A, plain), keys.REVIEW) == "accept"
    assert keys.pressed(QKeyEvent(press, Qt.Key.Key_A, ctrl), keys.REVIEW) == ""
    keypad = Qt.KeyboardModifier.KeypadModifier
    assert keys.pressed(QKeyEvent(press, Qt.Key.Key_3, keypad), keys.REVIEW) == "pick 3"
    assert keys.pressed(QKeyEvent(press, Qt.Key.Key_A, plain), keys.PANEL) == ""
    assert widget.foot.button.shortcut().toString() == "Ctrl+Return"
    assert set(review_keys.KEYS) | {"end"} == set(keys.named(keys.REVIEW))
