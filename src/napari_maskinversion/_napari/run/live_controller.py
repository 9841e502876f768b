"""Live mode: its switch, when it updates the results, and what it does with them."""

from __future__ import annotations

import math
import time
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np
from napari.utils.colormaps.standardize_color import transform_color
from qtpy.QtCore import QObject, QSignalBlocker

from ...app.layer_input.coordinates import Grid, ViewPoint, plane_of, slice_of
from ...app.layer_input.layer_facts import is_shapes
from ...app.requests.live_updater import LiveAnswer, LiveUpdater
from ...app.requests.preparing import make_request
from ...app.requests.run_task import RunUpdate
from ...app.session import ResultRecord, Session, Topic, job_kinds, only_ranked_again
from ...base.errors import InputError, MaskInversionError
from ...base.wording import counted
from ..layers.overlays import COLOR
from ..widgets.sections import Note, check_box, debouncer, pause
from ..workers.notify import inform
from .changes import ImageWatch

if TYPE_CHECKING:
    from napari.components import ViewerModel
    from napari.layers import Shapes

    from ...app.work.model_store import ModelStore
    from ...results.results import Results

# Milliseconds without an edit before an update, and the longest wait while edits continue.
QUIET: Final = 80
LATEST: Final = 250
# Regions and image are copied on the GUI thread: 4 million numbers take 5 ms.
MOST_PIXELS: Final = 2**22
# Milliseconds without an edit before the changed regions can be reviewed.
_REST: Final = 1000


