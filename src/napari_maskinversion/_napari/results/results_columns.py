"""Widths, order and visibility of the columns of the results table."""

from __future__ import annotations

from typing import Final

from pydantic import BaseModel, ConfigDict, Field
from qtpy.QtCore import QEvent, QObject, QPoint, Qt, Signal
from qtpy.QtGui import QAction
from qtpy.QtWidgets import QHeaderView, QMenu, QTableView

from ..widgets.keys import TABLE, pressed
from ..widgets.sections import button
from .results_model import LIKENESS, ResultsModel

# Takes the remaining width and cannot be hidden.
_MAIN: Final = "suggestion"
_STEP: Final = 8
_LEAST: Final = 24
_MOUSE: Final = (QEvent.Type.Enter, QEvent.Type.MouseButtonPress)


class ResultColumns(QObject):
    """Columns fit their content until the user resizes one."""

    changed = Signal()

    def __init__(self, table: QTableView, model: ResultsModel) -> None:
        super().__init__(table)
        own = [column for column in model.columns if column is not LIKENESS]  # A search shows it
        self._names = tuple(column.name for column in own)
        self._first = tuple(column.name for column in own if "panel" in column.places)
        self._table = table
        self._widths: dict[str, int] = {}
        self._before: list[int] = []  # widths when the mouse came
        self.header = table.horizontalHeader()
        self.header.setSectionsMovable(True)
        self.header.sectionMoved.connect(lambda *_: self.changed.emit())
        self.header.viewport().installEventFilter(self)
        self.header.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.header.customContextMenuRequested.connect(self._open_menu)
        table.installEventFilter(self)
        tip = "Show and hide columns. Drag titles and their edges, or use keys (the button ?)"
        self.button = button("Columns", tip)
        self.menu = QMenu(self.button)
        self.menu.setToolTipsVisible(True)
        self.actions: dict[str, QAction] = {}
        for column in own:
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
        order += [name for name in self._names if name not in order]
        for place, name in enumerate(order):
            self.header.moveSection(self.header.visualIndex(self._names.index(name)), place)
        for name, action in self.actions.items():
            action.setChecked(name == _MAIN or name in (state.shown or self._first))
        self._widths = {}
        for name, width in state.widths.items():
            if name in self._names and name != _MAIN:
                self._widths[name] = max(width, _LEAST)
        self._fit()

    def reset(self) -> None:
        """Restore the default arrangement."""
        self.apply(ColumnState())
        self.changed.emit()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802 - Qt's name
        """Let the mouse drag the edges of columns, and handle the table's keys."""
        kind = event.type()
        if getattr(self, "_table", None) is None:  # deleted in Python, not yet in Qt
            return False
        if watched is self._table:
            if kind not in (QEvent.Type.KeyPress, QEvent.Type.ShortcutOverride):
                return False
            action = pressed(event, TABLE)
            if action and kind == QEvent.Type.KeyPress:
                self._by_key(action)
            elif action:
                event.accept()
            return bool(action)
        if kind in _MOUSE and not self._before:
            self._before = self._sizes()
            for place, name in enumerate(self._names):
                if name != _MAIN:
                    self.header.setSectionResizeMode(place, QHeaderView.ResizeMode.Interactive)
        elif kind == QEvent.Type.Leave and self._before:
            self._note()
        elif kind == QEvent.Type.MouseButtonRelease and self._before:
            self._note(stay=True)
        return False

    def _note(self, *, stay: bool = False) -> None:
        """Keep widths changed by mouse."""
        sizes = self._sizes()
        changed: dict[str, int] = {}
        for name, size, size_before in zip(self._names, sizes, self._before, strict=True):
            if name != _MAIN and size != size_before and size > 0:
                changed[name] = size
        self._before = sizes if stay else []
        self._widths |= changed
        if not stay:
            self._fit()
        if changed:
            self.changed.emit()

    def _by_key(self, action: str) -> None:
        place = self._table.currentIndex().column()
        if not 0 <= place < len(self._names):
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
        self._widths[name] = max(self.header.sectionSize(place) + change, _LEAST)
        self._fit()
        self.changed.emit()

    def _show(self, name: str, on: bool) -> None:
        self._table.setColumnHidden(self._names.index(name), not on)
        self.changed.emit()

    def _fit(self) -> None:
        modes = QHeaderView.ResizeMode
        for place, name in enumerate(self._names):
            if name == _MAIN:
                self.header.setSectionResizeMode(place, modes.Stretch)
            elif name in self._widths:
                self.header.setSectionResizeMode(place, modes.Interactive)
                self.header.resizeSection(place, self._widths[name])
            else:
                self.header.setSectionResizeMode(place, modes.ResizeToContents)

    def _sizes(self) -> list[int]:
        return [self.header.sectionSize(place) for place in range(len(self._names))]

    def _open_menu(self, where: QPoint) -> None:
        self.menu.popup(self.header.viewport().mapToGlobal(where))


class ColumnState(BaseModel):
    """Order, visibility and widths of the columns."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    order: tuple[str, ...] = ()  # Names of columns; empty ones are the default
    shown: tuple[str, ...] = ()
    # Pixels, of the columns that the user has resized
    widths: dict[str, int] = Field(default_factory=dict)
