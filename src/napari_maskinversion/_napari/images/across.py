"""Work on all images of a project: suggest, accept, take back, export."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from qtpy.QtCore import QObject

from ...app.project.images_work import About, Suggested, decide_work, export_work, suggest_work
from ...app.session import Action, Session, staleness
from ...app.work.driver import Job, show
from ...app.work.model_store import ModelStore
from ...base.wording import counted
from ...batch.opened import OpenProject
from ...batch.project_decisions import accept_steps, decide_steps, take_back_steps
from ...batch.project_index import place_in
from ...results.export.catalogue import FORMATS, MANY
from ...review.decisions import Step
from ...review.multi_image_decisions import DecisionOutcome, DecisionRequest, ImageStep
from ..widgets.dialogs import ask_folder, ask_where, may_replace
from ..workers.notify import inform, refuse, refusing
from ..workers.worker import Worker


class AcrossImages(QObject):
    """One work on all images at a time."""

    def __init__(self, images: Any, session: Session, store: ModelStore) -> None:
        super().__init__(images)
        self._images, self._session, self._store = images, session, store
        self._last: DecisionOutcome | None = None  # what *Undo* takes back
        self._then: Callable[[Any], None] = inform  # takes what the work has made
        self._waiting: Callable[[], None] | None = None  # for a review that is being opened
        self.worker = Worker("single", "The work on all images", self._done, refuse, parent=self)
        # What somebody has decided is saved, also when the window closes meanwhile.
        self.deciding = Worker("queue", "Deciding", self._done, refuse, parent=self)
        for worker in (self.worker, self.deciding):
            worker.progressed.connect(self._progressed)
            worker.ended.connect(self._ended)
        part = images.part
        part.suggest.clicked.connect(lambda _=False: self.suggest())
        part.together.accept.clicked.connect(
            lambda _=False: self._once_open(partial(self._accept, *part.together.chosen))
        )
        part.undo.clicked.connect(lambda _=False: self._once_open(self._take_back))
        part.exporting.connect(self._ask_export)

    def decide(self, request: DecisionRequest) -> None:
        """Decide about regions of images of the project."""
        if "" not in request.regions and self._images.project is not None:
            self._once_open(partial(self._decide, request))

    def take_back(self, decided: DecisionOutcome) -> None:
        """Take back what `decide` did."""
        if "" not in decided.steps:
            self._once_open(partial(self._take_back, decided))

    def stop(self) -> None:
        """Stop the work, whose finished images are kept; decisions go on without the panel."""
        self.worker.cancel()
        self.worker.drop()
        self.deciding.drop()
        self._waiting = None
        self._session.status.many = None

    def forget(self) -> None:
        """Stop the work, and forget what was accepted last: another project is open."""
        self.stop()
        self._keep_last(None)

    def cancel(self) -> None:
        """Stop at the next step."""
        self.worker.cancel()
        self.deciding.cancel()
        if self._waiting is not None:
            self.stop()
        elif self._session.status.many is not None:
            self._session.status.many = replace(self._session.status.many, stopping=True)

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
        session = self._session
        here = self._open_here()
        stale = staleness(session).text if here else ""
        own: Step = ()
        if here and not stale:
            own = self._here(lambda: session.review.accept_word.emit(word, confidence))
        names = [name for name in self._project.by_name if name != here]
        pending = _Pending(here, own, word=word)
        if stale:
            pending.problems[here] = f"the suggestions are old ({stale})"
        steps = partial(accept_steps, names=names, word=word, confidence=confidence)
        self._decide_others(steps, len(names), partial(self._accepted, pending))

    def _accepted(self, pending: _Pending, others: DecisionOutcome) -> None:
        accepted = pending.outcome(others)
        self._keep_last(accepted)
        self._images.part.go_on()
        self._changed(accepted, pending.here)
        text = (
            f"Accepted as {accepted.word}: {counted(accepted.count, 'region')} of "
            f"{counted(len(accepted.steps), 'image')}. Undo on this tab takes all of them back."
            if accepted.count
            else f"Nothing is suggested as {accepted.word} so surely."
        )
        inform(text + _left_out(accepted))

    def _decide(self, request: DecisionRequest) -> None:
        """Decide about regions of several images, for another part of the panel."""
        here = self._open_here()
        pending = _Pending(here, request=request)
        if here in request.regions:
            session, seen = self._session, {"": request.seen.get(here, {})}
            shown = replace(request, regions={"": request.regions[here]}, seen=seen)
            session.say("")
            pending.step = self._here(lambda: session.review.decide.emit(shown))
            review = session.reviewed
            if pending.step and review is not None and review.left_out:
                pending.note = f" {here}: {review.left_out}"
            notice = session.status.notice
            if not pending.step and notice is not None and notice.severity == "error":
                pending.problems[here] = notice.text
        others = {name: keys for name, keys in request.regions.items() if name != here}
        steps = partial(decide_steps, request=replace(request, regions=others))
        self._decide_others(steps, len(others), partial(self._decided, pending))

    def _decided(self, pending: _Pending, others: DecisionOutcome) -> None:
        whole = pending.outcome(others)
        self._changed(whole, pending.here, pending.request)
        done = f"{counted(whole.count, 'region')} of {counted(len(whole.steps), 'image')}"
        text = f"Decided: {done}." if whole.count else "Nothing is decided."
        (refuse if whole.problems else inform)(text + pending.note + _left_out(whole))

    def _changed(self, decided: DecisionOutcome, here: str, asked: object = None) -> None:
        """Let others know of decisions about several images."""
        self._images.recount()
        shown = self._images.shown
        if shown is not None and not here and shown.name in decided.steps:
            self._session.review.show_decisions.emit()  # made while the image had no review
        files = {name: place_in(self._project, name) for name in decided.steps}
        self._session.review.decided.emit(asked, decided, files)

    def _take_back(self, last: DecisionOutcome | None = None) -> None:
        """Take back what was accepted last, or what another part of the panel names."""
        asked, last, here = last, last or self._last, self._open_here()
        if last is None:
            return
        steps = dict(last.steps)
        own: Step = ()
        if mine := steps.pop(here, None):
            shown = DecisionOutcome(steps={"": mine})
            own = self._here(lambda: self._session.review.take_back.emit(shown), undone=True)
        others = replace(last, steps=steps)
        then = partial(self._taken_back, last, here, own, asked)
        self._decide_others(partial(take_back_steps, decided=others), len(steps), then)

    def _decide_others(
        self,
        steps: Callable[[OpenProject], Iterable[ImageStep]],
        total: int,
        then: Callable[[DecisionOutcome], None],
    ) -> None:
        """Decide about the images that are not under review here."""
        work = partial(decide_work, steps=steps, total=total, library=self._session.explore.library)
        self._begin(work, then, computed=False)

    def _taken_back(
        self, last: DecisionOutcome, here: str, own: Step, asked: object, taken: DecisionOutcome
    ) -> None:
        # The open review has told of its image by itself.
        ours = {here: ()} if here in last.steps else {}
        taken = replace(taken, steps={**ours, **taken.steps})
        self._changed(taken, self._open_here(), asked)
        if asked is None:
            self._keep_last(last.rest(taken))
        now = "Undecided again" if asked is None else "As before"
        text = f"{now}: {counted(taken.count + len(own), 'region')}."
        if taken.problems:
            one, why = next(iter(taken.problems.items()))
            text += f" {len(taken.problems):,} images could not be changed, such as {one}: {why}."
        elif taken.stopped:
            text += f" Undo{' on this tab' * (asked is None)} takes back the rest."
        (refuse if taken.problems else inform)(text)

    def _keep_last(self, accepted: DecisionOutcome | None) -> None:
        self._last = accepted
        self._images.part.undo.setEnabled(accepted is not None and accepted.count > 0)

    def _open_here(self) -> str:
        """Return the project's image whose review is open: this window locks its decisions."""
        own = self._images.keeper.own
        return own.name if own is not None and self._session.reviewed is not None else ""

    def _here(self, act: Callable[[], object], *, undone: bool = False) -> Step:
        """Let the open review decide, or undo, itself; return the step."""
        review = self._session.reviewed
        if review is None:
            return ()
        decisions = review.review.decisions
        before = decisions.last
        act()
        if decisions.last is before:
            return ()
        return before if undone else decisions.last

    # -- how it goes --------------------------------------------------------------------------

    def _once_open(self, act: Callable[[], None]) -> None:
        """Decide about regions once no review is being opened, unless that is cancelled."""
        session = self._session
        if self._busy or self._waiting is not None:
            return
        if (
            session.run.progress.running
            and session.review.state is not None
            and session.reviewed is None
        ):
            refuse("Wait until the run is over, or cancel it: its image is under review.")
        elif session.review.opening:
            self._waiting = act
            session.status.many = Job("Opening the review ...")
        else:
            act()

    def review_opening_changed(self, opening: bool) -> None:
        """Do what has waited for a review."""
        act = self._waiting
        if act is not None and not opening:
            self._waiting = self._session.status.many = None
            act()

    def _begin(
        self, work: Callable[..., Any], then: Callable[[Any], None], *, computed: bool = True
    ) -> None:
        """Begin to work on the project as it is once all of it is on the disk."""
        self._images.keeper.flush()
        settled = partial(_settled, self._images, self._project.file, work, computed)
        worker = self.worker if computed else self.deciding
        if self._waiting is None and not self._busy and worker.start(settled):
            self._then = then
            self._session.status.notice = None
            self._session.status.many = Job("Starting ...")
        else:
            refuse("Wait until the work on all images is over, or cancel it.")

    @property
    def _project(self) -> OpenProject:
        """The project that is open; without one, the buttons are hidden."""
        project: OpenProject = self._images.project
        return project

    @property
    def _busy(self) -> bool:
        return self.worker.busy or self.deciding.busy

    def _progressed(self, value: Any) -> None:
        if isinstance(value, Job):
            if self._session.status.many is not None:
                self._session.status.many = replace(
                    value, stopping=self._session.status.many.stopping
                )
        elif isinstance(value, About) and value.summary is None:
            self._images.computed(value.name)
        elif isinstance(value, About):
            self._images.decided(value.name, value.summary)

    def _done(self, made: Any) -> None:
        self._session.status.many = None
        self._then(made)

    def _ended(self) -> None:
        self._session.status.many = None