class LiveController(Topic, QObject):
    """Updates the results after every change that matters; off at first."""

    def __init__(
        self,
        viewer: ViewerModel,
        session: Session,
        store: ModelStore,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._viewer, self._session = viewer, session
        tip = (
            "Regions that you paint, move, add or remove get their suggestion at once. Only "
            "changed regions are computed, on the displayed plane."
        )
        name = "Live: follow the regions as they are edited"
        self.switch, self.line = check_box("Live", tip, name=name), Note(name="Status of live mode")
        self.line.hide()
        self.results = LiveResults(session, self)
        self.job = session.jobs.of(job_kinds.LIVE)
        self._updater, self._watch = LiveUpdater(store), ImageWatch(viewer)
        self._watch.changed.connect(self.later)
        # Not superqt's debouncer: the wait becomes shorter while edits continue.
        self._timer = pause(self, QUIET, self._ask)
        self._since: float | None = None  # time of the first edit after the last update
        self.switch.toggled.connect(self._switched)

    def bind(self) -> None:
        """Update after everything that changes the results."""
        run = self._session.run.events
        self.after(self.later, run.layers, run.edits, run.settings, run.scope, run.vocabulary)
        self.after(self._show_outlines, run.layers)
        self.after(self._picked, run.picks)
        self.after(self._run_changed, run.running)
        self.after(self._show_switch, run.live)
        self.after(self._show_job, self.job.changed)
        self.after(self._mark_none, self.job.ended)

    def stop(self) -> None:
        """Switch off, and follow the session no more."""
        self.off()
        super().stop()

    def release(self) -> None:
        """Forget the model and the encoded image; the next update makes them again."""
        self._updater.clear()

    def later(self, *_: object) -> None:
        """Update when no edit came for a moment, or after 250 ms while edits continue."""
        if not self._session.run.live or self._session.run.progress.running:
            return
        seconds = time.monotonic()
        if self._since is None:
            self._since = seconds
        left = LATEST - 1000 * (seconds - self._since)
        self._timer.start(round(min(QUIET, max(0, left))))

    def _run_changed(self, running: bool) -> None:
        """Wait until a run is over."""
        if running:
            self._pause()
        elif self._session.run.live:
            self.line.say("")
            self.later()

    def _pause(self) -> None:
        self._timer.stop()
        self._since = None
        if self._session.run.live:
            self.line.say("Live mode continues after the run.")

    def off(self) -> None:
        """Switch off, and release image, results and layers."""
        self._timer.stop()
        self._since = None
        self._session.run.live = False  # and with it the job
        self._updater.clear()
        self._watch.drop()
        self._show_switch(False)
        self.line.say("")
        self._session.settle("live")
        self.results.forget()

    def _show_switch(self, on: bool) -> None:
        with QSignalBlocker(self.switch):
            self.switch.setChecked(on)

    def _switched(self, on: bool) -> None:
        self._session.run.live = on
        if not on:
            self.off()
            return
        self._show_outlines()
        if self._session.run.progress.running:
            self._pause()
        else:
            self._ask()

    def _show_outlines(self, *_: object) -> None:
        """Let shapes leave visible what they are drawn around."""
        regions = self._session.run.regions
        if self._session.run.live and regions is not None and is_shapes(regions):
            show_outlines(regions)

    def _picked(self, _: int) -> None:
        if self._session.run.scope.limited:
            self.later()

    def _ask(self) -> None:
        self._since = None
        image, scope = self._session.run.image, self._session.run.scope
        channels = scope.channels
        try:
            pixels = self._pixels()
            if pixels > MOST_PIXELS:
                self._too_large(pixels)
                return
            if scope.planes != "shown":
                raise InputError(
                    "it works on the plane shown only; choose that in Settings > Regions and "
                    "windows."
                )
            picture = self._watch.picture(image, channels)
            request = make_request(self._viewer, self._session, picture=picture, keep=True)
        except MaskInversionError as error:
            self.job.drop()
            self._refuse(str(error))
            return
        self._watch.keep(request, image, channels)
        work = partial(self._updater.update, request)
        self.job.start(work, self._answered, news=self._mark, failed=self._refuse)

    def _pixels(self) -> int:
        """Return the pixels of image or labels, whichever are more, on the displayed plane."""
        view, counts = ViewPoint.of(self._viewer), [0]
        image, regions = self._session.run.layers
        if image is not None:
            counts.append(math.prod(plane_of(Grid.of(image, view), view).shape))
        if regions is not None and not is_shapes(regions):
            grid = Grid.of(regions, view)
            counts.append(math.prod(grid.shape[axis] for axis in slice_of(grid, view).axes))
        return max(counts)

    def _too_large(self, pixels: int) -> None:
        message = (
            f"Live mode is for planes of up to {MOST_PIXELS / 1e6:.1f} million pixels; this one "
            f"has {pixels / 1e6:.1f} million. Live mode is off now; press the button below instead."
        )
        self.off()
        inform(message)

    def _refuse(self, reason: str) -> None:
        self.line.say("")
        self._session.refuse("live", f"Live: {reason}")

    def _show_job(self) -> None:
        if self.job.job is not None and self.job.job.text:
            self.line.say(f"Live: {self.job.job.text} ...")

    def _mark(self, update: RunUpdate) -> None:
        self._session.run.computing = update.computing

    def _mark_none(self) -> None:
        self._session.run.computing = frozenset()

    def _answered(self, answer: LiveAnswer) -> None:
        count = 0 if answer.record is None else len(answer.record.identities)
        self._session.settle("live")
        text = f"{counted(count, 'region')} up to date" if count else "no regions yet"
        self.line.say(f"Live: {text}.")
        self.results.show(answer)


class LiveResults(QObject):
    """Keeps the run of results while they follow one image and one regions layer."""

    def __init__(self, session: Session, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._session = session
        self._series: tuple[object, ...] = ()  # what the last results belong to
        self._shown: ResultRecord | None = None
        self._rest = debouncer(self, _REST, self._settle)

    def show(self, answer: LiveAnswer) -> None:
        """Show new results, unless nothing has changed."""
        session, record = self._session, answer.record
        if record is None:
            session.forget_results()
            return
        before, results = session.run.record, record.results
        series = (*session.run.layers, answer.picture)
        # The review may have ranked them by its decisions.
        ours = only_ranked_again(before, self._shown) and series == self._series
        if before is not None and ours:  # what they were made with is kept with the run
            different = before.snapshot.recipe.differences(session.run.snapshot().recipe)
            ours = not any(
                difference.key == "choice" or (difference.is_setting and difference.needs_run)
                for difference in different
            )
        if ours and not answer.inverted and self._same(results):
            return
        row = -1
        if before is not None and not ours:  # the region selected stays selected
            row = _row_of(before.results, session.review.row, results)
        elif before is not None:
            record = record.changed(snapshot=before.snapshot)
            # A region that was just drawn is what its user looks at, unless a review is open.
            row = -1 if session.review.state else _added(before.results, results)
        self._series, self._shown = series, record
        session.show(record)
        if row >= 0:
            session.select(row, picked=False)
        self._rest.throttle()

    def forget(self) -> None:
        """Release layers and results; the review gets the last ones."""
        self._rest.flush()
        self._series, self._shown = (), None

    def _same(self, results: Results) -> bool:
        shown = None if self._shown is None else self._shown.results
        if shown is None or shown.info != results.info:
            return False
        pairs = zip(shown.regions, results.regions, strict=False)
        return len(shown) == len(results) and all(a is b for a, b in pairs)

    def _settle(self) -> None:
        shown = self._shown
        if shown is not None and only_ranked_again(self._session.run.record, shown):
            self._shown = shown.changed(settled=True)
            self._session.show(self._shown)


def _row_of(before: Results, row: int, after: Results) -> int:
    """Return the row of a region in other results; -1 if it is in none."""
    if not 0 <= row < len(before):
        return -1
    key = before.regions[row].key
    for new_row, region in enumerate(after.regions):
        if region.key == key:
            return new_row
    return -1


def _added(before: Results, after: Results) -> int:
    """Return the row of the one region that was drawn since; -1 if there is none, or several."""
    keys = {region.key for region in before.regions}
    rows = [row for row, region in enumerate(after.regions) if region.key not in keys]
    return rows[0] if len(rows) == 1 else -1


def show_outlines(layer: Shapes) -> None:
    """Show shapes without a fill where they have napari's white one; a look of the user stays."""
    selected = set(layer.selected_data)
    # napari gives a new look to the selected shapes.
    layer.selected_data = set()
    if bool((transform_color(layer.current_face_color)[0] == 1).all()):
        layer.current_face_color, layer.current_edge_color = "transparent", COLOR
    faces = np.array(layer.face_color)
    white = (faces == 1).all(axis=1) if len(faces) else np.zeros(0, bool)
    if white.any():
        edges = np.array(layer.edge_color)
        faces[white, 3] = 0
        edges[white] = transform_color(COLOR)[0]
        layer.face_color, layer.edge_color = faces, edges
    layer.selected_data = selected
