"""Details of the selected region: the sub-sections Why and Compare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QObject

from ..layers.results_on_canvas import ResultsOnCanvas
from ..run_requests.run_source import RunSource
from ..session import Bindings, Session
from ..widgets.sections import Section
from ..workers.model_store import ModelStore
from .compare_controller import CompareController
from .compare_widget import CompareWidget
from .why_controller import WhyController
from .why_widget import WhyWidget

if TYPE_CHECKING:
    from ...results.results import Results
    from ..run_requests.request import Request


class RegionDetails(QObject):
    """Both sub-sections and the results they belong to.

    Parameters
    ----------
    viewer : napari.Viewer
    canvas : ResultsOnCanvas
    session : Session
    store : ModelStore

    Attributes
    ----------
    sections : tuple of Section
        Closed at first.
    """

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
        self._next: RunSource | None = None
        self.why_widget, self.compare_widget = WhyWidget(), CompareWidget()
        self.why = WhyController(viewer, canvas, self.why_widget, session, store, self)
        self.compare = CompareController(viewer, self.compare_widget, session, store, self)
        self.sections = (
            Section("Why", self.why_widget, opened=False),
            Section("Compare", self.compare_widget, opened=False),
        )
        self.sections[0].toggled.connect(self.why.set_open)
        self.sections[1].toggled.connect(self.compare.set_open)

    def follow(self) -> None:
        """Follow the session."""
        self._bindings.connect(self._session.events.settings, self.compare.refresh)

    def expect(self, request: Request, image: Any, regions: Any) -> None:
        """Note the source of the run that begins, and stop explaining meanwhile."""
        self._next = RunSource.of(request, image, regions)
        self.why.stop()
        self.compare.stop()

    def reopen(self, origin: RunSource) -> None:
        """Use results of a file."""
        self._next = origin
        self.begin()

    def begin(self) -> None:
        """Use the results of that run from now on."""
        self.why.belong_to(self._next)
        self.compare.belong_to(self._next)

    def show(self, results: Results, row: int) -> None:
        """Show another region."""
        self.why.show(results.regions[row], results.info)
        self.compare.show(results.regions[row], results.info)

    def renew(self, before: Results, after: Results) -> None:
        """Use the same regions with other limits; their explanations stay."""
        for part in (self.why, self.compare):
            shown = part.region
            if shown is not None:
                own = (one for one in after.regions if one.raw_embedding is shown.raw_embedding)
                part.renew(next(own, shown), after.info)

    def forget(self) -> None:
        """Release layers and results, and follow the session no more."""
        self._bindings.release()
        self.why.belong_to(None)
        self.compare.belong_to(None)

    def set_colors(self, line: str, text: str) -> None:
        """Follow the theme."""
        self.why_widget.set_colors(line, text)
