"""Qt model of the ranked regions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from qtpy.QtCore import QAbstractTableModel, QObject, Qt

if TYPE_CHECKING:
    from .find_task import Finding

_COLUMNS: Final = (
    ("Place", "Rank; 1 fits the words best"),
    ("Region", "Label value or shape row, and the plane"),
    ("Sim.", "Cosine similarity of region and words"),
    ("Margin", "Similarity minus that of the next region"),
)


class MatchesModel(QAbstractTableModel):
    """Regions, best first."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.finding: Finding | None = None

    def show(self, finding: Finding | None) -> None:
        """Show another finding."""
        self.beginResetModel()
        self.finding = finding
        self.endResetModel()

    def rowCount(self, parent: Any = None) -> int:  # noqa: N802 - Qt's name
        """Regions."""
        inside = parent is not None and parent.isValid()
        return 0 if inside or self.finding is None else len(self.finding.matches)

    def columnCount(self, parent: Any = None) -> int:  # noqa: N802 - Qt's name
        """Columns shown."""
        return len(_COLUMNS) if parent is None or not parent.isValid() else 0

    def data(self, index: Any, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        """Text or alignment of a cell."""
        if role == Qt.ItemDataRole.TextAlignmentRole:
            sides = (Qt.AlignmentFlag.AlignHCenter, Qt.AlignmentFlag.AlignLeft)
            side = (*sides, *2 * (Qt.AlignmentFlag.AlignRight,))[index.column()]
            return int(side | Qt.AlignmentFlag.AlignVCenter)
        if role == Qt.ItemDataRole.ToolTipRole:
            return _COLUMNS[index.column()][1]
        if role != Qt.ItemDataRole.DisplayRole or self.finding is None:
            return None
        match = self.finding.matches[index.row()]
        region = self.finding.results.regions[match.row]
        plane = "".join(f", {axis} {place}" for axis, place in region.position)
        margin = "\N{EN DASH}" if match.margin != match.margin else f"{match.margin:.3f}"
        cells = (str(index.row() + 1), f"{region.id}{plane}", f"{match.similarity:.3f}", margin)
        return cells[index.column()]

    def headerData(  # noqa: N802 - Qt's name
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> Any:
        """Titles and their tool tips."""
        if orientation == Qt.Orientation.Horizontal:
            if role == Qt.ItemDataRole.DisplayRole:
                return _COLUMNS[section][0]
            if role == Qt.ItemDataRole.ToolTipRole:
                return _COLUMNS[section][1]
        return None
