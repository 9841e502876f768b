"""Runs and live mode: from the panel's settings to results."""

from typing import Any

TAB = "label"


def content(panel: Any) -> Any:
    """Return the content of the tab."""
    from ..widgets.sections import column

    return column(panel.live.switch, panel.live.line)
