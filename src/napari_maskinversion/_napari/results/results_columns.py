"""Widths, order and visibility of the columns of the results table."""

from __future__ import annotations

from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field
from qtpy.QtCore import QEvent, QObject, Qt, Signal
from qtpy.QtGui import QAction
from qtpy.QtWidgets import QHeaderView, QMenu, QTableView

from ..widgets.keys import TABLE, pressed
from ..widgets.sections import button
from .results_model import ResultsModel

# Takes the remaining width and cannot be hidden.
_MAIN: Final = "suggestion"
_STEP: Final = 8
_LEAST: Final = 24


class ResultColumns(QObject):
    """Columns fit their content until the user resizes one."""

    changed = Signal()

    def __init__(self, table: QTableView, model: ResultsModel) -> None:
        super().__init__(table)
        self._names = tuple(column.name for column in model.columns)
        self._first = tuple(column.name for column in model.columns if "panel" in column.places)
        self._table = table
        self._widths: dict[str, int] = {}
        self._fitting = False
        self.header = table.horizontalHeader()
        self.header.setSectionsMovable(True)
        self.header.sectionMoved.connect(lambda *_: self.changed.emit())
        self.header.setSectionResizeMode(QHeaderView.ResizeMode.Interactive)
        main = self._names.index(_MAIN)
        self.header.setSectionResizeMode(main, QHeaderView.ResizeMode.Stretch)
        self.header.sectionResized.connect(self._resized)
        for signal in (model.modelReset, model.rowsInserted, model.dataChanged):
            signal.connect(self._fit)
        self.header.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.header.customContextMenuRequested.connect(self._open_menu)
        table.installEventFilter(self)
        tip = "Show and hide columns. Drag titles and their edges, or use keys (the button ?)"
        self.button = button("Columns", tip)
        self.menu = QMenu(self.button)
        self.menu.setToolTipsVisible(True)
        self.actions: dict[str, QAction] = {}
        for column in model.columns:
            name = column.name
            action = self.menu.addAction(column.title[:1].upper() + column.title[1:])
            action.setToolTip(column.explanation)
            action.setCheckable(True)
            action.setChecked(True)
            action.setEnabled(name != _MAIN)
            action.toggled.connect(lambda on, name=name: self._show(name, on))
            action.setChecked(name in self._first)
            self.actions[name] = action
        self.menu.addSeparator()
        self.menu.addAction("Reset").triggered.connect(lambda _=False: self.reset())
        self.button.setMenu(self.menu)
        self._fit()

    @property
    def state(self) -> ColumnState:
        """The current arrangement."""
        names = self._names
        order = sorted(names, key=lambda name: self.header.visualIndex(names.index(name)))
        shown = tuple(name for name, action in self.actions.items() if action.isChecked())
        return ColumnState(
            order=() if tuple(order) == names else tuple(order),
            shown=() if shown == self._first else shown,
            widths=dict(self._widths),
        )

    def apply(self, state: ColumnState) -> None:
        """Apply an arrangement; unknown names are ignored."""
        order = [name for name in state.order if name in self._names]
        for place, name in enumerate([*order, *(n for n in self._names if n not in order)]):
            self.header.moveSection(self.header.visualIndex(self._names.index(name)), place)
        for name, action in self.actions.items():
            action.setChecked(name == _MAIN or name in (state.shown or self._first))
        self._widths = {
            name: max(width, _LEAST)
            for name, width in state.widths.items()
            if name in self._names and name != _MAIN
        }
        self._fit()

    def reset(self) -> None:
        """Restore the default arrangement."""
        self.apply(ColumnState())
        self.changed.emit()

    def eventFilter(self, watched: Any, event: Any) -> bool:  # noqa: N802 - Qt's name
        """Handle the table's keys before napari's shortcuts."""
        if event.type() not in (QEvent.Type.KeyPress, QEvent.Type.ShortcutOverride):
            return False
        action = pressed(event, TABLE)
        if action and event.type() == QEvent.Type.KeyPress:
            self._by_key(action)
        elif action:
            event.accept()
        return bool(action)

    def _resized(self, place: int, _: int, width: int) -> None:
        """Keep a width that the user has chosen."""
        name = self._names[place]
        if not self._fitting and name != _MAIN and width > 0:
            self._widths[name] = width
            self.changed.emit()

    def _by_key(self, action: str) -> None:
        place = self._table.currentIndex().column()
        if place < 0:
            return
        if action in ("left", "right"):
            visual = self.header.visualIndex(place)
            target = visual + (1 if action == "right" else -1)
            if 0 <= target < len(self._names):
                self.header.moveSection(visual, target)
            return
        name = self._names[place]
        if name == _MAIN:
            return
        change = _STEP if action == "wider" else -_STEP
        self.header.resizeSection(place, max(self.header.sectionSize(place) + change, _LEAST))

    def _show(self, name: str, on: bool) -> None:
        self._fitting = True  # nobody has dragged it
        self._table.setColumnHidden(self._names.index(name), not on)
        self._fit()
        self.changed.emit()

    def _fit(self, *_: object) -> None:
        """Set the width of each column: what the user has chosen, else that of its content."""
        self._fitting = True
        for place, name in enumerate(self._names):
            if name != _MAIN and not self._table.isColumnHidden(place):
                wide = self._table.sizeHintForColumn(place), self.header.sectionSizeHint(place)
                self.header.resizeSection(place, self._widths.get(name) or max(wide))
        self._fitting = False

    def _open_menu(self, where: Any) -> None:
        self.menu.popup(self.header.viewport().mapToGlobal(where))


class ColumnState(BaseModel):
    """Order, visibility and widths of the columns."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    order: tuple[str, ...] = ()  # Names of columns; empty ones are the default
    shown: tuple[str, ...] = ()
    # Pixels, of the columns that the user has resized
    widths: dict[str, int] = Field(default_factory=dict)
