"""Details of the selected region: the sub-sections Why and Compare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QObject

from ..layers.results_on_canvas import ResultsOnCanvas
from ..run_requests.run_source import RunSource
from ..session import Bindings, ResultRecord, RunState, Session, same_regions, same_run
from ..widgets.sections import Section
from ..workers.model_store import ModelStore
from .compare_controller import CompareController
from .compare_widget import CompareWidget
from .why_controller import WhyController
from .why_widget import WhyWidget

if TYPE_CHECKING:
    from ...results.results import Results


class RegionDetails(QObject):
    """Both sub-sections and the results they belong to."""

    def __init__(
        self,
        viewer: Any,
        canvas: ResultsOnCanvas,
        session: Session,
        store: ModelStore,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._session, self._bindings = session, Bindings()
        self._record: ResultRecord | None = None
        self._running = False
        self.why_widget, self.compare_widget = WhyWidget(), CompareWidget()
        self.why = WhyController(viewer, canvas, self.why_widget, session, store, self)
        self.compare = CompareController(viewer, self.compare_widget, session, store, self)
        self.sections = (
            Section("Why", self.why_widget, opened=False, tip="Why the region got its word"),
            Section(
                "Compare",
                self.compare_widget,
                opened=False,
                tip="The region with another model, method or setting",
            ),
        )
        self.sections[0].toggled.connect(self.why.set_open)
        self.sections[1].toggled.connect(self.compare.set_open)

    def follow(self) -> None:
        """Follow the session."""
        events = self._session.events
        self._bindings.connect(events.settings, self.compare.refresh)
        self._bindings.connect(events.record, self._show_record)
        self._bindings.connect(events.row, self._show_row)
        self._bindings.connect(events.run, self._run_changed)
        self._show_record(self._session.record)

    def _run_changed(self, run: RunState) -> None:
        if run.running and not self._running:  # stop explaining meanwhile
            self.why.stop()
            self.compare.stop()
        self._running = run.running

    def _show_record(self, record: ResultRecord | None) -> None:
        before, self._record = self._record, record
        if record is None or not same_run(before, record) or before is None:
            source = None if record is None else RunSource.of(record)
            self.why.belong_to(source)
            self.compare.belong_to(source)
        elif same_regions(before.results, record.results):
            self.renew(before.results, record.results)
            return
        self._show_row(self._session.row)

    def _show_row(self, row: int) -> None:
        results = None if self._record is None else self._record.results
        if self._record is not self._session.record:
            return  # its event follows
        if results is not None and 0 <= row < len(results):
            self.why.show(results.regions[row], results.info)
            self.compare.show(results.regions[row], results.info)

    def renew(self, before: Results, after: Results) -> None:
        """Use the same regions with other limits; their explanations stay."""
        for part in (self.why, self.compare):
            shown = part.region
            if shown is not None:
                own = (one for one in after.regions if one.raw_embedding is shown.raw_embedding)
                part.renew(next(own, shown), after.info)

    def stop(self) -> None:
        """Release layers and results, and follow the session no more."""
        self._bindings.release()
        self._record = None
        self.why.belong_to(None)
        self.compare.belong_to(None)

    def set_colors(self, line: str, text: str) -> None:
        """Follow the theme."""
        self.why_widget.set_colors(line, text)
