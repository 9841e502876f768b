"""Details of the selected region: the sub-sections Why and Compare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from qtpy.QtCore import QObject

from ...base.errors import InputError
from ..inputs.scope_widget import ScopeWidget
from ..layers.results_on_canvas import ResultsOnCanvas
from ..model.model_widget import ModelWidget
from ..run.run_source import RunSource
from ..widgets.sections import Section
from ..workers.model_store import ModelStore
from ..workers.worker import Worker
from .compare_controller import CompareController
from .compare_widget import CompareWidget
from .why_controller import WhyController
from .why_widget import WhyWidget

if TYPE_CHECKING:
    from ...results.results import Results
    from ...results.settings import RunSettings
    from ..run.request import Request


class RegionDetails(QObject):
    """Both sub-sections and the results they belong to.

    Parameters
    ----------
    viewer : napari.Viewer
    canvas : ResultsOnCanvas
    model : ModelWidget
    scope : ScopeWidget
    runner : Worker
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
        model: ModelWidget,
        scope: ScopeWidget,
        runner: Worker,
        store: ModelStore,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._model, self._scope = model, scope
        self._next: RunSource | None = None
        self.why_widget, self.compare_widget = WhyWidget(), CompareWidget()
        self.why = WhyController(viewer, canvas, self.why_widget, store, lambda: runner.busy, self)
        self.compare = CompareController(
            viewer,
            self.compare_widget,
            store,
            self._present,
            lambda: runner.busy,
            lambda: model.method.method,
            self,
        )
        model.changed.connect(self.compare.refresh)
        self.sections = (
            Section("Why", self.why_widget, opened=False),
            Section("Compare", self.compare_widget, opened=False),
        )
        self.sections[0].toggled.connect(self.why.set_open)
        self.sections[1].toggled.connect(self.compare.set_open)

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
        """Release layers and results."""
        self.why.belong_to(None)
        self.compare.belong_to(None)

    def set_colors(self, line: str, text: str) -> None:
        """Follow the theme."""
        self.why_widget.set_colors(line, text)

    def _present(self) -> RunSettings:
        if self._model.needs_fetch():
            raise InputError(
                f"{self._model.spec.name} is not on this machine yet; press Fetch under Model."
            )
        return self._model.settings(window=self._scope.window(), method=self._model.method.chosen())
