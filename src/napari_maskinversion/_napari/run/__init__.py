"""Runs and live mode: from the panel's settings to results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qtpy.QtWidgets import QWidget

TAB = "label"


def content(panel: Any) -> QWidget:
    """Return the content of the tab."""
    from ..widgets.sections import column

    return column(panel.live.part.switch, panel.live.part.line)
