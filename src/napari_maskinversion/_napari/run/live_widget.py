"""The switch of live mode and its status line."""

from __future__ import annotations

from qtpy.QtCore import QSignalBlocker
from qtpy.QtWidgets import QCheckBox

from ..widgets.sections import Note


class LiveWidget:
    """The switch, and a line below it."""

    def __init__(self) -> None:
        self.switch = QCheckBox("Live")
        self.switch.setAccessibleName("Live: follow the regions as they are edited")
        self.switch.setToolTip(
            "Regions that you paint, move, add or remove get their suggestion at once. Only "
            "changed regions are computed, on the displayed plane."
        )
        self.line = Note(name="Status of live mode")
        self.line.hide()

    def show_switch(self, on: bool) -> None:
        """Set the switch without emitting its signal."""
        with QSignalBlocker(self.switch):
            self.switch.setChecked(on)
