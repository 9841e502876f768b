"""Work on all images of a project: suggest, accept, take back, export."""

from __future__ import annotations

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
    Computed,
    Decided,
    ModelLoader,
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
        self._last: Accepted | None = None
        self._asked = Accepted(word="")  # what is being taken back
        self._here: tuple[str, list[RegionKey]] = ("", [])
        self._left_out: dict[str, str] = {}  # why the image under review was
        self._waiting: Callable[[], None] | None = None  # for a review that is being opened
        self.worker = Worker("single", "The work on all images", parent=self)
        self.worker.progressed.connect(self._progressed)
        self.worker.done.connect(self._done)
        self.worker.failed.connect(refuse)
        self.worker.ended.connect(self._ended)
        part = images.part
        part.suggest.clicked.connect(lambda _=False: self.suggest())
        part.accept.clicked.connect(lambda _=False: self.accept(*part.together))
        part.undo.clicked.connect(lambda _=False: self.take_back())
        part.exporting.connect(lambda name: self.ask_export([name]))

    def stop(self) -> None:
        """Stop the work; what is finished is kept."""
        self.worker.cancel()
        self.worker.drop()
        self._give_up()
        self._session.many = None

    def forget(self) -> None:
        """Stop the work, and forget what was accepted last: another project is open."""
        self.stop()
        self._last = None
        self._images.part.undo.setEnabled(False)

    def cancel(self) -> None:
        """Stop at the next step."""
        self.worker.cancel()
        self._give_up()
        if self._session.many is not None:
            self._session.many = replace(self._session.many, stopping=True)

    # -- what the user does -------------------------------------------------------------------

    def suggest(self) -> None:
        """Compute all images that have no suggestions yet."""
        project = self._images.project
        if project is None:
            return
        if self._session.vocabulary is None and project.project.labels is None:
            refuse("Choose words first; they are used for all images.", "words")
            return

        self._images.use_words()

        def begin() -> None:
            self._images.ahead.drop()  # it would compute one of them, too
            now = self._images.project
            model = ModelLoader(now, self._session.settings.device, self._store)
            self._begin(partial(_settled, self._images, partial(suggest_work, model=model)))

        self._images.settle(begin)

    def accept(self, word: str, confidence: float) -> None:
        """Accept a word in all images, where it is suggested with at least a confidence."""
        if word:
            self._once_open(partial(self._accept, word, confidence))

    def _accept(self, word: str, confidence: float) -> None:
        project = self._images.project
        if project is None:
            return
        here = self._open_here()
        stale = self._session.stale.text if here else ""
        self._left_out = {here: f"the suggestions are old ({stale})"} if stale else {}
        before = self._decisions_here()
        if here and not stale:
            self._session.ask("accept word", (word, confidence))
        self._here = here, [key for key in self._decisions_here() if key not in before]
        names = [name for name in project.by_name if name != here]
        work = partial(accept_work, names=names, word=word, confidence=confidence)

        def begin() -> None:
            self._begin(partial(_settled, self._images, work, computed=False))

        self._images.settle(begin)

    def take_back(self) -> None:
        """Take back what was accepted last."""
        self._once_open(self._take_back)

    def _take_back(self) -> None:
        project, last, here = self._images.project, self._last, self._open_here()
        if project is None or last is None:
            return
        regions = dict(last.regions)
        before = self._decisions_here()
        if here:
            self._session.ask("take back", (list(regions.pop(here, ())), last.word))
        after = self._decisions_here()
        self._last = None
        self._here = here, [key for key in before if key not in after]
        self._images.part.undo.setEnabled(False)
        self._asked = rest = replace(last, regions=regions)
        self._begin(lambda: _TakenBack(take_back_work(project, rest)))

    def ask_export(self, formats: list[str]) -> None:
        """Ask for a folder and write one export of all images there."""
        project, part = self._images.project, self._images.part
        if project is None:
            return
        folder = QFileDialog.getExistingDirectory(part, "Export all images to folder")
        if folder and may_replace(part, [Path(folder) / FILES[name] for name in formats]):
            self.export(Path(folder), formats)

    def export(self, folder: Path, formats: list[str]) -> None:
        """Write one export of all images, in place of files of these names."""
        accepted = bool(self._images.part.accepted_only.isChecked())

        def begin() -> None:
            work = partial(
                export_work, out=folder, formats=formats, accepted_only=accepted, overwrite=True
            )
            self._begin(partial(_settled, self._images, work))

        self._images.settle(begin)

    def _open_here(self) -> str:
        """Return the project's image whose review is open: this window locks its decisions."""
        shown, session = self._images.shown, self._session
        reviewed = session.reviewed is not None and shown is not None
        return shown.name if reviewed and session.image in shown.images else ""

    def _decisions_here(self) -> tuple[RegionKey, ...]:
        """Return the decided regions of the open review, which makes decisions there itself."""
        review = self._session.reviewed
        return () if review is None else tuple(review.review.decisions)

    # -- how it goes --------------------------------------------------------------------------

    def _once_open(self, act: Callable[[], None]) -> None:
        """Do something once no review is being opened, unless that is cancelled."""
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
            self._give_up()
            act()

    def _give_up(self) -> None:
        """Wait no longer."""
        if self._waiting is not None:
            self._waiting = None
            self._session.many = None

    def _begin(self, work: Callable[[], Any]) -> None:
        if self._waiting is None and self.worker.start(work):
            self._session.notice = None
            self._session.many = ManyImages("Starting ...")
        else:
            refuse("Wait until the work on all images is over, or cancel it.")

    def _progressed(self, value: Any) -> None:
        if isinstance(value, Computed):
            self._images.computed(value.name)
        elif isinstance(value, Decided):
            self._images.decided(value.name, value.summary)
        elif isinstance(value, ManyImages) and self._session.many is not None:
            self._session.many = replace(value, stopping=self._session.many.stopping)

    def _done(self, result: Any) -> None:
        self._session.many = None
        if isinstance(result, Suggested):
            (refuse if result.problems or result.disk_full else inform)(result.text)
            self._images.recount()
        elif isinstance(result, Accepted):
            self._accepted(result)
        elif isinstance(result, _TakenBack):
            self._images.recount()
            self._taken_back(result.accepted)
        else:
            inform(str(result))

    def _accepted(self, accepted: Accepted) -> None:
        name, keys = self._here
        regions = {**accepted.regions, **({name: keys} if keys else {})}
        problems = {**self._left_out, **accepted.problems}
        self._last = accepted = replace(accepted, regions=regions, problems=problems)
        self._images.part.undo.setEnabled(accepted.count > 0)
        self._images.recount()
        shown = self._images.shown
        if shown is not None and not name and shown.name in regions:
            self._session.ask("show decisions")  # made while the image had no review
        text = (
            f"Accepted as {accepted.word}: {_several(accepted.count, 'region')} of "
            f"{_several(len(regions), 'image')}. Undo on this tab takes all of them back."
            if accepted.count
            else f"Nothing is suggested as {accepted.word} so surely."
        )
        if accepted.problems:
            one, why = next(iter(accepted.problems.items()))
            text += f" {len(accepted.problems):,} left out, such as {one}: {why.rstrip('.')}."
        inform(text)

    def _taken_back(self, accepted: Accepted) -> None:
        count = accepted.count + len(self._here[1])
        text = f"Undecided again: {_several(count, 'region')}."
        asked, left = self._asked.regions, set(accepted.problems)
        if accepted.stopped:
            left |= asked.keys() - accepted.regions.keys()
        kept = {name: asked[name] for name in asked if name in left}
        if kept:
            self._last = replace(self._asked, regions=kept)
            self._images.part.undo.setEnabled(True)
        if accepted.problems:
            one, why = next(iter(accepted.problems.items()))
            count = len(accepted.problems)
            text += f" {count:,} images could not be changed, such as {one}: {why}."
        elif kept:
            text += " Undo on this tab takes back the rest."
        (refuse if accepted.problems else inform)(text)

    def _ended(self) -> None:
        self._session.many = None


def _several(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' * (count != 1)}"


class _TakenBack:
    """What was taken back; an `Accepted` with another meaning."""

    def __init__(self, accepted: Accepted) -> None:
        self.accepted = accepted


def _settled(images: Any, work: Callable[..., Any], *, computed: bool = True) -> Any:
    """Wait until the project, and what is being computed, is on the disk; then work on that."""
    import time

    while not (images.writing.idle and (images.ahead.idle or not computed)):
        time.sleep(0.01)
        show(ManyImages("Starting ..."))
    return work(images.project)
