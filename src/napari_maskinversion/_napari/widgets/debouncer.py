"""Wait until changes come to rest."""

from __future__ import annotations

from collections.abc import Callable

from qtpy.QtCore import QObject
from superqt.utils import QSignalDebouncer


class Debouncer(QSignalDebouncer):
    """Call a function once, some time after the last call of `later`.

    Parameters
    ----------
    milliseconds : int
        Time without a call of `later`.
    function : callable
    parent : QObject

    Attributes
    ----------
    pending : bool
        Whether a call is due.
    """

    def __init__(self, milliseconds: int, function: Callable[[], object], parent: QObject) -> None:
        super().__init__(parent=parent)
        self.pending = False
        self._function = function
        self.setTimeout(milliseconds)
        self.triggered.connect(self._call)

    def later(self, *_: object) -> None:
        """Call the function when nothing has changed for a while; takes any signal's arguments."""
        self.pending = True
        self.throttle()

    def cancel(self) -> None:
        """Drop the call that is due."""
        self.pending = False
        super().cancel()

    def _call(self) -> None:
        self.pending = False
        self._function()
