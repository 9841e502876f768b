"""Downloads of weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Protocol

from qtpy.QtCore import QObject, Signal

from ...app.session import Session, Topic
from ...app.work.driver import Job, show
from ...base import progress_words as words
from ...base.progress import BYTES, Tick, listening
from ..widgets.progress_row import FetchRow
from ..workers.notify import inform, refuse
from ..workers.worker import Worker


class NamedSpec(Protocol):
    """What is known of weights before they are there."""

    name: str


class FetchPage(Protocol):
    """A page that names weights, and has a row that downloads them."""

    fetching: FetchRow

    @property
    def spec(self) -> NamedSpec | None:
        """The chosen weights; None where they need no download."""

    def fill(self) -> None:
        """List again what is there."""

    def show_fetch(self, progress: tuple[int, int] | None) -> None:
        """Show the progress of a download as (bytes, total); None hides it."""


class Fetching(Topic, QObject):
    """Downloads what a page names, as the session's download: one at a time in a panel.

    A subclass says how, by `fetch`.
    """

    fetched = Signal(str)

    def __init__(self, session: Session, part: FetchPage, parent: QObject) -> None:
        super().__init__(parent)
        self._session, self._part = session, part
        self.worker = Worker("single", "The download", self._done, self._refuse, parent=self)
        self.worker.progressed.connect(self._progressed)
        self.worker.ended.connect(self._ended)
        self._problem = ""
        part.fetching.button.clicked.connect(lambda _=False: self._start_chosen())
        part.fetching.cancel.clicked.connect(lambda _=False: session.stop_download())

    @staticmethod
    def fetch(name: str) -> None:
        """Download what has a name, in the worker."""
        raise NotImplementedError

    def _start_chosen(self) -> None:
        spec = self._part.spec
        if spec is not None:
            self.start(spec.name)

    def start(self, name: str) -> None:
        """Download what has a name, unless another download is at work."""
        if self._session.status.download is not None:
            name = self._session.status.download.name
            refuse(f"Wait until {name} is here, or cancel its download.")
            return
        self.worker.start(partial(_fetched, self.fetch, name))
        self._show(download_job(name))

    def bind(self) -> None:
        """Follow the session."""
        status = self._session.status.events
        self.after(self._changed, status.download)

    def stop(self) -> None:
        """Stop the download: the panel is being closed."""
        super().stop()
        if self.worker.busy:
            self.worker.drop()
            self._show(None)

    def _changed(self, download: Job | None) -> None:
        if download is not None and download.stopping:
            self.worker.cancel()

    def _progressed(self, news: Tick) -> None:
        if self._session.status.download is not None and news.stage == BYTES:
            before = self._session.status.download
            job = download_job(before.name, news.done, news.total)
            self._show(replace(job, stopping=before.stopping))

    def _show(self, download: Job | None) -> None:
        if download is not None:
            self._part.show_fetch((download.done, download.total))
        elif self._session.status.download is not None:
            self._part.fill()
        self._session.status.download = download

    def _done(self, name: str) -> None:
        self._show(None)
        inform(f"{name} is now on this machine.")
        self.fetched.emit(name)

    def _refuse(self, reason: str) -> None:
        self._problem = reason  # the dialog may hide the status line
        refuse(reason)

    def _ended(self) -> None:
        self._show(None)
        self._part.fetching.problem.say(self._problem)
        self._problem = ""


def download_job(name: str, done: int = 0, total: int = 0) -> Job:
    """Return how far a download is, in bytes; 0 while they are not known."""
    fraction = done / total if total else 0.0
    return Job(words.fetched(name, done, total), fraction, done=done, total=total, name=name)


def _fetched(fetch: Callable[[str], None], name: str) -> str:
    with listening(lambda news: show(lambda: news)):
        fetch(name)
    return name
