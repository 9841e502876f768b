"""Downloads of models."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from qtpy.QtCore import QObject

from ...engine.models.registry import model_state, unread_spec
from ..session import Download, Session
from ..workers.driver import show_bytes, stop_requested
from ..workers.notify import inform, refuse
from ..workers.worker import Worker
from .model_widget import ModelWidget


class ModelDownload(QObject):
    """Downloads one model at a time, and chooses it.

    Parameters
    ----------
    session : Session
        Says how far the download is.
    part : ModelWidget
        Lists the models, and has buttons for downloads.
    """

    def __init__(self, session: Session, part: ModelWidget, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session, self._part = session, part
        self.worker = Worker("single", "The download", parent=self)
        self.worker.progressed.connect(self._progressed)
        self.worker.done.connect(self._done)
        self.worker.failed.connect(self._refuse)
        self.worker.ended.connect(self._ended)
        self._problem = ""
        part.fetching.button.clicked.connect(lambda _=False: self.choose(part.spec.name))
        part.fetching.cancel.clicked.connect(self.cancel)

    def choose(self, name: str) -> None:
        """Choose a model; one that is not on this machine is downloaded before."""
        if model_state(unread_spec(name)) != "to fetch":
            self._part.choose(name)
        elif self.worker.start(partial(_fetch, name)):
            self._show(Download(name))

    def cancel(self) -> None:
        """Stop the download; the next one resumes there."""
        if self._session.download is not None:
            self._session.download = replace(self._session.download, stopping=True)
            self.worker.cancel()

    def stop(self) -> None:
        """Stop the download: the panel is being closed."""
        self.worker.drop()
        self._show(None)

    def _progressed(self, progress: tuple[int, int]) -> None:
        if self._session.download is not None:
            done, total = progress
            self._show(replace(self._session.download, done=done, total=total))

    def _show(self, download: Download | None) -> None:
        if download is not None:
            self._part.show_fetch((download.done, download.total))
        elif self._session.download is not None:
            self._part.fill()
        self._session.download = download

    def _refuse(self, reason: str) -> None:
        self._problem = reason  # the dialog may hide the status line
        refuse(reason)

    def _ended(self) -> None:
        self._show(None)
        self._part.problem.say(self._problem)
        self._problem = ""

    def _done(self, name: str) -> None:
        self._show(None)
        self._part.choose(name)
        inform(f"{name} is now on this machine, and chosen.")


def _fetch(name: str) -> Any:
    from ...engine.models.weights_download import fetch

    fetch(name, on_progress=show_bytes, cancelled=stop_requested)
    return name
