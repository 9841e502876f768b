"""The list of images: what is known of each, and which of them fit a text, such as "doubtful"."""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final

from qtpy.QtCore import QModelIndex, QSize, Qt
from qtpy.QtGui import QColor, QFont, QIcon, QPixmap

from ...app.project.images_work import SIDE
from ...app.review.decision_requests import is_sure_enough
from ...review.stored_images import Summary
from ..widgets.controls import pixmap_of
from ..widgets.table_views import RowsModel

COLUMNS: Final = ("Image", "Regions", "Decided", "Flags")
_TIPS: Final = (
    "The image; Return opens it",
    "Regions of the image",
    "Regions that you have decided about",
    "Undecided regions whose suggestion is doubtful, or does not fit",
)
_DONE: Final = "\N{CHECK MARK}"
NOTHING_FOUND, DOUBTFUL, UNDECIDED = "nothing found", "doubtful", "undecided"
EXAMPLE: Final = "> 10 regions"
_COUNT: Final = re.compile(r"(>=|<=|>|<|=|) *([0-9]+)(?: +regions?)?")
_SIGNS: Final = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
    "=": operator.eq,
    "": operator.eq,
}


class ImagesModel(RowsModel):
    """Name with a small picture, regions, decided regions and flags of each image."""

    titles = tuple(zip(COLUMNS, _TIPS, strict=True))

    def __init__(self) -> None:
        super().__init__()
        self.names: tuple[str, ...] = ()
        self._rows: dict[str, int] = {}
        self._done: frozenset[str] = frozenset()
        self.current = ""
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
            self._done, self.current = done, current
            self.endResetModel()
            return
        changed = (done ^ self._done) | {current, self.current}
        self._done, self.current = done, current
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

    def waiting(self, confidence: float) -> Counter[str]:
        """Count undecided regions by their word, in the images that are known."""
        words: Counter[str] = Counter()
        for summary in self._summaries.values():
            for word, region_confidence in summary.waiting:
                if is_sure_enough(region_confidence, confidence):
                    words[word] += 1
        return words

    @property
    def is_counting(self) -> bool:
        """Whether images are not known yet."""
        return len(self._summaries) < len(self.names)

    def drop_summary(self, name: str) -> None:
        """Count an image again when it is in view."""
        self._summaries.pop(name, None)

    def set_picture(self, name: str, pixels: Any) -> None:
        """Show a small picture (h, w, 3); None for an image that has none."""
        icon = self._blank
        if pixels is not None:
            icon = QIcon(pixmap_of(pixels))
        self._icons[name] = icon
        self._changed(name)

    def _changed(self, name: str) -> None:
        row = self.row_of(name)
        if row >= 0:
            self.dataChanged.emit(self.index(row, 0), self.index(row, len(COLUMNS) - 1))

    # -- Qt -----------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """Number of images."""
        return len(self.names)

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
        if role == Qt.ItemDataRole.FontRole and name == self.current:
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


def images_filter(text: str) -> Callable[[Summary], bool] | None:
    """Return whether an image fits a text, of what is known of it; None if all do."""
    text = " ".join(text.split()).casefold()
    if text in ("", "all"):
        return None
    if text == NOTHING_FOUND:
        return lambda one: one.regions is not None and not one.words and not one.problem
    if text == DOUBTFUL:
        return lambda one: one.flagged > 0
    if text == UNDECIDED:
        return lambda one: (one.regions or 0) > one.decided
    if match := _COUNT.fullmatch(text):
        compare, number = _SIGNS[match[1]], int(match[2])
        return lambda one: one.regions is not None and bool(compare(one.regions, number))
    return lambda one: any(text in word.casefold() for word in one.words)
