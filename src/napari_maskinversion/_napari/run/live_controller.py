"""When live mode asks for an update, and what it does with the answer."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from qtpy.QtCore import QObject, QTimer, Signal

from ...base.errors import InputError, MaskInversionError
from ..inputs.input_widget import InputWidget
from ..layers.coordinates import Grid, ViewPoint, plane_of, slice_of
from ..layers.layers import is_shapes
from ..workers.notify import inform
from ..workers.worker import Worker
from .image_watch import ImageWatch
from .live_updater import LiveAnswer, LiveUpdater
from .live_widget import LiveWidget

if TYPE_CHECKING:
    from ..layers.pictures import Picture
    from ..workers.model_store import ModelStore
    from .request import Request, Seed

# Milliseconds without an edit before an update, and the longest that it waits while edits go on.
QUIET: Final = 80
LATEST: Final = 250
# Regions and image are copied on the thread that draws the brush: 4 million numbers take 5 ms.
MOST_PIXELS: Final = 2**22
# Which regions are picked matters only where only these are wanted.
_PICKING: Final = ("selected_label", "highlight")


class Live(QObject):
    """Asks for an update when something that counts has changed; off at first.

    Parameters
    ----------
    viewer : napari.Viewer
    inputs : InputWidget
    runner : Worker
        While it runs, live mode waits.
    store : ModelStore
    make : callable
        Makes a request, from a copy of the image where there is one. Raises MaskInversionError.

    Attributes
    ----------
    part : LiveWidget
    seed : Seed or None
        What the last run has found, to begin with.

    Signals
    -------
    answered : LiveAnswer
    stopped
        Live mode was switched off.
    """

    answered = Signal(object)
    stopped = Signal()

    def __init__(
        self,
        viewer: Any,
        inputs: InputWidget,
        runner: Worker,
        store: ModelStore,
        make: Callable[[Picture | None], Request],
        parent: QObject | None = None,
    ) -> None:
        super().__init__(parent)
        self._viewer, self._inputs, self._runner, self._make = viewer, inputs, runner, make
        self.part, self.worker = LiveWidget(), Worker("latest", "Live mode", parent=self)
        self._updater, self._watch = LiveUpdater(store), ImageWatch(viewer, self.later)
        self.seed: Seed | None = None
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._ask)
        self._since: float | None = None  # the first edit that no update was asked for
        self.part.switch.toggled.connect(self._switched)
        inputs.touched.connect(self._edited)
        inputs.changed.connect(self.later)
        inputs.scope.changed.connect(self.later)
        runner.ended.connect(self.resume)
        self.worker.progressed.connect(lambda update: self.part.say(f"Live: {update.text} ..."))
        self.worker.done.connect(self._answered)
        self.worker.failed.connect(self._cannot)

    @property
    def on(self) -> bool:
        """Whether live mode is switched on."""
        return bool(self.part.switch.isChecked())

    def follow(self, *signals: Any) -> None:
        """Take signals after which an update is due."""
        for signal in signals:
            signal.connect(self.later)

    def later(self, *_: Any) -> None:
        """Ask for an update after a short quiet time; while edits go on not much later."""
        if not self.on or self._runner.busy:
            return
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        left = LATEST - 1000 * (now - self._since)
        self._timer.start(round(min(QUIET, max(0, left))))

    def pause(self) -> None:
        """Wait for a run that begins."""
        self._timer.stop()
        self._since = None
        self.worker.drop()
        if self.on:
            self.part.say("Live mode goes on when the run is over.")

    def resume(self) -> None:
        """Go on after a run."""
        if self.on:
            self.part.say("")
            self.later()

    def stop(self, said: str = "") -> None:
        """Switch off, and let go of image, results and layers."""
        self._timer.stop()
        self._since = None
        self.worker.drop()
        self._updater.clear()
        self._watch.drop()
        self.part.show_switch(False)
        self.part.say(said)
        self.stopped.emit()

    def _switched(self, on: bool) -> None:
        if not on:
            self.stop()
        elif self._runner.busy:
            self.pause()
        else:
            self._ask()

    def _edited(self, kind: str) -> None:
        if kind not in _PICKING or self._inputs.scope.use.currentIndex() == 1:
            self.later()

    def _ask(self) -> None:
        self._since = None
        image, scope = self._inputs.image.layer, self._inputs.scope
        channels = scope.channels_chosen()
        try:
            pixels = self._pixels()
            if pixels > MOST_PIXELS:
                self._too_large(pixels)
                return
            if scope.planes_chosen() != "shown":
                raise InputError("it follows the plane shown only; choose that under Planes.")
            request = self._make(self._watch.picture(image, channels))
        except MaskInversionError as error:
            self.worker.drop()
            self._cannot(str(error))
            return
        self._watch.keep(request, image, channels)
        self.worker.start(partial(self._updater.update, request, self.seed))

    def _pixels(self) -> int:
        """Pixels of the larger one of image and labels, on the plane shown."""
        view, counts = ViewPoint.of(self._viewer), [0]
        image, regions = self._inputs.image.layer, self._inputs.regions.layer
        if image is not None:
            counts.append(math.prod(plane_of(Grid.of(image, view), view).shape))
        if regions is not None and not is_shapes(regions):
            grid = Grid.of(regions, view)
            counts.append(math.prod(grid.shape[axis] for axis in slice_of(grid, view).axes))
        return max(counts)

    def _too_large(self, pixels: int) -> None:
        said = (
            f"Live mode is for planes of up to {MOST_PIXELS / 1e6:.1f} million pixels; this one "
            f"has {pixels / 1e6:.1f} million. It was switched off; press Run instead."
        )
        self.stop(said)
        inform(said)

    def _cannot(self, message: str) -> None:
        self.part.say(f"Live: {message}")

    def _answered(self, answer: LiveAnswer) -> None:
        if self.on:
            count = len(answer.identities)
            self.part.say(f"Live: {count} region{'s' * (count != 1)} up to date.")
            self.answered.emit(answer)
