"""Many images: a project worked through in the panel, one image after the other."""

from typing import Any

TAB = "images"


def content(panel: Any) -> Any:
    """Return the content of the tab."""
    return panel.images.part
