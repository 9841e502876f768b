"""Choice of image and regions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from qtpy.QtWidgets import QWidget


def pages(panel: Any) -> dict[str, QWidget]:
    """Return the pages of the settings."""
    return {"Regions and windows": panel.input.scope}
