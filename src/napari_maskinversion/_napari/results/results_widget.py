"""The table of results."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from qtpy.QtCore import QItemSelection, QItemSelectionModel, QModelIndex, QSize
from qtpy.QtGui import QColor
from qtpy.QtWidgets import QAbstractItemView, QHeaderView, QWidget

from ...app.explore.region_sources import shown_file
from ...app.session import ResultRecord, Session, Topic, changed_rows, same_run
from ...base.identity import place_text
from ...base.wording import counted
from ...language.labels.label import colors_of
from ..widgets.sections import HAS_REVIEW_KEYS, MARGINS, Note, button, line, stack
from ..widgets.table_views import select_row, table_view
from ..workers.notify import inform
from .region_details import SHOWN, Bars, CaptionList
from .results_columns import ResultColumns
from .results_model import BarDelegate, ResultsModel

if TYPE_CHECKING:
    import pandas as pd

    from ...results.results import Results

_ROWS_SHOWN = 8
_CHIP = 10  # pixels


class ResultsWidget(Topic, QWidget):
    """The table, with sizes and bars of the selected region."""

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session
        self._record: ResultRecord | None = None
        self._sorting = False  # the same rows are selected at other places
        self._filling = False  # a selection made meanwhile is not the user's
        self.model = ResultsModel(session, self)
        self.table = table_view(self.model, "Regions and their suggestions")
        self.delegate = BarDelegate(self.table)
        self.bars, self.captions = Bars(), CaptionList()
        self.sizes, self.plane = Note(), Note(name="Plane of the table")
        self.empty = Note("No suggestions yet.")
        self.order = Note(name="Order of the table")
        self.usual = button("Usual order", "Sort table and gallery as usual", self._sort_as_usual)
        tip = "Use only the regions of the selected rows in the next run"
        self.pick = button("Pick rows", tip, self._pick)
        self._build()
        self._show(None)

    def _build(self) -> None:
        table = self.table
        table.setProperty(HAS_REVIEW_KEYS, True)
        table.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        table.setWordWrap(False)
        for place, column in enumerate(self.model.columns):
            if column.kind == "share":
                table.setItemDelegateForColumn(place, self.delegate)
        header = table.horizontalHeader()
        header.setMinimumSectionSize(24)
        header.setResizeContentsPrecision(_ROWS_SHOWN)  # by default up to a thousand rows
        last = len(self.model.columns) - 1
        header.setSectionResizeMode(last, QHeaderView.ResizeMode.ResizeToContents)
        self.columns = ResultColumns(table, self.model)
        table.setIconSize(QSize(_CHIP, _CHIP))
        table.selectionModel().currentRowChanged.connect(self._row_changed)
        table.selectionModel().selectionChanged.connect(self._rows_changed)
        self._bottom = line(self.pick, self.columns.button, QWidget(), shares=(0, 0, 1))
        self._order_line = line(self.order, self.usual, shares=(1, 0))
        parts = (
            self.empty,
            self.plane,
            self._order_line,
            table,
            self.sizes,
            self.bars,
            self.captions,
            self._bottom,
        )
        stack(self, *parts, margins=MARGINS, spacing=4)

    def bind(self) -> None:
        """Show the session's results."""
        run = self._session.run.events
        review = self._session.review.events
        self.after(self._show, run.record)
        self.after(self._follow_order, self._session.explore.events.order)
        self.after(self._show_row, review.row)
        self.after(self._show_rows, review.rows)
        self.after(self.recolor, review.changes, review.state)
        self.after(self._mark_changed, run.changed_regions, run.image_changed, run.computing)
        self.after(self._name_plane, run.record, run.plane, run.layers)
        self._show(self._session.run.record)
        self._name_plane()

    def _name_plane(self, _: object = None) -> None:
        """Name the plane of the regions, and that in view if it is another one."""
        session, record = self._session, self._session.run.record
        if record is not None and session.run.image is None:
            self.plane.say("The image of these regions was closed.")
            return
        if record is None or not record.plane:
            self.plane.say("")
            return
        text = f"Regions on {place_text(record.plane)}"
        if session.run.elsewhere:
            text += f"; {place_text(session.run.plane or ())} is shown"
        self.plane.say(text)

    @property
    def results(self) -> Results | None:
        """What is shown."""
        return None if self._record is None else self._record.results

    def _show(self, record: ResultRecord | None) -> None:
        """Show results; the selected row stays selected when rows are added."""
        before, self._record = self._record, record
        old = None if before is None else before.results
        new = None if record is None else record.results
        if new is old and new is not None:
            return
        self._filling = True
        try:
            if not same_run(before, record):
                self._fill(None, None, -1)  # rows of another run keep neither order nor selection
                old = None
            self._fill(old, new, self._session.review.row)
            self._sort()
        finally:
            self._filling = False
        self._mark_changed()

    # -- a search ---------------------------------------------------------------------------------

    def _follow_order(self, _: object = None) -> None:
        """Sort the rows as a search of stored regions says, or as usual."""
        self._sort()
        self._mark_changed()

    def _sort(self) -> None:
        order, results, similarities = self._session.explore.order, self.results, None
        if order is not None and results is not None:
            similarities = order.of_results(results, shown_file(self._session))
            if np.isnan(similarities).all():
                similarities = None  # It found regions of other images
        selected, row = self._selected, self.row
        self._sorting = True
        try:
            self.model.sort_by(similarities)
            if row >= 0 and self.row != row:
                self.select(row)
                self._show_rows(selected)
        finally:
            self._sorting = False
        self._order_line.setVisible(self.model.is_sorted)
        self.table.setColumnHidden(len(self.model.columns) - 1, not self.model.is_sorted)
        if order is not None:
            self.order.say(f"{order.title[:1].upper()}{order.title[1:]}")

    def _sort_as_usual(self) -> None:
        self._session.explore.order = None

    def recolor(self, _: object = None) -> None:
        """Show decisions, and the colours of words."""
        review, results = self._session.reviewed, self.results
        vocabulary = None if results is None else results.info.vocabulary
        if review is not None:
            self.model.refresh(review.colors())
        elif vocabulary is not None:
            chosen_colors = [label.color for label in vocabulary.full_labels]
            self.model.refresh(colors_of(vocabulary.labels, chosen_colors))
        self._show_bars(self.row)

    def _mark_changed(self, _: object = None) -> None:
        """Grey the rows of what has changed since."""
        self.model.refresh(changed=changed_rows(self._session))

    def _fill(self, before: Results | None, results: Results | None, row: int) -> None:
        # The order of rows may change: the last window's rows may come first.
        key = None
        if before is not None and self.row >= 0:
            key = before.regions[self.row].key
        frame = None
        if results is not None and self._record is not None:
            frame = results.to_frame() if self._record.table is None else self._record.table
        self.model.set_frame(frame)
        count = self.model.rowCount()
        any_rows = count > 0
        self.empty.setVisible(not any_rows)
        for widget in (self.table, self.sizes, self.bars, self._bottom):
            widget.setVisible(any_rows)
        if not any_rows:
            self.captions.show_region(None)
            return
        height = self.table.verticalHeader().defaultSectionSize()
        title = self.table.horizontalHeader().sizeHint().height() + 4
        self.table.setFixedHeight(title + min(count, _ROWS_SHOWN) * height)
        if not self.table.currentIndex().isValid():
            if results is not None and key is not None:
                keys = [region.key for region in results.regions]
                if key in keys:
                    row = keys.index(key)
            select_row(self.table, self.model.place_of(row if 0 <= row < count else 0))
        else:
            self._show_bars(self.row)
        self.recolor()

    def _show_row(self, row: int) -> None:
        if 0 <= row < self.model.rowCount() and row != self.row:
            self.select(row)

    def _show_rows(self, rows: tuple[int, ...]) -> None:
        """Select the rows that another part of the panel has selected; the first is the current."""
        if not rows or rows == self._selected or rows[-1] >= self.model.rowCount():
            return
        selection, model = QItemSelection(), self.table.selectionModel()
        places = sorted(self.model.place_of(row) for row in rows)
        # Rows that follow one another are selected as one range: Qt is slow with many.
        for block in np.split(places, np.flatnonzero(np.diff(places) > 1) + 1):
            first, last = self.model.index(int(block[0]), 0), self.model.index(int(block[-1]), 0)
            selection.select(first, last)
        flags = QItemSelectionModel.SelectionFlag
        if self.row not in rows:
            index = self.model.index(places[0], 0)
            model.setCurrentIndex(index, flags.NoUpdate)
            self.table.scrollTo(index)
        model.select(selection, flags.ClearAndSelect | flags.Rows)

    @property
    def _selected(self) -> tuple[int, ...]:
        """The selected rows; Qt's own list of them takes seconds for many."""
        ranges = self.table.selectionModel().selection()
        rows: set[int] = set()
        for places in ranges:
            rows.update(map(self.model.row_at, range(places.top(), places.bottom() + 1)))
        return tuple(sorted(rows))

    def set_colors(self, bar: str, text: str) -> None:
        """Follow the theme."""
        self.delegate.color = self.bars.bar_color = QColor(bar)
        self.bars.text_color = QColor(text)
        self.table.viewport().update()
        self.bars.update()

    @property
    def row(self) -> int:
        """The selected row of the results, or -1."""
        return self.model.row_at(self.table.currentIndex().row())

    def _rows_changed(self, *_: object) -> None:
        if not self._sorting:
            self._session.review.rows = self._selected

    def select(self, row: int) -> None:
        """Select a row and scroll to it."""
        place = self.model.place_of(row)
        select_row(self.table, place)
        self.table.scrollTo(self.model.index(place, 0))

    def _pick(self) -> None:
        """Limit the next run to the selected rows."""
        ids: set[int] = set()
        if self.results is not None:
            for row in self._session.review.rows:
                region = self.results.regions[row]
                ids.update(region.members or (region.id,))
        text = ", ".join(map(str, sorted(ids)))
        self._session.run.scope = replace(self._session.run.scope, limited=True, ids=text)
        inform(
            f"The next run uses {counted(len(ids), 'region')} only, until you change that in "
            "Settings > Regions and windows."
        )

    def _row_changed(self, current: QModelIndex, previous: QModelIndex | None = None) -> None:
        if current.isValid() and not self._sorting:
            row = self.model.row_at(current.row())
            self._show_bars(row)
            self._session.select(row, picked=not self._filling)

    def _show_bars(self, row: int) -> None:
        if self.model.frame is None or row < 0:
            return
        values = self.model.frame.iloc[row]
        region = None if self.results is None else self.results.regions[row]
        self.captions.show_region(region)
        axes = () if self.results is None else self.results.info.axes
        self.sizes.setText(sizes(values, axes))
        best: list[tuple[str, float]] = []
        if region is not None and region.ranking is not None:  # also where it is "none of these"
            labels = region.ranking.labels[:SHOWN]
            best = list(zip(labels, map(float, region.ranking.probabilities), strict=False))
        self.bars.show_rows(best)


def sizes(row: pd.Series[Any], axes: tuple[str, ...]) -> str:
    """Describe position and size of a region, in pixels and in the image's unit."""
    parts = []
    place = place_text(tuple((axis, row[axis]) for axis in axes))
    if place:
        parts.append(place)
    if row.get("merged"):
        parts.append(f"merged from {row['merged']}")
    parts.append(f"{row['area_px']:,.0f} px, {row['height_px']} x {row['width_px']} px")
    if "unit" in row:
        unit = row["unit"]
        parts.append(
            f"{_amount(row['area'])} {unit}\N{SUPERSCRIPT TWO}, "
            f"{_amount(row['height'])} x {_amount(row['width'])} {unit}"
        )
    return f"Region {row['region']}: {'; '.join(parts)}"


def _amount(value: float) -> str:
    """Return four digits, or more before the point; never a power of ten."""
    if value >= 1000:
        return f"{value:,.0f}"
    return np.format_float_positional(value, 4, unique=False, fractional=False, trim="-")
