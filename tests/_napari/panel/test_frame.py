"""The frame of the panel: what is in view, and how much room it needs."""

import pytest
from qtpy.QtCore import QPoint, Qt
from qtpy.QtGui import QImage
from qtpy.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSlider,
    QAbstractSpinBox,
    QComboBox,
    QLineEdit,
    QPlainTextEdit,
    QScrollBar,
    QWidget,
)

from napari_maskinversion._napari.results.region_details import Bars
from napari_maskinversion._napari.widgets.sections import Section
from napari_maskinversion.app.review.review_options import BY_WORD
from napari_maskinversion.results.settings import fields_of

from ..review.reviewing import switch_on

CONTROLS = (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSlider,
    QAbstractSpinBox,
    QComboBox,
    QLineEdit,
    QPlainTextEdit,
)
MOST = 16
NARROW = 320


def controls(inside, parent=None):
    """What can be used inside a widget and is in view; a composite counts once."""
    for child in (parent or inside).findChildren(
        QWidget, options=Qt.FindChildOption.FindDirectChildrenOnly
    ):
        if not child.isVisibleTo(inside) or isinstance(child, QScrollBar):
            continue
        if isinstance(child, CONTROLS):
            yield child
        else:
            yield from controls(inside, child)


def names(found):
    return [one.accessibleName() or getattr(one, "text", str)() or type(one) for one in found]


def tip_of(one):
    """Return the tip of a control; the columns and cells of a table have their own."""
    return one.toolTip() or isinstance(one, QAbstractItemView)


@pytest.fixture
def reviewed(ran, qtbot):
    """The panel after a run, with a review open."""
    ran.review.part.switch.click()
    qtbot.waitUntil(lambda: ran.review.state is not None)
    return ran


def test_few_controls_are_in_view_and_each_has_a_name_and_a_tip(qtbot, widget, slow, run_to_end):
    def check():
        for name, area in widget.tabs.areas.items():
            shown = list(controls(area.widget()))
            assert 0 < len(shown) <= MOST, (name, names(shown))
            for one in shown:
                assert one.accessibleName() or getattr(one, "text", str)(), (name, type(one))
            assert names(one for one in shown if not tip_of(one)) == [], name

    check()
    slow.free = True
    widget.vocabulary.text.setPlainText("\n".join(f"word {number}" for number in range(12)))
    run_to_end(widget)
    check()
    switch_on(qtbot, widget)
    part = widget.review.part
    assert sum(button.isVisibleTo(part) for button in part.suggestions) == 5
    check()


def test_the_panel_is_whole_in_a_window_of_1366_x_768_and_320_pixels_wide(window, qtbot, reviewed):
    for area in reviewed.tabs.areas.values():
        assert area.widget().minimumSizeHint().width() <= NARROW - 20  # beside a scroll bar
    reviewed.session.say("This cannot be done because of a long list of reasons. " * 5, "error")
    window = reviewed._viewer.window._qt_window
    reviewed._viewer.show()
    window.showNormal()
    window.resize(1366, 768)
    reviewed.reveal("review")
    reviewed.review.part.more.click()
    dock = reviewed.parentWidget()
    window.resizeDocks([dock], [NARROW], Qt.Orientation.Horizontal)
    qtbot.waitUntil(lambda: (window.width(), window.height()) == (1366, 768))
    qtbot.waitUntil(lambda: reviewed.width() <= NARROW)
    lowest = reviewed.foot.button.mapTo(window, QPoint(0, reviewed.foot.button.height())).y()
    assert lowest <= 768 - window.statusBar().height()
    word = reviewed.review.part.together.word
    assert word.width() > word.fontMetrics().horizontalAdvance("watermelon") + 40  # and its arrow
    status = reviewed.foot.status
    assert status.height() >= status.heightForWidth(status.width())
    assert reviewed.foot.geometry().bottom() <= reviewed.height()


