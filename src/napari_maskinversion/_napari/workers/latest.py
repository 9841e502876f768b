"""The newest of several questions, answered beside the GUI thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from napari.qt.threading import thread_worker
from qtpy.QtCore import QObject, Signal

from .notify import report_errors


class Latest(QObject):
    """Runs one function, one call at a time; asked again meanwhile, the last question counts.

    Parameters
    ----------
    function : callable
        Takes what is asked with; raises no RuntimeError, which a worker swallows.
    parent : QObject

    Signals
    -------
    done : object
        What the function returned.
    ended
        Nothing is under way any more.
    """

    done = Signal(object)
    ended = Signal()

    def __init__(self, function: Callable[[Any], Any], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._function = function
        self._worker: Any = None
        self._waiting: list[Any] = []
        self._number = 0

    @property
    def busy(self) -> bool:
        """Whether something is under way."""
        return self._worker is not None

    def ask(self, given: Any) -> None:
        """Ask for something; the answer to an older question is dropped."""
        self._number += 1
        self._waiting = [given]
        self._begin()

    def drop(self) -> None:
        """Want no answer any more."""
        self._number += 1
        self._waiting = []

    def unwanted(self, answer: Any) -> None:
        """Take an answer that nobody waits for."""

    def _begin(self) -> None:
        if self._worker is not None or not self._waiting:
            return
        # In a list that is emptied: napari keeps every worker as long as its window lives.
        box = [(self._number, self._function, self._waiting.pop())]
        # Bound methods of a QObject: called on the main thread, whichever Qt is in use.
        self._worker = thread_worker(_answer, ignore_errors=True)(box)
        self._worker.returned.connect(self._returned)
        report_errors(self._worker)
        self._worker.finished.connect(self._finished)
        self._worker.start()

    def _returned(self, numbered: tuple[int, Any]) -> None:
        number, answer = numbered
        if number == self._number:
            self.done.emit(answer)
        else:
            self.unwanted(answer)

    def _finished(self) -> None:
        self._worker = None
        if self._waiting:
            self._begin()
        else:
            self.ended.emit()


def _answer(box: list[tuple[int, Callable[[Any], Any], Any]]) -> tuple[int, Any]:
    number, function, given = box.pop()
    return number, function(given)
