"""Runs and live mode: from the panel's settings to results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from qtpy.QtWidgets import QWidget

    from .live_controller import LiveController

TAB = "label"


class RunPanel(Protocol):
    """What this topic needs of the panel."""

    live: LiveController


def content(panel: RunPanel) -> QWidget:
    """Return the content of the tab."""
    from ..widgets.sections import column

    return column(panel.live.switch, panel.live.line)
