"""Shows the results of live mode in table, heatmap and review."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from qtpy.QtCore import QObject

from ..explore.region_details import RegionDetails
from ..layers.layers import is_shapes
from ..layers.results_on_canvas import ResultsOnCanvas
from ..results.results_widget import ResultsWidget
from ..review.review_controller import ReviewController
from ..run_requests.preparing import record
from ..session import Session
from ..widgets.sections import debouncer
from .live_updater import LiveAnswer

if TYPE_CHECKING:
    from ...base.identity import RegionIdentity
    from ...results.results import Results

# Milliseconds without an edit before the review is opened again for the changed regions.
_REST: Final = 1000


class LiveResults(QObject):
    """Keeps selected row, review and camera while results change.

    Parameters
    ----------
    session : Session
    results : ResultsWidget
    canvas : ResultsOnCanvas
    details : RegionDetails
    review : ReviewController

    Attributes
    ----------
    busy : bool
        Rows are being replaced: a selection made meanwhile is not the user's.
    """

    def __init__(
        self,
        session: Session,
        results: ResultsWidget,
        canvas: ResultsOnCanvas,
        details: RegionDetails,
        review: ReviewController,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._session, self._results, self._canvas = session, results, canvas
        self._details, self._review = details, review
        self.busy = False
        self._series: tuple[Any, ...] = ()  # what the displayed results belong to
        self._shown: Results | None = None
        self._identities: tuple[RegionIdentity, ...] = ()
        self._rest = debouncer(self, _REST, self._follow)

    def show(self, answer: LiveAnswer) -> None:
        """Show new results, unless nothing has changed."""
        request, results = answer.request, answer.results
        image, regions = self._session.layers
        series = (image, regions, request.input.picture)
        ours = self._results.results is self._shown and series == self._series
        if ours and results is not None and not answer.inverted and self._same(results):
            return
        if not ours:
            self._series = series
            self._details.expect(request, image, regions)
            self._canvas.belong_to(image, request.input.finder)
            self._details.begin()
        self._review.expect(image, regions)  # their rows are those of the shapes as they are now
        self._results.source = record(request, image, regions)
        self._results.run_masks = (results, answer.planes)
        self._results.fingerprint = answer.pixels
        # A shape that was just drawn is what its user looks at, unless a review is open.
        free = ours and is_shapes(regions) and self._review.keeper.state is None
        drawn = _added(self._shown, results) if free else -1
        self._shown, self._identities = results, answer.identities
        self.busy = True
        try:
            self._results.show_results(results, answer.table)
            if drawn >= 0:
                self._results.select(drawn)
        finally:
            self.busy = False
        self._show_row()
        self._rest.throttle()

    def forget(self) -> None:
        """Release layers and results; the review gets the last ones."""
        self._rest.flush()
        self._series, self._shown, self._identities = (), None, ()

    def _same(self, results: Results) -> bool:
        shown = self._shown
        if shown is None or shown.info != results.info:
            return False
        pairs = zip(shown.regions, results.regions, strict=False)
        return len(shown) == len(results) and all(a is b for a, b in pairs)

    def _show_row(self) -> None:
        results, row = self._results.results, self._results.row
        if results is None or not 0 <= row < len(results):
            self._canvas.blank()
            return
        # The camera stays: the user is drawing.
        self._canvas.show_map(results.regions[row], results.regions[row].grid_map)
        self._details.show(results, row)

    def _follow(self) -> None:
        if self._shown is not None and self._results.results is self._shown:
            self._review.follow(self._shown, self._identities, stay=True)


def _added(before: Results | None, after: Results | None) -> int:
    """Return the row of the one region that was drawn since; -1 if there is none, or several."""
    if before is None or after is None:
        return -1
    known = {(region.id, region.position) for region in before.regions}
    rows = [row for row, one in enumerate(after.regions) if (one.id, one.position) not in known]
    return rows[0] if len(rows) == 1 else -1
