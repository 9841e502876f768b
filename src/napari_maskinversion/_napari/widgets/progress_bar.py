"""A progress bar that waits for its turn to be painted."""

from __future__ import annotations

from qtpy.QtWidgets import QProgressBar


class ProgressBar(QProgressBar):
    """Paints a new value with the rest of the window.

    Qt's own bar paints at once, and with it whatever else of the window has changed: the canvas
    as well, in the middle of a change of image.
    """

    def setValue(self, value: int) -> None:  # noqa: N802 - Qt's name
        """Set the value; the bar is painted by the next turn of the event loop."""
        self.setUpdatesEnabled(False)
        super().setValue(value)
        self.setUpdatesEnabled(True)
