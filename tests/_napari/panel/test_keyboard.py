"""The panel by keys alone, which reach it as the window system delivers them."""

from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication

CTRL = Qt.KeyboardModifier.ControlModifier


def bring(qtbot, widget):
    widget._viewer.show()
    window = widget._viewer.window._qt_window
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow, timeout=20_000)


def press(key, modifier=Qt.KeyboardModifier.NoModifier):
    """Press a key in the window in front: an open menu comes before the panel."""
    front = QApplication.activePopupWidget() or QApplication.activeWindow()
    QTest.keyClick(front.windowHandle(), getattr(Qt.Key, f"Key_{key}"), modifier)


def test_words_are_typed_after_the_one_button_and_its_key_goes_on(qtbot, widget, slow):
    bring(qtbot, widget)
    widget.vocabulary.text.clear()
    assert widget.foot.button.text() == "Choose words"
    widget.input.image.setFocus()
    press("Return", CTRL)
    qtbot.waitUntil(widget.vocabulary.text.hasFocus, timeout=20_000)
    for key in ("C", "A", "T", "Return", "D", "O", "G"):
        press(key)
    assert widget.vocabulary.text.toPlainText() == "cat\ndog"
    press("Return", CTRL)
    qtbot.waitUntil(lambda: widget.session.run.running, timeout=20_000)
    slow.free = True
    slow.go.release(1000)
    qtbot.waitUntil(lambda: not widget.runner.busy, timeout=20_000)
    assert widget.session.results.regions[0].ranking is not None


def test_the_lists_of_words_are_one_press_away(qtbot, widget):
    bring(qtbot, widget)
    widget.vocabulary.text.clear()
    assert widget.foot.beside["presets"].isVisible()
    widget.foot.beside["presets"].click()
    assert QApplication.activePopupWidget() is widget.vocabulary.presets.menu()
    press("Escape")
    assert QApplication.focusWidget() is widget.vocabulary.text
