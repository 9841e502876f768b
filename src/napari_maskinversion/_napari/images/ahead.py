"""Prepares the image of a project that will probably follow."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from qtpy.QtCore import QObject, Signal

from ...app.project.images_work import load_model, open_work
from ...app.session import Session, job_kinds
from ...app.work.driver import Work
from ...app.work.model_store import ModelStore
from ...batch.opened import OpenProject
from .keeper import Keeper

if TYPE_CHECKING:
    from ...app.project.project_opening import OpenedImage


class Ahead(QObject):
    """Computes and reads one image at a time; it may be shown by the time it is ready."""

    ready = Signal(object)  # An `OpenedImage`, for later
    late = Signal(object)  # One that is shown already, with its results

    def __init__(
        self, keeper: Keeper, session: Session, store: ModelStore, parent: QObject
    ) -> None:
        super().__init__(parent)
        self._keeper, self._session, self._store = keeper, session, store
        self._kept: OpenedImage | None = None
        self.name = ""  # Of the image that is being prepared
        self.job = session.jobs.of(job_kinds.PREPARE_IMAGE)

    def prepare(self) -> None:
        """Begin with the image that will probably follow the one shown."""
        state, disk = self._session.project.state, self._keeper.disk
        if state is None or disk is None:
            return
        following = state.next_open or state.beside(1)
        if self._kept is not None and self._kept.name != following:
            self._kept = None
        if not following or self._kept is not None or following == state.current:
            return
        if self.job.busy and self.name in (following, state.current):
            return  # the one that is shown comes first, and calls this again
        device = self._session.run.settings.device
        model = partial(load_model, disk.project, device, self._store)
        # Work on all images computes them itself.
        compute = model if self._session.status.many is None else None
        self._start(following, partial(open_work, disk.project, following, compute))

    def read_again(self, project: OpenProject, name: str) -> None:
        """Read an image that is shown, and was computed just now."""
        self._start(name, partial(open_work, project, name))

    def _start(self, name: str, work: Work) -> None:
        self.name = name
        about = [lambda _: self.name]
        self.job.start(work, self._prepared, failed=self._not_prepared, about=about)

    def take(self, name: str) -> OpenedImage | None:
        """Return an image if it is prepared; it is not kept any more."""
        kept = self._kept
        if kept is None or kept.name != name:
            return None
        self._kept = None
        return kept

    def forget(self, name: str = "") -> None:
        """Forget what was prepared of an image, or of whatever image."""
        if self._kept is not None and name in ("", self._kept.name):
            self._kept = None
        if name in ("", self.name):
            self.job.drop()
            self.name = ""

    def _prepared(self, opened: OpenedImage) -> None:
        state = self._session.project.state
        if state is None:
            return
        if opened.name == state.current:
            self.late.emit(opened)
            self.prepare()
        else:
            self._kept = opened
            self.ready.emit(opened)

    def _not_prepared(self, _: str) -> None:
        """Say nothing: it is told when the user goes there."""
        state = self._session.project.state
        if state is not None and self.name == state.current:
            self.prepare()
