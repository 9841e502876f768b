"""A closer look at results: why, compare, captions, find by words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qtpy.QtWidgets import QWidget

TITLE = "Captions and words"
OPEN = False


def content(panel: Any) -> QWidget:
    """Return the content of the panel's section."""
    return panel.language
