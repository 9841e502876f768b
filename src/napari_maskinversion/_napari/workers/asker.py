"""Answers questions in a worker, one at a time; the newest question counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator
from contextlib import suppress
from typing import Any

from napari.qt.threading import thread_worker
from qtpy.QtCore import QObject, Signal

from ...base import progress_words as words
from ...base.lazy_torch import torch_if_loaded
from .notify import report, report_errors
from .preload import preload_torch
from .updates import INTERVAL
from .worker_errors import Failed, guarded

Question = Callable[[], Generator[str, None, Any]]


class _Asked:
    """One question in its worker. Holds whatever is large, and lets go of it when it ends."""

    def __init__(self, question: Question, name: str) -> None:
        self._question: list[Question] = [question]
        self._name = name
        self._running: Generator[str, None, Any] | None = None
        self.stop_requested: Callable[[], bool] = lambda: False

    def work(self) -> Generator[str, None, Any]:
        """Run; yields what is being done, at most ten times a second, and gives the answer."""
        # A generator of its own: napari asks the function what it is.
        return (yield from guarded(self._work(), self.close, name=self._name))

    def _work(self) -> Generator[str, None, Any]:
        if torch_if_loaded() is None:
            yield words.STARTING_TORCH
            preload_torch()
        self._running = self._question.pop()()
        last = 0.0
        while True:
            try:
                text = next(self._running)
            except StopIteration as stop:
                return stop.value
            if time.monotonic() - last >= INTERVAL or self.stop_requested():
                last = time.monotonic()
                yield text

    def close(self) -> None:
        """Free what the question holds; the worker must be idle."""
        running, self._running = self._running, None
        self._question.clear()
        if running is not None:
            with suppress(ValueError):  # being executed by the worker: it closes it itself
                running.close()


class Asker(QObject):
    """Runs the newest question; an older one is stopped at its next step and not listened to.

    Parameters
    ----------
    name : str
        For the message about an error that nobody foresaw.

    Signals
    -------
    said : str
        What is being done.
    answered : object
    failed : str
        A reason the user can do something about.
    ended
        Nothing is asked any more.
    """

    said = Signal(str)
    answered = Signal(object)
    failed = Signal(str)
    ended = Signal()

    def __init__(self, name: str, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._name = name
        self._worker: Any = None
        self._asked: _Asked | None = None
        self._next: Question | None = None
        self._wanted = False

    @property
    def busy(self) -> bool:
        """Whether somebody waits for an answer."""
        return self._wanted

    def ask(self, question: Question) -> None:
        """Ask; as soon as the worker has let go of an older question."""
        self._wanted, self._next = True, question
        if self._worker is None:
            self._begin()
        else:
            self._worker.quit()

    def cancel(self) -> None:
        """Stop, and drop whatever would still be said."""
        wanted, self._wanted, self._next = self._wanted, False, None
        if self._worker is not None:
            self._worker.quit()
        if wanted:
            self.ended.emit()

    def _begin(self) -> None:
        question, self._next = self._next, None
        assert question is not None
        asked = self._asked = _Asked(question, self._name)
        worker = self._worker = thread_worker(asked.work, ignore_errors=True)()
        asked.stop_requested = lambda: bool(worker.abort_requested)
        worker.yielded.connect(self._on_yield)
        worker.returned.connect(self._on_return)
        report_errors(worker, self._on_error)
        worker.finished.connect(self._on_finish)
        worker.start()

    @property
    def _current(self) -> bool:
        return self._wanted and self._next is None

    def _on_yield(self, text: str) -> None:
        if self._current:
            self.said.emit(text)

    def _on_return(self, outcome: Any) -> None:
        if not self._current or outcome is None:
            return
        self._wanted = False
        if isinstance(outcome, Failed):
            self.failed.emit(outcome.message)
        else:
            self.answered.emit(outcome)

    def _on_error(self, error: BaseException) -> None:
        if self._current:
            self._wanted = False
            report(error)

    def _on_finish(self) -> None:
        if self._asked is not None:
            self._asked.stop_requested = lambda: False
            self._asked.close()
        self._worker = self._asked = None
        if self._next is not None:
            self._begin()
        else:
            self._wanted = False
            self.ended.emit()
