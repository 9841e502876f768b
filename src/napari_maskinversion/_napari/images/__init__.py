"""Many images: a project worked through in the panel, one image after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from qtpy.QtWidgets import QWidget

    from .images_controller import ImagesController

TAB = "images"


class ImagesPanel(Protocol):
    """What this topic needs of the panel."""

    images: ImagesController


def content(panel: ImagesPanel) -> QWidget:
    """Return the content of the tab."""
    return panel.images.part
