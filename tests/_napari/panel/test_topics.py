"""The tabs of the panel and the pages of its settings, filled by the topics."""

import ast
import sys
from pathlib import Path
from types import ModuleType

from qtpy.QtCore import Qt
from qtpy.QtWidgets import QLabel

from napari_maskinversion import _napari
from napari_maskinversion._napari.panel import topics


def test_a_new_topic_is_a_package_and_a_name(dock, monkeypatch):
    stopped, shown, page = [], QLabel("notes"), QLabel("how notes are taken")

    def content(panel):
        panel.closed.connect(lambda: stopped.append(panel))
        return shown

    topic = ModuleType("notes")
    topic.TAB, topic.content, topic.pages = "explore", content, lambda _: {"Notes": page}
    monkeypatch.setitem(sys.modules, "napari_maskinversion._napari.notes", topic)
    monkeypatch.setattr(topics, "_TOPICS", ("notes", *topics._TOPICS))
    widget = dock()
    assert widget.tabs.areas["explore"].isAncestorOf(shown)
    assert widget.controller.settings.isAncestorOf(page)
    assert widget.controller.settings.list.item(0).text() == "Notes"
    assert not stopped
    widget.shut_down()
    assert stopped == [widget]


def test_of_what_explores_one_thing_is_open_at_a_time(widget, qtbot):
    widget.reveal("explore")
    why, compare = widget.why.section, widget.compare.section
    find, captions = widget.finder.section, widget.captions.section
    assert not any(section.is_open for section in (why, compare, find, captions))
    for section in (why, captions):
        qtbot.keyClick(section.toggle, Qt.Key.Key_Space)
    assert [s.is_open for s in (why, compare, find, captions)] == [False, False, False, True]


def test_the_panel_and_its_topics_pass_no_functions_through_constructors():
    """They bind to the session and to signals; small parts of `widgets` and `layers` may."""
    package = Path(_napari.__file__).parent
    folders = {path.parent for path in package.glob("*/__init__.py")}
    folders -= {package / name for name in ("layers", "plugin", "widgets", "workers")}
    passed = []
    for path in sorted(file for folder in folders for file in folder.glob("*.py")):
        for item in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(item, ast.FunctionDef) and item.name == "__init__":
                kinds = [ast.unparse(one.annotation) for one in item.args.args if one.annotation]
                if any("Callable" in kind for kind in kinds):
                    passed.append(path.relative_to(package).as_posix())
    assert len(folders) >= 10
    assert passed == []
