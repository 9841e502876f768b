"""What the sections of the tab Explore have in common."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psygnal import SignalInstance
from qtpy.QtWidgets import QWidget

from ...app.requests.run_source import RunSource
from ...app.session import ResultRecord, Session, Topic, same_regions, same_run
from ...app.session.jobs import Subject
from ...app.work.driver import Work
from ...app.work.model_store import ModelStore
from ...base import progress_words as words
from ...base.errors import InputError
from ...results.region_result import RegionResult
from ...results.results import Results
from ..layers.results_on_canvas import ResultsOnCanvas
from ..widgets.progress_row import ProgressRow
from ..widgets.sections import Note, Section
from ..workers import notify

if TYPE_CHECKING:
    from napari.components import ViewerModel


@dataclass(frozen=True, slots=True, eq=False)
class Shared:
    """What the sections work with."""

    viewer: ViewerModel
    session: Session
    canvas: ResultsOnCanvas
    store: ModelStore


class WorkSection(Topic, QWidget):
    """A form, the work that it starts outside the GUI thread, and the answer.

    A subclass has the form, `run`, which calls `start`, and `answered`.
    """

    title = tip = ""  # of the section
    opened = False  # at first
    source = ""  # of what it refuses, which stays in the status line until it is settled

    def __init__(self, shared: Shared) -> None:
        super().__init__()
        self._viewer, self._session = shared.viewer, shared.session
        self._canvas, self._store = shared.canvas, shared.store
        self.section = Section(self.title, self, opened=self.opened, tip=self.tip)
        self.job = shared.session.jobs.of(self.kind)

    # -- for the panel ------------------------------------------------------------------------

    def bind(self) -> None:
        """Follow the session."""
        self.after(self.refresh, *self.followed())
        self.after(self.show_job, self.job.changed)
        self.show_job()
        self.refresh()

    def followed(self) -> tuple[SignalInstance, ...]:
        """Return the events of the session after which it is refreshed."""
        return ()

    # -- for a subclass -----------------------------------------------------------------------

    def refresh(self, _: object = None) -> None:
        """Show what can be done now."""

    def answered(self, answer: Any) -> None:
        """Show the answer."""
        raise NotImplementedError

    def show_job(self) -> None:
        """Show how far the work is, or that nothing is at work."""
        raise NotImplementedError

    def show_news(self, news: Any) -> None:
        """Show a part of the answer."""

    def start(self, work: Work, *about: Subject) -> None:
        """Do some work outside the GUI thread."""
        self.job.start(work, self.answered, news=self.show_news, failed=self.refuse, about=about)

    def change_results(self, change: Callable[[Results], Results]) -> None:
        """Show the results changed; their regions are those that the work was about."""
        record = self._session.run.record
        if record is not None:
            self._session.show(record.changed(results=change(record.results), table=None))

    def refuse(self, reason: str) -> None:
        """Show why something cannot be done."""
        if self.source:
            self._session.refuse(self.source, reason)
        else:
            notify.refuse(reason)


class ProgressSection(WorkSection):
    """A section whose work shows a progress bar, with Cancel, while it goes on."""

    doing = cancel_tip = ""  # for the bar and for Cancel

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.progress = ProgressRow(self.doing, self.cancel_tip)
        self.progress.cancelled.connect(self.job.cancel)

    def bind(self) -> None:
        """Follow the session, and the job."""
        super().bind()
        self.after(self.show_busy, self.job.began, self.job.ended)

    def show_busy(self) -> None:
        """Show what can be done while the work goes on, and after it."""
        self.refresh()

    def show_job(self) -> None:
        """Show it in the bar, which is hidden while nothing is at work."""
        self.progress.show_job(self.job.job)


class RegionSection(WorkSection):
    """A section about the selected region of the results, with a status line.

    Its work ends with the selection, or when a run begins.
    """

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared)
        self.line = Note(name="Status")
        self._line_is_of_job = False
        self.region: RegionResult | None = None
        self._record: ResultRecord | None = None
        self.section.toggled.connect(self.toggled)

    @property
    def is_open(self) -> bool:
        """Whether the section is open."""
        return self.section.is_open

    def bind(self) -> None:
        """Follow the session."""
        super().bind()
        run = self._session.run.events
        review = self._session.review.events
        self.after(self._show_record, run.record)
        self.after(self._show_row, review.row)
        self._show_record(self._session.run.record)

    def stop(self) -> None:
        """Follow the session no more, and release layers and results."""
        super().stop()
        self._show_record(None)

    def toggled(self, opened: bool) -> None:
        """Begin or end to look at the region."""
        raise NotImplementedError

    def forget(self) -> None:
        """Show nothing: the results are those of another run."""
        raise NotImplementedError

    def show_region(self, before: RegionResult | None) -> None:
        """Show `region`, which was selected after another one."""
        raise NotImplementedError

    def renew(self) -> None:
        """Show `region` as other limits judge it; all else about it stays."""

    def say(self, text: str) -> None:
        """Show what is being done, or what has become of it."""
        self.line.say(text)
        self._line_is_of_job = False

    def show_job(self) -> None:
        """Show it in the status line, until something else is said."""
        job = self.job.job
        if job is not None:
            self.say(f"{job.text or words.READING_IMAGE} ...")
            self._line_is_of_job = True
        elif self._line_is_of_job:
            self.say("")

    def refuse(self, reason: str) -> None:
        """Show why something cannot be done."""
        self.say("")
        super().refuse(reason)

    def source_of_region(self) -> RunSource:
        """Return the layers of the region, or refuse what cannot be looked at now."""
        if self._session.run.progress.running:
            raise InputError("Wait until the run is over.")
        if self._record is None or self.region is None:
            raise InputError("Suggest words first, and select a region in the table.")
        return RunSource.of(self._record)

    def _show_record(self, record: ResultRecord | None) -> None:
        before, self._record = self._record, record
        if not same_run(before, record):
            self.region = None
            self.forget()
        elif (
            record is not None
            and before is not None
            and same_regions(before.results, record.results)
        ):
            for region in record.results.regions:
                # Other limits make other objects of the same regions, with the same embeddings.
                if self.region is not None and region.raw_embedding is self.region.raw_embedding:
                    self.region = region
                    self.renew()
                    break
            return
        self._show_row(self._session.review.row)

    def _show_row(self, row: int) -> None:
        record = self._record
        if record is None or record is not self._session.run.record:
            return  # its event follows
        if 0 <= row < len(record.results):
            before, self.region = self.region, record.results.regions[row]
            self.show_region(before)
