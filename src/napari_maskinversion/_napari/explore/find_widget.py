"""Find by words: an expression, and the regions ranked by how well it fits."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import Signal
from qtpy.QtWidgets import (
    QAbstractItemView,
    QCheckBox,
    QHeaderView,
    QLineEdit,
    QPushButton,
    QWidget,
)

from ...language.ranking.finding import EXPRESSION_ALPHA
from ...results.settings import fields_of
from ..widgets.form import SettingsForm
from ..widgets.progress_row import ProgressRow
from ..widgets.sections import Note, form, line, stack, table_view
from .matches_model import MatchesModel

if TYPE_CHECKING:
    from .find_task import Finding

_ROWS_SHOWN = 6
_WHY = (
    "How much of its surroundings a region's embedding keeps: alpha. For words about places, "
    "about 5 works best in the paper: 42 % of RefCOCO's expressions find their region at 0, "
    "56 % at 5, 21 % at 20."
)


class FindWidget(QWidget):
    """The words, the settings and the ranked regions.

    Signals
    -------
    find_requested
    place_selected : int
        A place in the ranking, from 0.
    changed
        Other settings, or the widget was shown.
    """

    find_requested = Signal()
    place_selected = Signal(int)
    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.words = QLineEdit()
        self.words.setPlaceholderText("the dog on the left")
        self.words.setAccessibleName("Words that describe a region")
        self.words.setToolTip("Say which region you mean, and press Enter")
        self.words.setClearButtonEnabled(True)
        self.find = QPushButton("Find")
        self.find.setToolTip("Rank the regions by how well these words fit them (Enter)")
        (alpha,) = (field for field in fields_of("inversion") if field.name == "alpha")
        self.form = SettingsForm(
            [replace(alpha, default=EXPRESSION_ALPHA, help=_WHY)],
            options={alpha.key: {"step": 0.5}},
            parent=self,
        )
        self.alpha = self.form[alpha.key]
        self.whole = QCheckBox("See the whole image with each region")
        self.whole.setChecked(True)
        self.whole.setToolTip(
            "For words about places in the image. Off: windows as chosen in the settings, "
            "for small regions of large images."
        )
        self.progress = ProgressRow("finding", "Stop; nothing is shown")
        self.estimate = Note(name="What finding would take")
        self.estimate.hide()
        self.about = Note("Describe one region and what is around it.")
        self.model = MatchesModel(self)
        self.table = table_view(self.model, "Regions by how well the words fit them")
        self._build()
        self.form.changed.connect(self.changed.emit)
        self.whole.toggled.connect(lambda _: self.changed.emit())
        self.words.returnPressed.connect(self.find_requested.emit)
        self.find.clicked.connect(lambda _=False: self.find_requested.emit())

    def _build(self) -> None:
        table = self.table
        table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        header = table.horizontalHeader()
        header.setSectionResizeMode(QHeaderView.ResizeMode.ResizeToContents)
        header.setResizeContentsPrecision(_ROWS_SHOWN)
        header.setSectionResizeMode(1, QHeaderView.ResizeMode.Stretch)
        table.selectionModel().currentRowChanged.connect(self._row_changed)
        table.hide()
        rows = [
            line(self.words, self.find, shares=(1, 0)),
            self.progress,
            self.about,
            table,
            ("Surroundings", self.alpha),
            self.whole,
            self.estimate,
        ]
        stack(self, form(rows))

    def showEvent(self, event: Any) -> None:  # noqa: N802 - Qt's name
        """Ask for an estimate when the widget is shown."""
        super().showEvent(event)
        self.changed.emit()

    def show_finding(self, finding: Finding | None) -> None:
        """Show a ranking and select its best; None clears it."""
        self.model.show(finding)
        count = self.model.rowCount()
        self.table.setVisible(count > 0)
        if finding is None or not count:
            return
        row = self.table.verticalHeader().defaultSectionSize()
        title = self.table.horizontalHeader().sizeHint().height() + 4
        self.table.setFixedHeight(title + min(count, _ROWS_SHOWN) * row)
        made = "existing embeddings" if finding.reused else "a new run"
        summary = f"{count:,} region{'s' * (count != 1)} ranked, from {made}."
        self.about.setText(f"'{finding.expression}': {summary}")
        self.table.selectRow(0)
        self.table.scrollToTop()

    def show_running(self, running: bool) -> None:
        """Enable what can be done now."""
        self.find.setEnabled(not running)
        if running:
            self.progress.begin()
        else:
            self.progress.hide()

    def _row_changed(self, current: Any, previous: Any = None) -> None:
        if current.isValid():
            self.place_selected.emit(current.row())
