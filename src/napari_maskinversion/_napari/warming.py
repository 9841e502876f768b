"""Imports what a run needs while the user looks at the panel."""

from __future__ import annotations

from typing import Any

from qtpy.QtCore import QEvent, QObject, Signal
from qtpy.QtWidgets import QWidget

from .calls import Calls
from .preload import is_warm, warm_up


class Warming(QObject):
    """Begins when a widget is first shown, in a worker.

    Parameters
    ----------
    widget : QWidget

    Signals
    -------
    done
        PyTorch is there.
    """

    done = Signal()

    def __init__(self, widget: QWidget) -> None:
        super().__init__(widget)
        self._calls = Calls(self)
        self._calls.done.connect(self._finish)
        widget.installEventFilter(self)

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:  # noqa: N802
        """Begin when the widget is shown; events go on as they are."""
        shown = event is not None and event.type() == QEvent.Type.Show
        if shown and not self._calls.busy and not is_warm():
            self._calls.start(warm_up)
        return False

    def _finish(self, _: Any) -> None:
        self.done.emit()
