"""Review of suggestions: accept, correct, reject, undo."""

from typing import Any

TAB = "review"


def content(panel: Any) -> Any:
    """Return the content of the tab."""
    return panel.review.part
