"""The library: regions of many images in a folder, which searches look in and runs are added to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from qtpy.QtWidgets import QWidget

    from .library_controller import LibraryController

TAB = "explore"


class LibraryPanel(Protocol):
    """What this topic needs of the panel."""

    library: LibraryController


def content(panel: LibraryPanel) -> QWidget:
    """Return the content of the tab."""
    return panel.library.part
