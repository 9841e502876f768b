"""The panel by keys alone, which reach it as the window system delivers them."""

from qtpy.QtCore import Qt
from qtpy.QtTest import QTest
from qtpy.QtWidgets import QApplication, QRadioButton, QWidget

from napari_maskinversion._napari.panel.topics import TABS
from napari_maskinversion._napari.panel.widget import MaskInversionWidget
from napari_maskinversion.app.session import Action

from ..review.reviewing import switch_on
from .test_frame import controls, names

CTRL = Qt.KeyboardModifier.ControlModifier


def bring(qtbot, widget):
    widget._viewer.show()
    window = widget._viewer.window._qt_window
    window.activateWindow()
    qtbot.waitUntil(window.isActiveWindow)


def press(key, modifier=Qt.KeyboardModifier.NoModifier):
    """Press a key in the window in front: an open menu comes before the panel."""
    front = QApplication.activePopupWidget() or QApplication.activeWindow()
    QTest.keyClick(front.windowHandle(), getattr(Qt.Key, f"Key_{key}"), modifier)


def test_words_are_typed_after_the_one_button_and_its_key_goes_on(window, qtbot, widget, slow):
    bring(qtbot, widget)
    widget.vocabulary.text.clear()
    assert widget.foot.button.text() == "Choose words"
    widget.input.image.setFocus()
    press("Return", CTRL)
    qtbot.waitUntil(widget.vocabulary.text.hasFocus)
    for key in ("C", "A", "T", "Return", "D", "O", "G"):
        press(key)
    assert widget.vocabulary.text.toPlainText() == "cat\ndog"
    press("Return", CTRL)
    qtbot.waitUntil(lambda: widget.session.run.progress.running)
    slow.free = True
    slow.go.release(1000)
    qtbot.waitUntil(lambda: not widget.runner.busy)
    assert widget.session.run.results.regions[0].ranking is not None


def test_the_lists_of_words_are_one_press_away(window, qtbot, widget):
    bring(qtbot, widget)
    widget.vocabulary.text.clear()
    assert widget.foot.beside[Action.CHOOSE_PRESET].isVisible()
    widget.foot.beside[Action.CHOOSE_PRESET].click()
    assert QApplication.activePopupWidget() is widget.vocabulary.presets.menu()
    press("Escape")
    assert QApplication.focusWidget() is widget.vocabulary.text


def tabbed(first):
    """The controls that Tab reaches from a control on, until it leaves the panel or dialog.

    Each has a name, and a ring while it has the focus.
    """
    front = first.window()
    inside = next((one for one in front.findChildren(MaskInversionWidget)), front)
    first.setFocus(Qt.FocusReason.TabFocusReason)
    reached = [first]
    while True:
        QTest.keyClick(front.windowHandle(), Qt.Key.Key_Tab)
        now = QApplication.focusWidget()
        if now in reached or not (now and inside.isAncestorOf(now)):
            return reached
        assert now.accessibleName() or getattr(now, "text", str)(), now
        (ring,) = now.window().findChildren(QWidget, "focus ring")
        assert ring.isVisible()
        assert (ring.parent(), ring.geometry()) == (now.parent(), now.geometry())
        reached.append(now)


def missed(inside, reached):
    """Names of the controls in view that Tab does not reach."""
    usable = [one for one in controls(inside) if one.isEnabled()]
    assert usable
    return names(one for one in usable if not reaches(one, reached))


def reaches(one, reached):
    if isinstance(one, QRadioButton):  # one of a group; arrow keys choose
        return any(isinstance(other, QRadioButton) for other in reached)
    return any(one is other or one.isAncestorOf(other) for other in reached)


def test_tab_reaches_every_control_of_every_tab_from_head_to_foot(window, qtbot, ran, photo):
    switch_on(qtbot, ran)
    ran.review.part.more.click()
    ran.session.project.open_images.emit([photo])
    qtbot.waitUntil(lambda: ran.images.shown is not None)
    ran.input.image.choose(ran._viewer.layers["photo"])
    bring(qtbot, ran)
    sections = [
        ran.why.section,
        ran.compare.section,
        ran.finder.section,
        ran.captions.section,
    ]
    for name, opened in [
        *((name, None) for name in TABS),
        *(("explore", section) for section in (*sections, ran.imagine.section)),
    ]:
        area = ran.tabs.show_tab(name)
        if opened is not None:
            opened.open()

        def check(name=name, area=area, opened=opened):
            reached, ends = tabbed(ran.input.image), (area, ran.foot)
            for part in (ran.controller.part, area.widget(), ran.foot):
                assert missed(part, reached) == [], (name, opened and opened.title)
            places = [part for one in reached for part in ends if part.isAncestorOf(one)]
            assert places == sorted(places, key=ends.index), name

        qtbot.waitUntil(check)  # what a worker tells may show a control meanwhile


def test_tab_reaches_every_setting_and_every_control_of_sam(window, qtbot, widget):
    bring(qtbot, widget)
    settings = widget.controller.settings
    for row in range(settings.list.count()):
        title = settings.list.item(row).text()
        settings.bring(title)
        qtbot.waitUntil(settings.isActiveWindow)
        page = settings.pages.currentWidget()
        assert missed(page.widget(), tabbed(settings.list)) == [], title
    settings.close()
    dialog = widget.segment.dialog
    dialog.bring()
    qtbot.waitUntil(dialog.isActiveWindow)
    first = next(one for one in controls(dialog) if one.isEnabled())
    assert missed(dialog, tabbed(first)) == []
