"""Imports what a run needs while the user looks at the panel."""

from __future__ import annotations

import threading
from contextlib import suppress

from qtpy.QtCore import QEvent, QObject, Signal
from qtpy.QtWidgets import QWidget

from ...app.work.preload import is_warm, warm_up, without_collections

_only_one = threading.Lock()


class Warming(QObject):
    """Starts a thread when a widget is first shown, unless everything is loaded.

    It is a Python thread: napari may be closed meanwhile, and an import cannot be stopped. Python
    waits for the thread when it exits; Qt would abort.
    """

    done = Signal()  # PyTorch is loaded; comes once for each widget

    def __init__(self, widget: QWidget) -> None:
        super().__init__(widget)
        self._begun = False
        widget.installEventFilter(self)

    def eventFilter(self, watched: QObject | None, event: QEvent | None) -> bool:  # noqa: N802
        """Start when the widget is shown; no event is filtered out."""
        shown = event is not None and event.type() == QEvent.Type.Show
        if shown and not self._begun:
            self._begun = True
            if is_warm():
                self.done.emit()
            else:
                threading.Thread(target=self._run, name="imports of MaskInversion").start()
        return False

    def _run(self) -> None:
        # The panel of a second window waits until that of the first has loaded everything.
        with _only_one, without_collections():
            warm_up()
        with suppress(RuntimeError):  # the panel may be deleted
            self.done.emit()
