"""Choice of image and regions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qtpy.QtWidgets import QWidget

TITLE = "Image and regions"


def content(panel: Any) -> QWidget:
    """Return the content of the panel's section."""
    return panel.input
