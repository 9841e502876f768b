"""The list of images: what is known of each is shown, the rest is asked for where it is in view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from qtpy.QtCore import QAbstractTableModel, QModelIndex, QSize, Qt
from qtpy.QtGui import QColor, QFont, QIcon, QImage, QPixmap

from ...batch.decided import Summary
from .thumbnails import SIDE

COLUMNS: Final = ("Image", "Regions", "Decided", "Flags")
_TIPS: Final = (
    "The image; Return opens it",
    "Regions of the image",
    "Regions that you have decided about",
    "Undecided regions whose suggestion is doubtful, or does not fit",
)
_DONE: Final = "\N{CHECK MARK}"


class ImagesModel(QAbstractTableModel):
    """Name with a small picture, regions, decided regions and flags of each image."""

    def __init__(self) -> None:
        super().__init__()
        self.names: tuple[str, ...] = ()
        self._rows: dict[str, int] = {}
        self._done: frozenset[str] = frozenset()
        self._current = ""
        self._summaries: dict[str, Summary] = {}
        self._icons: dict[str, QIcon] = {}
        blank = QPixmap(SIDE, SIDE)
        blank.fill(QColor(0, 0, 0, 0))
        self._blank = QIcon(blank)

    # -- what is known ------------------------------------------------------------------------

    def show_project(self, names: Sequence[str], done: frozenset[str], current: str) -> None:
        """Show the images of a project; another list forgets what was known."""
        if tuple(names) != self.names:
            self.beginResetModel()
            self.names = tuple(names)
            self._rows = {name: row for row, name in enumerate(self.names)}
            self._summaries = {n: s for n, s in self._summaries.items() if n in self._rows}
            self._icons = {n: i for n, i in self._icons.items() if n in self._rows}
            self._done, self._current = done, current
            self.endResetModel()
            return
        changed = (done ^ self._done) | {current, self._current}
        self._done, self._current = done, current
        for name in changed:
            self._changed(name)

    def forget(self) -> None:
        """Forget pictures and counts: another project has been opened."""
        self._summaries.clear()
        self._icons.clear()
        self.show_project((), frozenset(), "")

    def row_of(self, name: str) -> int:
        """Return the row of an image; -1 without one."""
        return self._rows.get(name, -1)

    def unknown(self, first: int, last: int) -> list[str]:
        """Return the images among some rows of which something is not known yet."""
        names = self.names[max(first, 0) : last + 1]
        return [name for name in names if name not in self._summaries or name not in self._icons]

    def set_summary(self, name: str, summary: Summary) -> None:
        """Show the counts of an image."""
        if self._summaries.get(name) != summary:
            self._summaries[name] = summary
            self._changed(name)

    def summary(self, name: str) -> Summary | None:
        """Return the counts of an image, if they are known."""
        return self._summaries.get(name)

    def drop_summary(self, name: str) -> None:
        """Count an image again when it is in view."""
        self._summaries.pop(name, None)

    def set_picture(self, name: str, pixels: Any) -> None:
        """Show a small picture (h, w, 3); None for an image that has none."""
        if pixels is None:
            self._icons[name] = self._blank
        else:
            height, width, _ = pixels.shape
            image = QImage(
                pixels.tobytes(), width, height, 3 * width, QImage.Format.Format_RGB888
            ).copy()
            self._icons[name] = QIcon(QPixmap.fromImage(image))
        self._changed(name)

    def _changed(self, name: str) -> None:
        row = self.row_of(name)
        if row >= 0:
            self.dataChanged.emit(self.index(row, 0), self.index(row, len(COLUMNS) - 1))

    # -- Qt -----------------------------------------------------------------------------------

    def rowCount(self, parent: QModelIndex | None = None) -> int:  # noqa: N802 - Qt's name
        """Return the number of images."""
        return 0 if parent is not None and parent.isValid() else len(self.names)

    def columnCount(self, parent: QModelIndex | None = None) -> int:  # noqa: N802 - Qt's name
        """Return the number of columns."""
        return 0 if parent is not None and parent.isValid() else len(COLUMNS)

    def headerData(self, section: int, orientation: Any, role: int = 0) -> Any:  # noqa: N802
        """Return a title, or what it means."""
        if orientation == Qt.Orientation.Horizontal and 0 <= section < len(COLUMNS):
            if role == Qt.ItemDataRole.DisplayRole:
                return COLUMNS[section]
            if role == Qt.ItemDataRole.ToolTipRole:
                return _TIPS[section]
        return None

    def data(self, index: QModelIndex, role: int = 0) -> Any:
        """Return what a cell shows."""
        if not index.isValid():
            return None
        name, column = self.names[index.row()], index.column()
        if role == Qt.ItemDataRole.DisplayRole:
            return self._text(name, column)
        if role == Qt.ItemDataRole.DecorationRole and column == 0:
            return self._icons.get(name, self._blank)
        if role == Qt.ItemDataRole.SizeHintRole and column == 0:
            return QSize(SIDE, SIDE)
        if role == Qt.ItemDataRole.ToolTipRole:
            summary = self._summaries.get(name, Summary())
            return f"{name}: {summary.problem}" if summary.problem else name
        if role == Qt.ItemDataRole.FontRole and name == self._current:
            font = QFont()
            font.setBold(True)
            return font
        if role == Qt.ItemDataRole.TextAlignmentRole and column:
            return int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return f"{COLUMNS[column]}: {self._text(name, column)}"
        return None

    def _text(self, name: str, column: int) -> str:
        if column == 0:
            return name
        summary = self._summaries.get(name)
        if summary is None:
            return _DONE if column == 2 and name in self._done else ""
        if summary.problem:
            return "problem" if column == 1 else ""
        if summary.regions is None:
            return ""
        if column == 1:
            return f"{summary.regions:,}"
        if column == 2:
            return f"{summary.decided:,} {_DONE}" if name in self._done else f"{summary.decided:,}"
        return f"{summary.flagged:,}" if summary.suggested else ""
