"""Choice of image and regions."""

from typing import Any


def pages(panel: Any) -> dict[str, Any]:
    """Return the pages of the settings."""
    return {"Regions and windows": panel.input.scope}