@dataclass(slots=True, eq=False)
class _Pending:
    """Decisions about several images while they are made: what the open review has done already."""

    here: str  # The image that is under review; "" for none
    step: Step = ()  # What the review decided
    problems: dict[str, str] = field(default_factory=dict)  # Why it did not, by the image
    note: str = ""  # Which of its regions it left out
    word: str = ""  # That is accepted in all images
    request: DecisionRequest | None = None  # What another part of the panel asked for

    def outcome(self, others: DecisionOutcome) -> DecisionOutcome:
        """Return the outcome for all images."""
        steps = dict(others.steps)
        if self.step:
            steps[self.here] = self.step
        problems = {**self.problems, **others.problems}
        return replace(others, steps=steps, problems=problems, word=self.word)


def _left_out(decided: DecisionOutcome) -> str:
    if not decided.problems:
        return ""
    one, why = next(iter(decided.problems.items()))
    return f" {len(decided.problems):,} left out, such as {one}: {why.rstrip('.')}."


def _settled(images: Any, file: Path, work: Callable[..., Any], computed: bool) -> Any:
    """Wait until the project, and what is being computed, is on the disk; then work on that."""
    while not (images.keeper.writing.idle and (images.ahead.worker.idle or not computed)):
        time.sleep(0.01)
        show(Job("Starting ..."))
    project = images.project
    if project is None or project.file != file:  # another one was opened meanwhile
        project = OpenProject.read(file)
    return work(project)
