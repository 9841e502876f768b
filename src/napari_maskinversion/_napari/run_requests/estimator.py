"""Estimates size and time of a run, outside the GUI thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from qtpy.QtCore import QObject, Signal

from ...base.errors import MaskInversionError
from ...engine.models.specs import MODELS, ModelSpec
from ..widgets.sections import debouncer
from ..workers.worker import Worker

if TYPE_CHECKING:
    from ...results.settings import RunSettings
    from ..layers.tasks import RunInput
    from ..workers.model_store import ModelStore

QUIET: Final = 400  # milliseconds without a change
# Larger label images are not read again for every change.
_MOST_PIXELS: Final = 50_000_000
_UNCOUNTED: Final = "Regions are counted when the run starts."
Work = Callable[[], str]


class Estimator(QObject):
    """Estimates a run shortly after the last change, outside the GUI thread."""

    due = Signal()  # nothing has changed for a while: whoever follows calls `estimate`
    ready = Signal(str)  # the estimate, or why there is none

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._waiting = False
        self._pause = debouncer(self, QUIET, self.due.emit)
        self._worker = Worker("latest", "The estimate", self.ready.emit, self.ready, parent=self)

    def later(self, _: object = None) -> None:
        """Estimate again when nothing has changed for a while."""
        self._worker.drop()
        self._waiting = True
        self._pause.throttle()

    def stop(self) -> None:
        """Tell nothing more until the next change."""
        self._worker.drop()
        self._waiting = False
        self._pause.cancel()

    @property
    def busy(self) -> bool:
        """Whether an estimate is waiting or running."""
        return self._waiting or self._worker.busy

    def estimate(self, prepare: Callable[[], Work | None]) -> None:
        """Do the work that is prepared now; None where there is nothing to say."""
        self._waiting = False
        try:
            work = prepare()
        except MaskInversionError as error:
            self.ready.emit(str(error))
            return
        if work is None:
            self.ready.emit("")
        else:
            self._worker.start(work)


def estimation(run_input: RunInput, settings: RunSettings, store: ModelStore) -> Work:
    """Return the work that estimates a run; the store knows the device of a loaded model."""

    def work() -> str:
        if run_input.size > _MOST_PIXELS:
            return _UNCOUNTED
        from ...pipeline.estimate import estimate, patch_of, place_text

        known, spec = _known(settings, store), _spec_of(settings)
        if settings.uses_native_windows:
            known["native"] = spec.native_resolution
        tasks, patch = run_input.tasks(), patch_of(spec.architecture)
        left_out = run_input.left_out(tasks)
        estimated = estimate(tasks, **known, patch=patch, window=settings.window)
        if not estimated.regions:
            return ""
        lines = (estimated.text, left_out, place_text(known["device"]))
        return "\n".join(filter(None, lines))

    return work


def _known(settings: RunSettings, store: ModelStore) -> dict[str, Any]:
    """Return what is known of a run with these settings, as estimates take it."""
    from ...pipeline.estimate import likely_device

    spec, model = _spec_of(settings), settings.model
    resolution = settings.resolution or spec.working_resolution
    if settings.resolution is None and not settings.method.whole_image:
        resolution = spec.native_resolution
    loaded = store.kept.loaded if store.has(model, settings.device) else None
    where = str(getattr(loaded, "device", ""))
    return {
        "model": model,
        "device": where or likely_device(settings.device, model, resolution),
        "resolution": resolution,
        "config": settings.inversion,
        "method": settings.method,
    }


def _spec_of(settings: RunSettings) -> ModelSpec:
    if settings.model in MODELS:
        return MODELS[settings.model]
    from ...engine.models.loading import spec_of  # imports PyTorch

    return spec_of(settings.model, settings.architecture)
