"""The words that regions are labelled with, and the limits that flag suggestions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qtpy.QtWidgets import QWidget

TAB = "label"


def content(panel: Any) -> QWidget:
    """Return the content of the tab."""
    return panel.vocabulary


def pages(panel: Any) -> dict[str, QWidget]:
    """Return the pages of the settings."""
    return {"Words and limits": panel.vocabulary.limits_page}
