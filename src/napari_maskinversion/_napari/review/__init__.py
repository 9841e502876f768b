"""Review of suggestions: accept, correct, reject, undo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qtpy.QtWidgets import QWidget

TITLE = "Review"


def content(panel: Any) -> QWidget:
    """Return the content of the panel's section."""
    return panel.review.part
