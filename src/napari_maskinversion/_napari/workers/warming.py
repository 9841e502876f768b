"""Imports what a run needs while the user looks at the panel."""

from __future__ import annotations

import threading
from contextlib import suppress

from qtpy.QtCore import QEvent, QObject, Signal
from qtpy.QtWidgets import QWidget

from .preload import is_warm, warm_up

_only_one = threading.Lock()


class Warming(QObject):
    """Begins when a widget is first shown, in a thread of its own.

    The thread is Python's, not Qt's: napari may be closed meanwhile, and an import cannot be
    stopped. Python waits for it at its end; Qt would abort.

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
        widget.installEventFilter(self)

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:  # noqa: N802
        """Begin when the widget is shown; events go on as they are."""
        shown = event is not None and event.type() == QEvent.Type.Show
        if shown and not is_warm() and _only_one.acquire(blocking=False):
            threading.Thread(target=self._run, name="imports of MaskInversion").start()
        return False

    def _run(self) -> None:
        try:
            warm_up()
        finally:
            _only_one.release()
        with suppress(RuntimeError):  # the panel may be gone
            self.done.emit()
