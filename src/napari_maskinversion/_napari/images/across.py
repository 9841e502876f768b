"""Work on all images of a project: suggest, accept, take back, export."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from qtpy.QtCore import QObject
from qtpy.QtWidgets import QFileDialog

from ...base.identity import RegionKey
from ...batch.decided import Accepted
from ...batch.exporting import FILES
from ..session import ManyImages, Session
from ..widgets.dialogs import may_replace
from ..workers.driver import show
from ..workers.model_store import ModelStore
from ..workers.notify import inform, refuse
from ..workers.worker import Worker
from .images_work import (
    About,
    Suggested,
    accept_work,
    export_work,
    suggest_work,
    take_back_work,
)


class AcrossImages(QObject):
    """One work on all images at a time."""

    def __init__(self, images: Any, session: Session, store: ModelStore) -> None:
        super().__init__(images)
        self._images, self._session, self._store = images, session, store
        self._last: Accepted | None = None  # what *Undo* takes back
        self._then: Callable[[Any], None] = inform  # takes what the work has made
        self._waiting: Callable[[], None] | None = None  # for a review that is being opened
        self.worker = Worker("single", "The work on all images", parent=self)
        self.worker.progressed.connect(self._progressed)
        self.worker.done.connect(self._done)
        self.worker.failed.connect(refuse)
        self.worker.ended.connect(self._ended)
        part = images.part
        part.suggest.clicked.connect(lambda _=False: self.suggest())
        part.accept.clicked.connect(
            lambda _=False: self._once_open(partial(self._accept, *part.together))
        )
        part.undo.clicked.connect(lambda _=False: self._once_open(self._take_back))
        part.exporting.connect(self._ask_export)

    def stop(self) -> None:
        """Stop the work; what is finished is kept."""
        self.worker.cancel()
        self.worker.drop()
        self._waiting = None
        self._session.many = None

    def forget(self) -> None:
        """Stop the work, and forget what was accepted last: another project is open."""
        self.stop()
        self._keep_last(None)

    def cancel(self) -> None:
        """Stop at the next step."""
        self.worker.cancel()
        if self._waiting is not None:
            self.stop()
        elif self._session.many is not None:
            self._session.many = replace(self._session.many, stopping=True)

    # -- suggest and export -------------------------------------------------------------------

    def suggest(self) -> None:
        """Compute all images that have no suggestions yet."""
        project = self._images.project
        if project is None:
            return
        if self._session.vocabulary is None and project.project.labels is None:
            refuse("Choose words first; they are used for all images.", "words")
            return
        self._images.keeper.use_words()
        self._images.forget_ahead()  # it would compute one of them, too
        work = partial(suggest_work, device=self._session.settings.device, store=self._store)
        self._begin(work, self._suggested)

    def _suggested(self, suggested: Suggested) -> None:
        (refuse if suggested.problems or suggested.disk_full else inform)(suggested.text)
        self._images.recount()

    def _ask_export(self, name: str) -> None:
        """Ask where, and write one export of all images there, in place of one of its name."""
        project, part = self._images.project, self._images.part
        if project is None:
            return
        title, usual = "Export all images", project.folder / FILES[name]
        if name != "parquet":  # a folder of many files
            path, _ = QFileDialog.getSaveFileName(
                part,
                title,
                str(usual),
                f"*{usual.suffix}",
                options=QFileDialog.Option.DontConfirmOverwrite,
            )
        else:
            folder = QFileDialog.getExistingDirectory(part, f"{title}: folder for {usual.name}")
            path = str(Path(folder, usual.name)) if folder else ""
        if not path:
            return
        file = Path(path if path.endswith(usual.suffix) else path + usual.suffix)
        if may_replace(part, [file]):
            accepted = bool(part.accepted_only.isChecked())
            names = {name: file.name}
            work = partial(export_work, out=file.parent, formats=[name], names=names)
            self._begin(partial(work, accepted_only=accepted, overwrite=True), inform)

    # -- accept and take back -----------------------------------------------------------------

    def _accept(self, word: str, confidence: float) -> None:
        """Accept a word in all images, where it is suggested with at least a confidence."""
        project, session = self._images.project, self._session
        if project is None or not word:
            return
        here = self._open_here()
        stale = session.stale.text if here else ""
        before = self._decisions_here()
        if here and not stale:
            session.ask("accept word", (word, confidence))
        own = [key for key in self._decisions_here() if key not in before]
        names = [name for name in project.by_name if name != here]

        def accepted(others: Accepted) -> None:
            left_out = {here: f"the suggestions are old ({stale})"} if stale else {}
            regions = {**others.regions, **({here: own} if own else {})}
            problems = {**left_out, **others.problems}
            self._accepted(replace(others, regions=regions, problems=problems), here)

        work = partial(accept_work, names=names, word=word, confidence=confidence)
        work = partial(work, library=session.library)
        self._begin(work, accepted, computed=False)

    def _accepted(self, accepted: Accepted, here: str) -> None:
        self._keep_last(accepted)
        self._images.part.go_on()
        self._images.recount()
        shown = self._images.shown
        if shown is not None and not here and shown.name in accepted.regions:
            self._session.ask("show decisions")  # made while the image had no review
        text = (
            f"Accepted as {accepted.word}: {_several(accepted.count, 'region')} of "
            f"{_several(len(accepted.regions), 'image')}. Undo on this tab takes all of them back."
            if accepted.count
            else f"Nothing is suggested as {accepted.word} so surely."
        )
        if accepted.problems:
            one, why = next(iter(accepted.problems.items()))
            text += f" {len(accepted.problems):,} left out, such as {one}: {why.rstrip('.')}."
        inform(text)

    def _take_back(self) -> None:
        """Take back what was accepted last."""
        last, here = self._last, self._open_here()
        if self._images.project is None or last is None:
            return
        regions = dict(last.regions)
        before = self._decisions_here()
        if here:
            self._session.ask("take back", (list(regions.pop(here, ())), last.word))
        own = len(before) - len(self._decisions_here())
        self._keep_last(None)
        rest = replace(last, regions=regions)
        work = partial(take_back_work, accepted=rest, library=self._session.library)
        self._begin(work, partial(self._taken_back, rest, own), computed=False)

    def _taken_back(self, asked: Accepted, own: int, taken: Accepted) -> None:
        self._images.recount()
        text = f"Undecided again: {_several(taken.count + own, 'region')}."
        left = set(taken.problems)
        if taken.stopped:
            left |= asked.regions.keys() - taken.regions.keys()
        kept = {name: keys for name, keys in asked.regions.items() if name in left}
        if kept:
            self._keep_last(replace(asked, regions=kept))
        if taken.problems:
            one, why = next(iter(taken.problems.items()))
            count = len(taken.problems)
            text += f" {count:,} images could not be changed, such as {one}: {why}."
        elif kept:
            text += " Undo on this tab takes back the rest."
        (refuse if taken.problems else inform)(text)

    def _keep_last(self, accepted: Accepted | None) -> None:
        self._last = accepted
        self._images.part.undo.setEnabled(accepted is not None and accepted.count > 0)

    def _open_here(self) -> str:
        """Return the project's image whose review is open: this window locks its decisions."""
        own = self._images.keeper.own
        return own.name if own is not None and self._session.reviewed is not None else ""

    def _decisions_here(self) -> tuple[RegionKey, ...]:
        """Return the decided regions of the open review, which makes decisions there itself."""
        review = self._session.reviewed
        return () if review is None else tuple(review.review.decisions)

    # -- how it goes --------------------------------------------------------------------------

    def _once_open(self, act: Callable[[], None]) -> None:
        """Decide about regions once no review is being opened, unless that is cancelled."""
        session = self._session
        if self.worker.busy or self._waiting is not None:
            return
        if session.run.running and session.review is not None and session.reviewed is None:
            refuse("Wait until the run is over, or cancel it: its image is under review.")
        elif session.review_opening:
            self._waiting = act
            session.many = ManyImages("Opening the review ...")
        else:
            act()

    def review_opening_changed(self, opening: bool) -> None:
        """Do what has waited for a review."""
        act = self._waiting
        if act is not None and not opening:
            self._waiting = self._session.many = None
            act()

    def _begin(
        self, work: Callable[..., Any], then: Callable[[Any], None], *, computed: bool = True
    ) -> None:
        """Begin to work on the project as it is once all of it is on the disk."""
        self._images.flush()
        settled = partial(_settled, self._images, work, computed=computed)
        if self._waiting is None and self.worker.start(settled):
            self._then = then
            self._session.notice = None
            self._session.many = ManyImages("Starting ...")
        else:
            refuse("Wait until the work on all images is over, or cancel it.")

    def _progressed(self, value: Any) -> None:
        if isinstance(value, ManyImages):
            if self._session.many is not None:
                self._session.many = replace(value, stopping=self._session.many.stopping)
        elif isinstance(value, About) and value.summary is None:
            self._images.computed(value.name)
        elif isinstance(value, About):
            self._images.decided(value.name, value.summary)

    def _done(self, made: Any) -> None:
        self._session.many = None
        self._then(made)

    def _ended(self) -> None:
        self._session.many = None


def _several(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


def _settled(images: Any, work: Callable[..., Any], *, computed: bool) -> Any:
    """Wait until the project, and what is being computed, is on the disk; then work on that."""
    while not (images.keeper.writing.idle and (images.ahead.idle or not computed)):
        time.sleep(0.01)
        show(ManyImages("Starting ..."))
    return work(images.project)
