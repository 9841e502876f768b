"""The table of results, its export, and saved results opened again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qtpy.QtWidgets import QWidget

TAB = "label"


def content(panel: Any) -> QWidget:
    """Return the content of the tab."""
    from ..widgets.sections import column

    return column(panel.results, panel.exports.part)
