"""Work on all images of a project: suggest, accept, take back, export."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from qtpy.QtCore import QObject

from ...app.project.images_work import About, Suggested, export_work, suggest_work
from ...app.review.decision_requests import DecisionOutcome, TakeBackRequest, WordRequest
from ...app.session import Action, Session, job_kinds
from ...app.work.driver import wait_until
from ...app.work.model_store import ModelStore
from ...batch.opened import OpenProject
from ...batch.project_decisions import ProjectRegions
from ...batch.project_index import place_in
from ...results.export.catalogue import FORMATS, MANY
from ..widgets.dialogs import ask_folder, ask_where, may_replace
from ..workers.notify import inform, refuse, refusing


class AcrossImages(QObject):
    """One work on all images at a time."""

    def __init__(self, images: Any, session: Session, store: ModelStore) -> None:
        super().__init__(images)
        self._images, self._session, self._store = images, session, store
        self._last: DecisionOutcome | None = None  # what *Undo* takes back
        self.job = session.jobs.of(job_kinds.WORK_ON_IMAGES)
        part = images.part
        part.suggest.clicked.connect(lambda _=False: self.suggest())
        part.together.accept.clicked.connect(lambda _=False: self._accept(*part.together.chosen))
        part.undo.clicked.connect(lambda _=False: self._take_back())
        part.exporting.connect(self._ask_export)

    def stop(self) -> None:
        """Stop the work, whose finished images are kept."""
        if self.job.busy:
            self.job.drop()
            self._session.status.many = None

    def forget(self) -> None:
        """Stop the work, and forget what was accepted last: another project is open."""
        self.stop()
        self._keep_last(None)

    def cancel(self) -> None:
        """Stop at the next step."""
        self.job.cancel()

    # -- suggest and export -------------------------------------------------------------------

    def suggest(self) -> None:
        """Compute all images that have no suggestions yet."""
        project = self._project
        if self._session.run.vocabulary is None and project.project.labels is None:
            refuse("Choose words first; they are used for all images.", Action.CHOOSE_WORDS)
            return
        self._images.keeper.use_words()
        self._images.ahead.forget()  # it would compute one of them, too
        work = partial(suggest_work, device=self._session.run.settings.device, store=self._store)
        self._begin(work, self._suggested)

    def _suggested(self, suggested: Suggested) -> None:
        (refuse if suggested.left_out or suggested.disk_full else inform)(suggested.text)
        self._images.recount()

    def _ask_export(self, name: str) -> None:
        """Ask where, and write one export of all images there, in place of one of its name."""
        with refusing():
            FORMATS[name].check()  # its packages may be missing
            self._ask_where_to_export(name)

    def _ask_where_to_export(self, name: str) -> None:
        project, part = self._project, self._images.part
        title, usual = "Export all images", project.folder / MANY[name].file
        if MANY[name].is_folder:
            folder = ask_folder(part, f"{title}: folder for {usual.name}")
            file = None if folder is None else folder / usual.name
        else:
            file = ask_where(part, title, str(usual), f"*{usual.suffix}", usual.suffix)
        if file is not None and may_replace(part, [file]):
            accepted = bool(part.accepted_only.isChecked())
            names = {name: file.name}
            work = partial(export_work, out=file.parent, formats=[name], names=names)
            self._begin(partial(work, accepted_only=accepted, overwrite=True), inform)

    # -- decide and take back -----------------------------------------------------------------

    def _accept(self, word: str, confidence: float) -> None:
        """Accept a word in all images, where it is suggested with at least a confidence."""
        project = self._project
        request = WordRequest(
            word=word,
            confidence=confidence,
            images={name: place_in(project, name) for name in project.by_name},
            source=ProjectRegions(project.file, self._session.explore.library),
        )
        self._session.review.decide.emit(request)

    def _take_back(self) -> None:
        """Take back what was accepted last."""
        if self._last is not None:
            self._session.review.decide.emit(TakeBackRequest(self._last))

    def decided(self, outcome: DecisionOutcome) -> None:
        """Follow decisions about several images."""
        request = outcome.request
        if outcome.source is not None:
            self._images.recount()
        if isinstance(request, WordRequest):
            if not outcome.project_closed:
                self._keep_last(outcome)
                self._images.part.go_on()
        elif isinstance(request, TakeBackRequest) and request.outcome is self._last:
            self._keep_last(request.outcome.rest(outcome))

    def _keep_last(self, accepted: DecisionOutcome | None) -> None:
        self._last = accepted
        self._images.part.undo.setEnabled(accepted is not None and accepted.count > 0)

    # -- how it goes --------------------------------------------------------------------------

    def _begin(self, work: Callable[..., Any], then: Callable[[Any], None]) -> None:
        """Begin to work on the project as it is once all of it is on the disk."""
        self._images.keeper.flush()
        settled = partial(_settled, self._images, self._project.file, work)
        done = partial(self._done, then)
        free = self._session.status.many is None
        if free and self.job.start(settled, done, news=self._take_news):
            self._session.status.notice = None
        else:
            refuse("Wait until the work on all images is over, or cancel it.")

    @property
    def _project(self) -> OpenProject:
        """The project that is open; without one, the buttons are hidden."""
        project: OpenProject = self._images.project
        return project

    def show_job(self) -> None:
        """Show how far the work is."""
        if self.job.job is not None:
            self._session.status.many = self.job.job

    def show_end(self) -> None:
        """Show that nothing is at work."""
        self._session.status.many = None

    def _take_news(self, about: About) -> None:
        self._images.computed(about.name)

    def _done(self, then: Callable[[Any], None], answer: Any) -> None:
        self.show_end()
        then(answer)


def _settled(images: Any, file: Path, work: Callable[..., Any]) -> Any:
    """Wait until the project, and what is being computed, is on the disk; then work on that."""
    wait_until(lambda: images.keeper.is_idle and images.ahead.job.idle)
    project = images.project
    if project is None or project.file != file:  # another one was opened meanwhile
        project = OpenProject.read(file)
    return work(project)
