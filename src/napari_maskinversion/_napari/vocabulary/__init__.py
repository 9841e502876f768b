"""The words that regions are labelled with, and the limits that flag suggestions."""

from typing import Any

TAB = "label"


def content(panel: Any) -> Any:
    """Return the content of the tab."""
    return panel.vocabulary


def pages(panel: Any) -> dict[str, Any]:
    """Return the pages of the settings."""
    return {"Words and limits": panel.vocabulary.limits_page}
