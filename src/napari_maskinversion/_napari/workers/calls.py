"""Short pieces of work beside the main thread: files, mostly."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from napari.qt.threading import thread_worker
from qtpy.QtCore import QObject, Signal

from ...base.errors import MaskInversionError
from .notify import report_errors
from .worker_errors import Failed, JobError, explain


class _Call(QObject):
    """One call. Its methods run on the main thread, whichever Qt is in use."""

    def __init__(self, calls: Calls, function: Callable[[], Any]) -> None:
        super().__init__(calls)
        self._calls = calls
        # In a list that is emptied: napari keeps every worker as long as its window lives.
        self.worker = thread_worker(_guarded, ignore_errors=True)([function])
        self.worker.returned.connect(self.on_return)
        report_errors(self.worker)
        self.worker.finished.connect(self.on_finish)

    def on_return(self, outcome: Any) -> None:
        self._calls.pass_on(self, outcome)

    def on_finish(self) -> None:
        self._calls.forget(self)
        self.deleteLater()


class Calls(QObject):
    """Calls functions in a worker; of several, only the latest one's outcome is told.

    Signals
    -------
    done : object
        What the function returned.
    failed : str
        A reason the user can do something about.
    """

    done = Signal(object)
    failed = Signal(str)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._call: _Call | None = None

    @property
    def busy(self) -> bool:
        """Whether an outcome is still to come."""
        return self._call is not None

    def start(self, function: Callable[[], Any]) -> None:
        """Call a function; an earlier one's outcome is dropped."""
        self._call = _Call(self, function)
        self._call.worker.start()

    def abandon(self) -> None:
        """Drop what is still to come."""
        self._call = None

    def pass_on(self, call: _Call, outcome: Any) -> None:
        """Tell the outcome of the latest call."""
        if call is not self._call:
            return
        self._call = None
        if isinstance(outcome, Failed):
            self.failed.emit(outcome.message)
        else:
            self.done.emit(outcome)

    def forget(self, call: _Call) -> None:
        """Note that a call is over."""
        if self._call is call:
            self._call = None


class CallQueue(Calls):
    """Calls functions in a worker one after the other; the outcome of each is told."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._waiting: deque[Callable[[], Any]] = deque()

    @property
    def busy(self) -> bool:
        """Whether an outcome is still to come."""
        return super().busy or bool(self._waiting)

    def start(self, function: Callable[[], Any]) -> None:
        """Call a function after those that were given before."""
        if self.busy:
            self._waiting.append(function)
        else:
            super().start(function)

    def abandon(self) -> None:
        """Tell nothing more; what waits is done all the same."""
        waiting = tuple(self._waiting)
        self._waiting.clear()
        super().abandon()
        if waiting:
            _Call(self, partial(_call_all, waiting)).worker.start()

    def forget(self, call: _Call) -> None:
        """Note that a call is over, and start the next."""
        super().forget(call)
        if self._call is None and self._waiting:
            super().start(self._waiting.popleft())


def _call_all(functions: tuple[Callable[[], Any], ...]) -> None:
    for function in functions:
        with suppress(Exception):  # nobody is left to be told
            function()


def _guarded(functions: list[Callable[[], Any]]) -> Any:
    try:
        return functions.pop()()
    except MaskInversionError as error:
        return Failed(str(error))
    except Exception as error:
        message = explain(error)
        if message:
            return Failed(message)
        raise JobError(f"{type(error).__name__}: {error}") from error
