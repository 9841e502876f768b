"""Texts that wrap in a form: rows make room for them, and take it back."""

from itertools import pairwise

import pytest
from qtpy.QtWidgets import QFrame, QPushButton

from napari_maskinversion._napari.widgets.sections import Note, form, scrolled

LONG = "The first search takes as long as a run with these windows on this machine. " * 4


@pytest.mark.parametrize("texts", [(LONG, LONG[:100], LONG, "short"), ("short", LONG, "short")])
def test_rows_make_room_for_a_text_and_take_it_back(qtbot, texts):
    table, note = QPushButton("table"), Note()
    table.setFixedHeight(200)
    rows = [Note("One line."), table, ("Surroundings", QPushButton("5.0")), note]
    inside = form(rows)
    area = scrolled(inside)
    qtbot.addWidget(area)
    area.resize(300, 100)  # as in a low window
    area.show()
    heights = {}
    for text in texts:
        note.say(text)
        for _ in range(3):  # a layout follows its events
            qtbot.wait(10)
        parts = sorted(
            (
                one.geometry()
                for one in (*inside.findChildren(QPushButton), *inside.findChildren(Note))
            ),
            key=lambda place: place.top(),
        )
        assert all(above.bottom() < below.top() for above, below in pairwise(parts))
        assert note.height() >= note.heightForWidth(note.width())
        assert heights.setdefault(text, inside.height()) == inside.height()
    assert heights["short"] < heights[LONG]


def test_a_text_that_is_drawn_in_one_line_has_the_height_of_one(qtbot):
    note = Note("Regions as points, similar ones near one another")
    qtbot.addWidget(note)
    note.setFrameShape(QFrame.Shape.Box)  # as the theme of napari's window gives it
    one, wide = note.fontMetrics().lineSpacing(), note.fontMetrics().horizontalAdvance(note.text())
    drawn = []
    for width in range(wide - 5, wide + 25):
        note.resize(width, 3 * one)
        picture = note.grab().toImage()
        inner = [
            any(picture.pixel(x, y) != picture.pixel(3, 3) for x in range(3, width - 3))
            for y in range(3, 3 * one - 3)
        ]
        height = len(inner) - inner[::-1].index(True) - inner.index(True)  # of what is drawn
        drawn.append(height > one)
        assert (note.minimumHeight() > 1.5 * one + 2) == drawn[-1], width
    assert drawn[0]
    assert not drawn[-1]
