"""What is copied from the panel and pasted into a spreadsheet is text or a number."""

import pytest
from qtpy.QtCore import Qt
from qtpy.QtGui import QGuiApplication, QStandardItem, QStandardItemModel
from qtpy.QtWidgets import QListWidgetItem

from napari_maskinversion._napari.results.region_details import CaptionList
from napari_maskinversion._napari.widgets.table_views import table_view


def table(text):
    model = QStandardItemModel()
    model.appendRow(QStandardItem(text))
    shown = table_view(model, "words")
    model.setParent(shown)
    shown.setCurrentIndex(model.index(0, 0))
    return shown


def captions(text):
    shown = CaptionList()
    item = QListWidgetItem(f"0.30  {text}", shown)
    item.setData(Qt.ItemDataRole.UserRole, text)
    return shown


@pytest.mark.parametrize("make", [table, captions])
@pytest.mark.parametrize(
    ("text", "copied"),
    [("=cmd()", "'=cmd()"), ("@SUM(A1)", "'@SUM(A1)"), ("-0.12", "-0.12"), ("a car", "a car")],
)
def test_no_formula_is_copied(qtbot, make, text, copied):
    shown = make(text)
    qtbot.addWidget(shown)
    qtbot.keyClick(shown, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == copied
