"""The table of results, its export, and saved results opened again."""

from typing import Any

TAB = "label"


def content(panel: Any) -> Any:
    """Return the content of the tab."""
    from ..widgets.sections import column

    return column(panel.results, panel.exports.part)
