"""The words that regions are labelled with, and the limits that flag suggestions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from qtpy.QtWidgets import QWidget

    from .vocabulary_widget import VocabularyWidget

TAB = "label"


class VocabularyPanel(Protocol):
    """What this topic needs of the panel."""

    vocabulary: VocabularyWidget


def content(panel: VocabularyPanel) -> QWidget:
    """Return the content of the tab."""
    return panel.vocabulary


def pages(panel: VocabularyPanel) -> dict[str, QWidget]:
    """Return the pages of the settings."""
    return {"Words and limits": panel.vocabulary.limits_page}
