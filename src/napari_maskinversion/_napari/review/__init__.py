"""Review of suggestions: accept, correct, reject, undo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from qtpy.QtWidgets import QWidget

    from .review_controller import ReviewController

TAB = "review"


class ReviewPanel(Protocol):
    """What this topic needs of the panel."""

    review: ReviewController


def content(panel: ReviewPanel) -> QWidget:
    """Return the content of the tab."""
    return panel.review.part
