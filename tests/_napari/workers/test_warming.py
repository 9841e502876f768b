"""The imports that begin when a panel is first shown."""

import threading

import pytest
from qtpy.QtWidgets import QWidget

from napari_maskinversion._napari.workers import warming


@pytest.fixture
def panel(qtbot):
    """Make a widget with its warming; count how often that is done."""

    def make():
        widget, done = QWidget(), []
        qtbot.addWidget(widget)
        warming.Warming(widget).done.connect(lambda: done.append(True))
        return widget, done

    return make


def test_a_panel_that_opens_when_all_is_loaded_is_told_so_once(panel, monkeypatch):
    monkeypatch.setattr(warming, "is_warm", lambda: True)
    widget, done = panel()
    assert done == []
    widget.show()
    assert done == [True]
    widget.hide()
    widget.show()
    assert done == [True]


def test_a_panel_that_opens_while_another_one_loads_is_told_too(panel, qtbot, monkeypatch):
    begun, go = threading.Event(), threading.Event()

    def load():
        begun.set()
        go.wait(20)

    monkeypatch.setattr(warming, "is_warm", lambda: False)
    monkeypatch.setattr(warming, "warm_up", load)
    (first, first_done), (second, second_done) = panel(), panel()
    first.show()
    assert begun.wait(20)
    second.show()
    assert (first_done, second_done) == ([], [])
    go.set()
    qtbot.waitUntil(lambda: (first_done, second_done) == ([True], [True]))
