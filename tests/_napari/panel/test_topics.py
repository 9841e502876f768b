"""The sections of the panel, one for each topic."""

import sys
from types import ModuleType

from qtpy.QtWidgets import QLabel

from napari_maskinversion._napari.panel import topics
from napari_maskinversion._napari.panel.widget import MaskInversionWidget


def test_a_new_topic_is_a_package_and_a_name(make_napari_viewer, monkeypatch):
    stopped, shown = [], QLabel("notes")

    def content(panel):
        panel.closed.connect(lambda: stopped.append(panel))
        return shown

    topic = ModuleType("notes")
    topic.TITLE, topic.OPEN, topic.content = "Notes", False, content
    monkeypatch.setitem(sys.modules, "napari_maskinversion._napari.notes", topic)
    monkeypatch.setattr(topics, "_TOPICS", ("notes", *topics._TOPICS))
    viewer = make_napari_viewer()
    widget = MaskInversionWidget(viewer)
    viewer.window.add_dock_widget(widget, name="test")
    section = widget.sections["notes"]
    assert section.title == "1  Notes"
    assert section.content() is shown
    assert not section.isExpanded()
    assert widget.sections["inputs"].title == "2  Image and regions"
    assert widget.controller.reveal("Notes") is section
    assert section.isExpanded()
    assert not stopped
    widget.shut_down()
    assert stopped == [widget]
