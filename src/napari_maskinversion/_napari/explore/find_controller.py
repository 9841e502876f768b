"""Finds regions by words and shows them."""

from __future__ import annotations

from functools import partial
from typing import Any

from qtpy.QtCore import QObject

from ...language.ranking.finding import check_expression
from ...results.region_result import RegionResult
from ..layers.results_on_canvas import ResultsOnCanvas
from ..layers.tasks import PlaneFinder
from ..run_requests.estimator import Estimator, Work
from ..run_requests.preparing import estimate_of, find_request
from ..session import Bindings, Session
from ..widgets.sections import Section
from ..workers.model_store import ModelStore
from ..workers.notify import refuse, refusing
from ..workers.worker import Worker
from .find_task import Finding, FindRequest, Known, find_regions, usable
from .find_widget import FindWidget


class FindController(QObject):
    """Ranks regions in a worker and shows the selected one."""

    def __init__(
        self,
        viewer: Any,
        session: Session,
        canvas: ResultsOnCanvas,
        store: ModelStore,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self.part = part = FindWidget()
        self.section = Section(
            "Find by words", part, opened=False, tip="Show where typed words are"
        )
        self._viewer, self._session = viewer, session
        self._bindings = Bindings()
        self._canvas = canvas
        self._store = store
        self.runner = Worker("single", "The search", parent=self)
        # The last finding, its image layer and planes.
        self._shown: tuple[Finding, Any, PlaneFinder] | None = None
        self._next: tuple[Any, PlaneFinder] | None = None
        self.estimator = Estimator(self)
        self.estimator.due.connect(lambda: self.estimator.estimate(self._estimation))
        self.estimator.ready.connect(part.estimate.say)
        part.changed.connect(self.estimator.later)
        part.find_requested.connect(self.find)
        part.place_selected.connect(self.show)
        part.progress.cancelled.connect(self.runner.cancel)
        self.runner.progressed.connect(part.progress.update_from)
        self.runner.done.connect(self._on_found)
        self.runner.failed.connect(refuse)
        self.runner.ended.connect(lambda: part.show_running(False))
        self.runner.ended.connect(self.estimator.later)

    def follow(self) -> None:
        """Follow the session."""
        events = self._session.events
        names = ("layers", "settings", "scope", "live")
        self._bindings.connect([events[name] for name in names], self._estimate_later)
        self._bindings.connect(events.edits, self._edited)

    def _estimate_later(self, _: object) -> None:
        self.estimator.later()

    def _edited(self, _: int) -> None:
        if not self._session.live:  # each stroke is answered anyway
            self.estimator.later()

    def find(self) -> None:
        """Find the typed words, or say why not."""
        if self.runner.busy:
            return
        words = " ".join(self.part.words.text().split())
        with refusing():
            check_expression(words)
            how = self.part.alpha.value(), self.part.whole.isChecked()
            run, image = find_request(self._viewer, self._session, *how)
            self._next = image, run.input.finder
            self.part.show_running(True)
            known = usable(self._known(image), run)
            request = FindRequest(expression=words, run=run, known=known)
            self.runner.start(partial(find_regions, request, self._store))

    def show(self, place: int) -> None:
        """Show the region at one rank in the table and on the canvas."""
        if self._shown is None:
            return
        finding, image, finder = self._shown
        row = finding.matches[place].row
        region = finding.results.regions[row]
        shown = self._session.results
        if shown is not None and self._session.image is image:
            places = (place for place, one in enumerate(shown.regions) if _same(one, region))
            self._session.select(next(places, self._session.row))
        if finding.results is not shown:
            # The table has another embedding of this region; show the one that was ranked.
            self._canvas.show(region, outlined=self._session.outlined, of=(image, finder))

    def _estimation(self) -> Work | None:
        part = self.part
        if not part.isVisible() or self.runner.busy:
            return None
        how = part.alpha.value(), part.whole.isChecked()
        return estimate_of(self._viewer, self._session, self._store, how)

    def stop(self) -> None:
        """Stop, and release image and results."""
        self._bindings.release()
        self.estimator.stop()
        self.runner.drop()
        self._shown = self._next = None
        self.part.show_finding(None)
        self.part.show_running(False)

    def _known(self, image: Any) -> list[Known]:
        """Return results of the same image layer; the worker compares the pixels."""
        known: list[Known] = []
        record = self._session.record
        if record is not None and record.fingerprint is not None and record.snapshot.image is image:
            known.append(Known(record.results, record.fingerprint))
        if self._shown is not None and self._shown[1] is image:
            known.append(Known(self._shown[0].results, self._shown[0].pixels))
        return known

    def _on_found(self, finding: Finding) -> None:
        if self._next is None:
            return
        image, finder = self._next
        self._next = None
        self._shown = finding, image, finder
        self.part.show_finding(finding)


def _same(one: RegionResult, other: RegionResult) -> bool:
    return (one.id, one.position) == (other.id, other.position)
