"""The library: regions of many images in a folder, which searches look in and runs are added to."""

from typing import Any

TAB = "explore"


def content(panel: Any) -> Any:
    """Return the content of the tab."""
    return panel.library.part
