"""The words that regions are labelled with, and the limits that flag suggestions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qtpy.QtWidgets import QWidget

TITLE = "Vocabulary"


def content(panel: Any) -> QWidget:
    """Return the content of the panel's section."""
    return panel.vocabulary
