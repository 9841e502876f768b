"""Review of suggestions: accept, correct, reject, undo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qtpy.QtWidgets import QWidget

TAB = "review"


def content(panel: Any) -> QWidget:
    """Return the content of the tab."""
    return panel.review.part
