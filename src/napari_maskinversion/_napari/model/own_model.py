"""Reads a model of the user's own, or downloads one, before it is chosen."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from qtpy.QtCore import QObject

from ...app.session import Session, Topic, job_kinds
from ...app.work.model_store import ModelStore
from ...app.work.preload import start_torch
from ...base import progress_words as words
from ...base.progress import tell
from ...engine.models.registry import model_state, unread_spec
from ...engine.models.specs import ModelSpec
from ..run_requests.fetching import Fetching
from ..workers.notify import inform
from .model_widget import ModelWidget


class OwnModel(Topic, QObject):
    """Chooses a model of the user's own once it has been read in a worker."""

    def __init__(
        self, session: Session, part: ModelWidget, store: ModelStore, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._session, self._part, self._store = session, part, store
        self.job = session.jobs.of(job_kinds.READ_MODEL)
        self._listing = session.jobs.of(job_kinds.LIST_ARCHITECTURES)
        part.own.chosen.connect(self._ask)

    def bind(self) -> None:
        """Follow the session."""
        run = self._session.run.events
        self.after(self._tell_store, run.settings)
        self.after(self._show_job, self.job.changed)
        self._tell_store()

    def list_architectures(self) -> None:
        """List them once open_clip is loaded, which this does not wait for."""
        self._listing.start(_architectures, self._part.own.offer)

    def _tell_store(self, _: object = None) -> None:
        settings = self._session.run.settings
        self._store.use_architecture(settings.model, settings.architecture)

    def _ask(self, name: str, architecture: str | None) -> None:
        device = self._session.run.settings.device
        work = partial(_read, name, architecture, device, self._store)
        self.job.start(work, self._read, failed=self._part.own.problem.say)

    def _show_job(self) -> None:
        if self.job.job is not None and self.job.job.text:
            self._part.own.problem.say(f"{self.job.job.text} ...")

    def _read(self, answer: tuple[ModelSpec, str | None]) -> None:
        self._part.own.problem.say("")
        self._part.use_own(*answer)


def _architectures() -> tuple[str, ...]:
    from ...engine.models.openclip import architectures

    return architectures()


def _read(
    name: str, architecture: str | None, device: str, store: ModelStore
) -> tuple[ModelSpec, str | None]:
    """Return the spec of a model and its architecture.

    A file or folder is loaded, since only that shows its faults.
    """
    start_torch()
    from ...engine.models.loading import spec_of
    from ...engine.models.registry import own_model

    spec = spec_of(name, architecture)
    path = own_model(name)
    if path is None:
        return spec, None
    name = str(path.absolute())
    tell(words.loading_model(path.name))
    # First the architecture, which no checkpoint file names; then loading shows what is wrong.
    store.use_architecture(name, architecture)
    store.get(name, device)
    return replace(spec, name=name, title=name), architecture


class ModelDownload(Fetching):
    """Downloads one model at a time, and chooses it."""

    def __init__(self, session: Session, part: ModelWidget, parent: QObject) -> None:
        super().__init__(session, part, parent)
        self._models = part
        self.fetched.connect(self._choose)

    @staticmethod
    def fetch(name: str) -> None:
        """Download a model's weights."""
        from ...engine.models.registry import fetch

        fetch(name)

    def choose(self, name: str) -> None:
        """Choose a model; one that is not on this machine is downloaded before."""
        if model_state(unread_spec(name)) == "to fetch":
            self.start(name)
        else:
            self._models.choose(name)

    def _choose(self, name: str) -> None:
        self._models.choose(name)
        inform(f"{name} is now on this machine, and chosen.")
