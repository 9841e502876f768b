"""The list of images: names are told apart, and only images that fit are listed, and gone to."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from qtpy.QtCore import QRect
from qtpy.QtGui import QFont, QFontMetrics
from qtpy.QtWidgets import QApplication, QStyleOptionViewItem

from napari_maskinversion._napari.images.images_model import images_filter
from napari_maskinversion._napari.images.images_widget import ImagesWidget
from napari_maskinversion.app.session import Session
from napari_maskinversion.results.region_result import RegionResult
from napari_maskinversion.review.stored_images import Summary

from .conftest import review

CATS = Summary(regions=12, decided=2, flagged=3, suggested=True, words=frozenset({"cat", "dog"}))
EMPTY = Summary(regions=0)
UNKNOWN = Summary()


@pytest.mark.parametrize(
    ("text", "fitting"),
    [
        ("cat", [CATS]),
        ("  CA ", [CATS]),
        ("frog", []),
        ("nothing found", [EMPTY]),
        ("doubtful", [CATS]),
        ("undecided", [CATS]),
        ("> 10 regions", [CATS]),
        (">12", []),
        (">= 12", [CATS]),
        ("<5 regions", [EMPTY]),
        ("0", [EMPTY]),
        ("= 12 regions", [CATS]),
    ],
)
def test_what_a_text_means(text, fitting):
    fits = images_filter(text)
    assert [one for one in (CATS, EMPTY, UNKNOWN) if fits(one)] == fitting


def test_without_a_text_all_images_are_listed():
    assert images_filter("") is images_filter("All ") is None


@given(st.text(max_size=20), st.integers(0, 99))
def test_any_text_can_be_typed(text, count):
    fits = images_filter(text)
    assert fits is None or fits(Summary(regions=count)) in (True, False)


def test_the_list_hides_the_others_and_next_passes_them(qtbot, panel, computed):
    part, session = panel.images.part, panel.session
    panel.show()
    panel.tabs.show_tab("images")
    part.filter.setEditText("> 1 regions")
    qtbot.waitUntil(lambda: part.fitting.text() == "1 of 3 images")
    assert [part.shows(name) for name in session.project.state.names] == [False, True, False]
    panel.images.move(1)
    qtbot.waitUntil(lambda: session.project.state.current == "cell-2.png")
    part.show_words(["car", "dog", "frog"])
    assert part.filter.currentText() == "> 1 regions"
    panel.images.move(1)  # there is no other one
    assert session.project.state.opening == ""
    part.filter.setEditText("nothing found")
    qtbot.waitUntil(lambda: part.fitting.text() == "1 of 3 images")
    assert part.shows("cell-3.png")
    part.filter.setEditText("zebra")
    qtbot.waitUntil(lambda: "choose 'all'" in part.fitting.text())
    part.filter.setEditText("all")
    assert all(map(part.shows, session.project.state.names))


def test_a_review_is_of_one_word_or_of_what_is_doubtful(qtbot, panel, computed, monkeypatch):
    state, show = review(qtbot, panel), panel.review.part.form["show"]
    words = [one.suggestion for one in state.results.regions]
    other = next(word for word in ("car", "dog") if word != words[0])
    show.setCurrentText(f"undecided: {other}")
    assert len(state.queue) == words.count(other)
    assert panel.review.part.options.show == "undecided"  # no word is kept for other images
    show.setCurrentText(f"undecided: {words[0]}")
    assert len(state.queue) == words.count(words[0])
    show.setCurrentText("doubtful")
    assert len(state.queue) == sum(one.flagged for one in state.results.regions)
    show.setCurrentText("nothing found")
    assert len(state.queue) == 0
    monkeypatch.setattr(RegionResult, "flagged", property(lambda _: False))
    show.setCurrentText("doubtful")
    assert len(state.queue) == 0


@pytest.mark.parametrize("row", [0, 1], ids=["current", "other"])
def test_a_name_that_is_too_long_shows_its_first_letters_and_its_end(qtbot, row):
    """In the bold letters of the current image, too."""
    part = ImagesWidget(Session().jobs)
    qtbot.addWidget(part)
    names = ("well_B07_field_000000000123.png", "well_B08_field_000000000123.png")
    part.model.show_project(names, frozenset(), names[0])
    index, seen = part.model.index(row, 0), {}
    for width in (700, 190, 100):
        option = QStyleOptionViewItem()
        option.rect, option.widget = QRect(0, 0, width, 40), part.list
        part.list.itemDelegateForColumn(0).initStyleOption(option, index)
        seen[width] = option.text.split("\N{LINE SEPARATOR}")
        letters = QFontMetrics(option.font).horizontalAdvance
        assert all(letters(text) < width for text in seen[width])
    assert option.font.bold() == (row == 0)
    assert seen[700] == [names[row]]
    assert "".join(seen[190]) == names[row]  # two lines hold it
    start, end = seen[100]
    assert names[row].startswith(start)
    assert end.startswith("…")
    assert names[row].endswith(end[1:])
    assert min(len(start), len(end)) > 2


def test_letters_that_are_joined_are_shown_once_in_a_name_of_two_lines(qtbot):
    part = ImagesWidget(Session().jobs)
    qtbot.addWidget(part)
    name = "صورةالخليةتحتالمجهررقمطويلةجدا.png"
    part.model.show_project((name,), frozenset(), "")
    for width in range(100, 300, 5):
        option = QStyleOptionViewItem()
        option.rect, option.widget = QRect(0, 0, width, 40), part.list
        part.list.itemDelegateForColumn(0).initStyleOption(option, part.model.index(0, 0))
        start, *end = option.text.split("\N{LINE SEPARATOR}")
        assert name.startswith(start), width
        assert "…" in option.text or "".join((start, *end)) == name, width


def test_rows_have_room_for_two_lines_of_a_name_also_in_large_letters(qtbot):
    own = QApplication.font()
    large = QFont(own)
    large.setPointSize(24)
    QApplication.setFont(large)
    try:
        part = ImagesWidget(Session().jobs)
        qtbot.addWidget(part)
    finally:
        QApplication.setFont(own)
    part.model.show_project(("a.png",), frozenset(), "")
    assert part.list.rowHeight(0) >= 2 * QFontMetrics(large).lineSpacing()
