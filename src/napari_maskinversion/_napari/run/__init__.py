"""Runs and live mode: from the panel's settings to results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qtpy.QtWidgets import QWidget

TITLE = "Run"


def content(panel: Any) -> QWidget:
    """Return the content of the panel's section."""
    return panel.run_widget
