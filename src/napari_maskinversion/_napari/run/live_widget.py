"""Live mode: its switch, and a line that says how it goes."""

from __future__ import annotations

from qtpy.QtCore import QSignalBlocker
from qtpy.QtWidgets import QCheckBox

from ..widgets.sections import note


class LiveWidget:
    """Two widgets that stand in different places of section 4.

    Attributes
    ----------
    switch : QCheckBox
    line : QLabel
        Hidden where there is nothing to say.
    """

    def __init__(self) -> None:
        self.switch = QCheckBox("Live")
        self.switch.setAccessibleName("Live: follow the regions as they are edited")
        self.switch.setToolTip(
            "Regions that are painted, moved, added or removed get their suggestion at once. Only "
            "those that changed are computed. For the plane shown."
        )
        self.line = note()
        self.line.setAccessibleName("What live mode does")
        self.line.hide()

    def say(self, text: str) -> None:
        """Replace what the line says."""
        self.line.setText(text)
        self.line.setVisible(bool(text))

    def show_switch(self, on: bool) -> None:
        """Set the switch without its signal."""
        with QSignalBlocker(self.switch):
            self.switch.setChecked(on)
