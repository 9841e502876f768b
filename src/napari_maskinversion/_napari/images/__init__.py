"""Many images: a project worked through in the panel, one image after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qtpy.QtWidgets import QWidget

TAB = "images"


def content(panel: Any) -> QWidget:
    """Return the content of the tab."""
    return panel.images.part
