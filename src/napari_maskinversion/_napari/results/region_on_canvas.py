"""The selected region of the session's results on the canvas: shows it, and follows clicks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from ...app.session import ResultRecord, RunState, Session, Topic, same_regions, same_run
from ...base.identity import RegionKey
from ...results.region_result import RegionResult
from ..layers.results_on_canvas import RegionOrigin, ResultsOnCanvas

if TYPE_CHECKING:
    from napari.components import ViewerModel
    from napari.utils.events import Event

    from ...app.session import ResultRecord
    from ...base.identity import Position
    from ..layers.results_on_canvas import Mask, Masks


# Modes of layers in which a click neither draws nor paints.
_LOOKING: Final = ("pan_zoom", "pick", "select")
_STILL: Final = 4  # pixels of the canvas that the mouse may move in a click


class RegionOnCanvas(Topic):
    """Follows the session: heatmap and view are those of its row. A click selects a region."""

    def __init__(self, session: Session, canvas: ResultsOnCanvas) -> None:
        self._session, self._canvas = session, canvas
        self._record: ResultRecord | None = None
        self._region: RegionResult | None = None
        self._formed = False  # heatmaps that form were shown instead
        self._clicked: RegionKey | None = None  # the view stays where it was clicked

    def bind(self) -> None:
        """Show what the session shows."""
        run = self._session.run.events
        review = self._session.review.events
        status = self._session.status.events
        self.after(self._show_record, run.record)
        self.after(self._show_row, review.row)
        self.after(self._show_rows, review.rows)
        self.after(self.show, run.outlined)
        self.after(self._order_changed, self._session.explore.events.order)
        self.after(self._run_changed, run.progress)
        self.after(self._turned, status.tab)
        self._canvas.viewer.mouse_drag_callbacks.append(self._pressed)
        self._show_record(self._session.run.record)

    def stop(self) -> None:
        """Release the layers, and follow the session no more."""
        super().stop()
        clicks = self._canvas.viewer.mouse_drag_callbacks
        if self._pressed in clicks:
            clicks.remove(self._pressed)
        self._record = self._region = None
        self._canvas.forget()

    def show(self, _: object = None) -> None:
        """Show the heatmap of the selected region, if its image is still in the viewer."""
        self._show_selected(stay=False)

    def _show_selected(self, *, stay: bool) -> None:
        results, row = self._session.run.results, self._session.review.row
        if results is None or not 0 <= row < len(results):
            self._region = None
            self._canvas.blank()
            return
        self._region = results.regions[row]
        if self._clicked != RegionKey(self._region.id, self._region.position):
            self._clicked = None
        move = self._session.review.picked and self._clicked is None and not stay
        region, origin = self._region, None
        if (compared := self._compared(region)) is not None:
            region, origin = compared
        self._canvas.show(region, outlined=self._session.run.outlined, move=move, of=origin)

    def _compared(self, region: RegionResult) -> tuple[RegionResult, RegionOrigin] | None:
        """Return what a search has compared of a region, if the results have another embedding."""
        order = self._session.explore.order
        record = None if order is None else order.compared
        if record is None or not isinstance(record.masks, dict):
            return None
        for other in record.results.regions:
            if other.key == region.key and other.bbox == region.bbox:
                if other.raw_embedding is region.raw_embedding:
                    return None
                mask = record.masks.get((other.position, other.id))
                return other, RegionOrigin(record.snapshot.image, record.finder, mask)
        return None

    def _pressed(self, viewer: ViewerModel, event: Event) -> Iterator[None]:
        """Select the region under a click, unless the active layer is drawn or painted on."""
        mode = str(getattr(viewer.layers.selection.active, "mode", _LOOKING[0]))
        results, start = self._session.run.results, np.array(event.pos)
        if results is None or event.button != 1 or event.modifiers or mode not in _LOOKING:
            return
        yield
        while event.type == "mouse_move":
            if np.abs(np.asarray(event.pos) - start).max() > _STILL:
                return
            yield
        row = self._canvas.row_at(results.regions, event.position)
        if row >= 0:
            region = results.regions[row]
            self._clicked = region.key
            self._session.select(row)

    def _order_changed(self, _: object) -> None:
        """Show the heatmap of what was compared; the view stays."""
        self._show_selected(stay=True)

    def _turned(self, tab: str) -> None:
        """Show the selected row again where a search has left the heatmap of its own results."""
        if tab != "explore" and self._canvas.foreign:
            self._session.review.picked = False  # the view stays
            self.show()

    def _show_row(self, _: int) -> None:
        if self._record is self._session.run.record:  # else its event follows
            self.show()

    def _show_rows(self, rows: tuple[int, ...]) -> None:
        results = self._session.run.results
        regions = () if results is None or len(rows) < 2 else results.regions
        self._canvas.show_further([regions[row] for row in rows if row < len(regions)])

    def _show_record(self, record: ResultRecord | None) -> None:
        before, self._record = self._record, record
        if record is None:
            self.show()
            return
        if not same_run(before, record) or before is None or before.finder is not record.finder:
            self._canvas.belong_to(record.snapshot.image, record.finder)
            self._region = None
        same = before is not None and same_regions(before.results, record.results)
        if before is None or not same or before.masks is not record.masks:
            self._canvas.know(masks_of(record))
        row = self._session.review.row
        regions = record.results.regions
        # More regions of the run, or other limits, leave the heatmap as it is.
        if not 0 <= row < len(regions) or regions[row].grid_map is not _map_of(self._region):
            self.show()

    def _run_changed(self, run: RunState) -> None:
        forming = run.running and self._session.run.forming
        if self._formed and not forming:  # back to what is selected
            self.show()
        self._formed = forming


def _map_of(region: RegionResult | None) -> object:
    return None if region is None else region.grid_map


def masks_of(record: ResultRecord) -> Masks:
    """Return the pixels of regions by the ``id()`` of their embedding; empty while a run goes on.

    An embedding tells a region from one of another run under the same number.
    """
    results, masks = record.results, record.masks
    if masks is None:
        return {}
    by_place: dict[tuple[Position, int], Mask] = {}
    if isinstance(masks, dict):
        by_place.update(masks)
    else:
        for plane in masks:
            for region in plane.regions:
                by_place[plane.position, region.id] = region
    by_embedding = {}
    for result in results.regions:
        mask = by_place.get((result.position, result.id))
        if mask is not None:
            by_embedding[id(result.raw_embedding)] = mask
    return by_embedding
