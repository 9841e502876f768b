"""Live mode: when it updates the results, and what it does with them."""

from __future__ import annotations

import math
import time
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from qtpy.QtCore import QObject

from ...base.errors import InputError, MaskInversionError
from ..layers.coordinates import Grid, ViewPoint, plane_of, slice_of
from ..layers.layers import is_shapes
from ..run_requests.preparing import make_request
from ..session import Bindings, RunState, Session
from ..widgets.sections import pause
from ..workers.notify import inform
from ..workers.worker import Worker
from .image_watch import ImageWatch
from .live_results import LiveResults
from .live_updater import LiveAnswer, LiveUpdater
from .live_widget import LiveWidget
from .shape_look import show_outlines

if TYPE_CHECKING:
    from ..workers.model_store import ModelStore

# Milliseconds without an edit before an update, and the longest wait while edits continue.
QUIET: Final = 80
LATEST: Final = 250
# Regions and image are copied on the GUI thread: 4 million numbers take 5 ms.
MOST_PIXELS: Final = 2**22


class LiveController(QObject):
    """Updates the results after every change that matters; off at first."""

    def __init__(
        self,
        viewer: Any,
        session: Session,
        store: ModelStore,
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._viewer, self._session = viewer, session
        self._paused = False  # by a run
        self._bindings = Bindings()
        self.part, self.results = LiveWidget(), LiveResults(session, self)
        self.worker = Worker("latest", "Live mode", parent=self)
        self._updater, self._watch = LiveUpdater(store), ImageWatch(viewer)
        self._watch.changed.connect(self.later)
        # Not superqt's debouncer: the wait becomes shorter while edits continue.
        self._timer = pause(self, QUIET, self._ask)
        self._since: float | None = None  # time of the first edit after the last update
        self.part.switch.toggled.connect(self._switched)
        self.worker.progressed.connect(
            lambda update: self.part.line.say(f"Live: {update.text} ...")
        )
        self.worker.done.connect(self._answered)
        self.worker.failed.connect(self._refuse)

    @property
    def on(self) -> bool:
        """Whether live mode is on."""
        return self._session.live

    def follow(self) -> None:
        """Update after everything that changes the results."""
        events = self._session.events
        names = ("layers", "edits", "settings", "scope", "vocabulary")
        self._bindings.connect([events[name] for name in names], self.later)
        self._bindings.connect(events.layers, self._layers_changed)
        self._bindings.connect(events.picks, self._picked)
        self._bindings.connect(events.run, self._run_changed)
        self._bindings.connect(events.live, self.part.show_switch)

    def stop(self) -> None:
        """Switch off, and follow the session no more."""
        self.off()
        self._bindings.release()

    def release(self) -> None:
        """Forget the model and the encoded image; the next update makes them again."""
        self._updater.clear()

    def later(self, *_: Any) -> None:
        """Update when no edit came for a moment, or after 250 ms while edits continue."""
        if not self.on or self._session.run.running:
            return
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        left = LATEST - 1000 * (now - self._since)
        self._timer.start(round(min(QUIET, max(0, left))))

    def _run_changed(self, run: RunState) -> None:
        """Wait until a run is over."""
        before, self._paused = self._paused, run.running
        if run.running and not before:
            self._pause()
        elif before and not run.running and self.on:
            self.part.line.say("")
            self.later()

    def _pause(self) -> None:
        self._timer.stop()
        self._since = None
        self.worker.drop()
        if self.on:
            self.part.line.say("Live mode continues after the run.")

    def off(self) -> None:
        """Switch off, and release image, results and layers."""
        self._timer.stop()
        self._since = None
        self.worker.drop()
        self._updater.clear()
        self._watch.drop()
        self._session.live = False
        self.part.show_switch(False)
        self.part.line.say("")
        self._session.settle("live")
        self.results.forget()

    def _switched(self, on: bool) -> None:
        self._session.live = on
        if not on:
            self.off()
            return
        self._show_outlines()
        if self._session.run.running:
            self._pause()
        else:
            self._ask()

    def _layers_changed(self, *_: object) -> None:
        """Drop an answer about other layers."""
        if self.on:
            self.worker.drop()
        self._show_outlines()

    def _show_outlines(self, *_: object) -> None:
        """Let shapes leave visible what they are drawn around."""
        regions = self._session.regions
        if self.on and regions is not None and is_shapes(regions):
            show_outlines(regions)

    def _picked(self, _: int) -> None:
        if self._session.scope.limited:
            self.later()

    def _ask(self) -> None:
        self._since = None
        image, scope = self._session.image, self._session.scope
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
            self.worker.drop()
            self._refuse(str(error))
            return
        self._watch.keep(request, image, channels)
        self.worker.start(partial(self._updater.update, request))

    def _pixels(self) -> int:
        """Return the pixels of image or labels, whichever are more, on the displayed plane."""
        view, counts = ViewPoint.of(self._viewer), [0]
        image, regions = self._session.layers
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
        self.part.line.say("")
        self._session.refuse("live", f"Live: {reason}")

    def _answered(self, answer: LiveAnswer) -> None:
        if self.on:
            count = len(answer.identities)
            self._session.settle("live")
            self.part.line.say(f"Live: {count} region{'s' * (count != 1)} up to date.")
            self.results.show(answer)
