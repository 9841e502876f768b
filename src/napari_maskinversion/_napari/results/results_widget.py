"""The table of results."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from qtpy.QtCore import Signal
from qtpy.QtGui import QColor
from qtpy.QtWidgets import QAbstractItemView, QPushButton, QWidget

from ..explore.caption_list import CaptionList
from ..widgets.bars import SHOWN, Bars
from ..widgets.sections import MARGINS, Note, line, stack, table_view
from .results_columns import ResultColumns
from .results_model import BarDelegate, ResultsModel

if TYPE_CHECKING:
    import pandas as pd

    from ...results.results import Results
    from ..layers.image_fingerprint import ImageFingerprint

_ROWS_SHOWN = 8


class ResultsWidget(QWidget):
    """The table, with sizes and bars of the selected region, and the export menu."""

    row_selected = Signal(int)
    shown = Signal()  # other results, or more of them
    renewed = Signal(
        object, object
    )  # the same regions with other limits or captions: results before and after
    picked = Signal(list)  # ids of the selected rows, for the next run

    def __init__(self) -> None:
        super().__init__()
        self._results: Results | None = None
        # Additional columns and records for exports, set by the review.
        self.more_columns: Callable[[], dict[str, list[Any]]] = dict
        self.more_records: Callable[[], list[dict[str, Any]] | None] = lambda: None
        self.source: dict[str, Any] = {}  # source of the results, for the record
        # Results and their masks: compressed, or plane by plane.
        self.run_masks: tuple[Results | None, Any] = (None, {})
        self.fingerprint: ImageFingerprint | None = None  # of the run; None if unknown
        self.model = ResultsModel(self)
        self.table = table_view(self.model, "Regions and their suggestions")
        self.delegate = BarDelegate(self.table)
        self.bars, self.captions = Bars(), CaptionList()
        self.sizes = Note()
        self.empty = Note("No suggestions yet.")
        self.pick = QPushButton("Pick rows")
        self.pick.setToolTip("Use only the regions of the selected rows in the next run")
        self.pick.clicked.connect(lambda: self.picked.emit(self.picked_ids()))
        self.export = QPushButton("Export...")
        self.export.setToolTip("Save embeddings, table, heatmaps, regions or the full record")
        self._build()
        self.show_results(None)

    def _build(self) -> None:
        table = self.table
        table.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        table.setWordWrap(False)
        for place, column in enumerate(self.model.columns):
            if column.bar:
                table.setItemDelegateForColumn(place, self.delegate)
        header = table.horizontalHeader()
        header.setMinimumSectionSize(24)
        header.setResizeContentsPrecision(_ROWS_SHOWN)  # by default up to a thousand rows
        self.columns = ResultColumns(table, self.model)
        table.selectionModel().currentRowChanged.connect(self._row_changed)
        self._bottom = line(
            self.pick, self.columns.button, QWidget(), self.export, shares=(0, 0, 1, 0)
        )
        parts = (self.empty, table, self.sizes, self.bars, self.captions, self._bottom)
        stack(self, *parts, margins=MARGINS, spacing=4)

    @property
    def results(self) -> Results | None:
        """What is shown."""
        return self._results

    def show_results(self, results: Results | None, table: pd.DataFrame | None = None) -> None:
        """Show results; the selected row stays selected when rows are added.

        ``table`` is ``results.to_frame()``, if already computed.
        """
        if results is not None and results is self._results:
            return
        # The order of rows may change: the last window's rows may come first.
        before = None if self._results is None or self.row < 0 else self.row
        key = None if before is None else _key(self._results, before)
        self._results = results
        if results is None:
            self.fingerprint = None
        frame = results.to_frame() if table is None and results is not None else table
        self.model.set_frame(frame)
        count = self.model.rowCount()
        any_rows = count > 0
        self.empty.setVisible(not any_rows)
        for widget in (self.table, self.sizes, self.bars, self._bottom):
            widget.setVisible(any_rows)
        if any_rows:
            row = self.table.verticalHeader().defaultSectionSize()
            title = self.table.horizontalHeader().sizeHint().height() + 4
            self.table.setFixedHeight(title + min(count, _ROWS_SHOWN) * row)
            if not self.table.currentIndex().isValid():
                keys = [] if key is None else [_key(results, row) for row in range(count)]
                self.table.selectRow(keys.index(key) if key in keys else 0)
            else:
                self._show_bars(self.table.currentIndex().row())
        else:
            self.captions.show_matches(None)
        self.shown.emit()

    def renew(self, results: Results, table: pd.DataFrame | None = None) -> None:
        """Show the same regions with other limits or captions."""
        before = self._results
        self.show_results(results, table)
        self.renewed.emit(before, results)

    def select_region(self, region: int, position: tuple[tuple[str, int], ...]) -> None:
        """Select a region's row, if it is in the table."""
        key = (region, position)
        rows = range(self.model.rowCount())
        row = next((row for row in rows if _key(self._results, row) == key), -1)
        if row >= 0:
            self.select(row)

    def set_colors(self, bar: str, text: str) -> None:
        """Follow the theme."""
        self.delegate.color = self.bars.bar_color = QColor(bar)
        self.bars.text_color = QColor(text)
        self.table.viewport().update()
        self.bars.update()

    @property
    def row(self) -> int:
        """The selected row, or -1."""
        return int(self.table.currentIndex().row())

    @property
    def selected_rows(self) -> list[int]:
        """All selected rows, in order."""
        return sorted(index.row() for index in self.table.selectionModel().selectedRows())

    def select(self, row: int) -> None:
        """Select a row and scroll to it."""
        self.table.selectRow(row)
        self.table.scrollTo(self.model.index(row, 0))

    def picked_ids(self) -> list[int]:
        """Ids of the regions of the selected rows; for merged ones, their members."""
        if self._results is None:
            return []
        ids: list[int] = []
        for row in self.selected_rows:
            region = self._results.regions[row]
            ids += region.members or (region.id,)
        return sorted(set(ids))

    def _row_changed(self, current: Any, previous: Any = None) -> None:
        if current.isValid():
            self._show_bars(current.row())
            self.row_selected.emit(current.row())

    def _show_bars(self, row: int) -> None:
        if self.model.frame is None:
            return
        values = self.model.frame.iloc[row]
        region = None if self._results is None else self._results.regions[row]
        self.captions.show_matches(None if region is None else region.captions)
        axes = () if self._results is None else self._results.info.axes
        self.sizes.setText(sizes(values, axes))
        ranking = None if region is None else region.ranking  # also where it is "none of these"
        best = () if ranking is None else zip(ranking.labels, ranking.probabilities, strict=True)
        self.bars.show_rows([(word, float(confidence)) for word, confidence in best][:SHOWN])


def sizes(row: pd.Series[Any], axes: tuple[str, ...]) -> str:
    """Describe position and size of a region, in pixels and in the image's unit."""
    parts = [f"{axis} {row[axis]}" for axis in axes]
    if row.get("merged"):
        parts.append(f"merged from {row['merged']}")
    parts.append(f"{row['area_px']:,.0f} px, {row['height_px']} x {row['width_px']} px")
    if "unit" in row:
        unit = row["unit"]
        parts.append(
            f"{row['area']:.4g} {unit}\N{SUPERSCRIPT TWO}, "
            f"{row['height']:.4g} x {row['width']:.4g} {unit}"
        )
    return f"Region {row['region']}: {'; '.join(parts)}"


def _key(results: Results | None, row: int) -> tuple[Any, ...]:
    """Return a key of a region, unique within a run."""
    region = results.regions[row] if results is not None else None
    return () if region is None else (region.id, region.position)
