"""The table of results, its export, and saved results opened again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from qtpy.QtWidgets import QWidget

    from .export_controller import ExportController
    from .results_widget import ResultsWidget

TAB = "label"


class ResultsPanel(Protocol):
    """What this topic needs of the panel."""

    results: ResultsWidget
    exports: ExportController


def content(panel: ResultsPanel) -> QWidget:
    """Return the content of the tab."""
    from ..widgets.sections import column

    return column(panel.results, panel.exports.part)
