"""Downloads of weights."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from qtpy.QtCore import QObject, Signal

from ...app.session import Session, Topic, job_kinds
from ...app.work.driver import Job, check_stopped, show
from ...base import progress_words as words
from ...base.progress import BYTES, Tick, listening
from ..widgets.progress_row import FetchRow
from ..workers.notify import inform, refuse


class NamedSpec(Protocol):
    """What is known of weights before they are there."""

    @property
    def name(self) -> str:
        """Their name, which is unique."""


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
    """Downloads what a page names: one at a time in a session.

    A subclass says how, by `fetch`.
    """

    fetched = Signal(str)

    def __init__(self, session: Session, part: FetchPage, parent: QObject) -> None:
        super().__init__(parent)
        self._session, self._part = session, part
        self.job = session.jobs.of(job_kinds.DOWNLOAD)
        self._name = ""  # Of what this page downloads
        self._problem = ""
        part.fetching.button.clicked.connect(lambda _=False: self._start_chosen())
        part.fetching.cancel.clicked.connect(lambda _=False: self.job.cancel())

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
        if self.job.job is not None:
            refuse(f"Wait until {self.job.job.name} is here, or cancel its download.")
            return
        self._name = name
        work = partial(_fetched, self.fetch, name)
        self.job.start(work, self._done, failed=self._refuse, first=download_job(name))

    def bind(self) -> None:
        """Follow the download."""
        self.after(self._show_job, self.job.changed)
        self.after(self._ended, self.job.ended)

    def _show_job(self) -> None:
        download = self.job.job
        if download is not None and download.name == self._name:
            self._part.show_fetch((download.done, download.total))

    def _done(self, name: str) -> None:
        self._part.fill()
        inform(f"{name} is now on this machine.")
        self.fetched.emit(name)

    def _refuse(self, reason: str) -> None:
        self._problem = reason  # the dialog may hide the status line
        refuse(reason)

    def _ended(self) -> None:
        if self._name:  # else another page downloads
            self._name = ""
            self._part.fill()
            self._part.fetching.problem.say(self._problem)
            self._problem = ""


def download_job(name: str, done: int = 0, total: int = 0) -> Job:
    """Return how far a download is, in bytes; 0 while they are not known."""
    fraction = done / total if total else 0.0
    return Job(words.fetched(name, done, total), fraction, done=done, total=total, name=name)


def _fetched(fetch: Callable[[str], None], name: str) -> str:
    def follow(news: object) -> None:
        if isinstance(news, Tick) and news.stage == BYTES:
            show(partial(download_job, name, news.done, news.total))
        else:
            check_stopped()

    with listening(follow):
        fetch(name)
    return name