def test_each_section_of_explore_fits_320_pixels_when_it_is_open(reviewed):
    sections = reviewed.tabs.areas["explore"].widget().findChildren(Section)
    titles = {section.title for section in sections}
    assert titles >= {"Why", "Compare", "Find by words", "Captions", "What the embedding shows"}
    for section in sections:
        section.open()
        content = section.content
        width = max(content.minimumWidth(), content.minimumSizeHint().width())
        assert width <= NARROW - 20, section.text()


def test_by_word_forty_words_are_nine_keys_and_the_others_are_typed(
    qtbot, widget, slow, run_to_end
):
    slow.free = True
    words = [f"watermelon of kind {number}" for number in range(40)]
    widget.vocabulary.text.setPlainText("\n".join(words))
    run_to_end(widget)
    switch_on(qtbot, widget)
    part = widget.review.part
    part.form.set_values({"keys": BY_WORD})
    shown = [one for one in part.suggestions if one.isVisibleTo(part)]
    assert len(shown) in (9, 10)  # with the best suggestion, where it has no key
    assert widget.tabs.areas["review"].widget().minimumSizeHint().width() <= NARROW - 20
    offered = part.label.completer().model()
    assert [offered.index(row, 0).data() for row in range(offered.rowCount())] == words
    qtbot.keyClicks(part.label, words[39])
    qtbot.keyClick(part.label, Qt.Key.Key_Return)
    assert widget.session.review.decided_count == 1


def test_the_dialog_holds_every_setting_by_its_title(widget):
    settings = widget.controller.settings
    titles = [settings.list.item(row).text() for row in range(settings.list.count())]
    assert titles == [
        "Model",
        "Method",
        "Regions and windows",
        "Words and limits",
        "Display",
        "Storage",
    ]
    named = {one.accessibleName() for one in settings.findChildren(QWidget)}
    shown = [
        one for one in fields_of("inversion", "window", "uncertainty") if one.extra.get("ui", True)
    ]
    missing = [one.title for one in shown if one.title not in named]
    assert missing == ["Windows"]  # a widget of its own, with another name


def test_the_amber_line_says_what_the_demo_model_does_not_know(widget):
    header = widget.controller.part
    assert "no photographs" in header.model.text()
    assert "background" in header.chip.styleSheet()
    header.change.click()
    assert widget.controller.settings.list.currentItem().text() == "Model"
    widget.model.choose("ViT-B-16/openai")
    assert "ViT-B-16/openai" in header.model.text()
    assert header.chip.styleSheet() == ""


def test_draw_regions_makes_a_layer_with_the_brush_ready(widget):
    viewer, photo = widget._viewer, widget._viewer.layers["photo"]
    photo.scale = (2, 2)
    viewer.layers.remove("cells")
    assert widget.foot.button.text() == "Draw regions"
    widget.foot.button.click()
    layer = viewer.layers.selection.active
    assert layer is widget.input.regions.layer
    assert layer.mode == "paint"
    assert layer.opacity < 0.5  # the heatmap below it has to be seen
    assert (layer.data.shape, tuple(layer.scale)) == ((160, 200), (2, 2))
    layer.data[3:20, 3:20] = 1
    layer.refresh()
    widget.foot.button.click()  # drawn, but not counted yet: the same layer again
    assert viewer.layers.selection.active is layer
    assert layer.selected_label == 2


def test_bars_go_from_0_to_1_and_names_are_whole(qtbot):
    bars = Bars()
    qtbot.addWidget(bars)
    bars.resize(300, 60)
    bars.show_rows([("red blood cell with a long name", 0.5), ("debris", 0.25)])
    widest = bars.fontMetrics().horizontalAdvance("red blood cell with a long name")
    assert bars.name_width() >= min(widest, 200)
    image = bars.grab().toImage().convertToFormat(QImage.Format.Format_RGB32)
    color = bars.bar_color
    y = bars._row_height() // 2
    length = sum(image.pixelColor(x, y).blue() == color.blue() for x in range(image.width()))
    room = 300 - bars.name_width() - bars.fontMetrics().horizontalAdvance("100 %") - 6
    assert length == pytest.approx(room / 2, abs=6)  # half of the room, not all of it
    assert "50%" in bars.accessibleDescription()
