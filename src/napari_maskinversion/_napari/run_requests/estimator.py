"""Estimates time and memory of a run, outside the GUI thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from qtpy.QtCore import QObject, Signal

from ...base.errors import MaskInversionError
from ...engine.models.specs import MODELS, ModelSpec
from ...pipeline.architecture_sizes import patch_of
from ..widgets.sections import debouncer
from ..workers.worker import Worker

if TYPE_CHECKING:
    from ...pipeline.preflight import Preflight
    from ...results.settings import RunSettings
    from ..layers.tasks import RunInput
    from ..workers.model_store import ModelStore

QUIET: Final = 400  # milliseconds without a change
# Larger label images are not read again for every change.
_MOST_PIXELS: Final = 50_000_000
Work = Callable[[], str]


class Estimator(QObject):
    """Estimates a run shortly after the last change, outside the GUI thread.

    ``prepare`` returns the work, or None where there is nothing to say.
    """

    ready = Signal(str)  # the estimate, or why there is none

    def __init__(self, prepare: Callable[[], Work | None], parent: QObject) -> None:
        super().__init__(parent)
        self._prepare, self._waiting = prepare, False
        self._pause = debouncer(self, QUIET, self._begin)
        self._worker = Worker("latest", "The estimate", parent=self)
        self._worker.done.connect(self.ready.emit)
        self._worker.failed.connect(self.ready)

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

    def _begin(self) -> None:
        self._waiting = False
        try:
            work = self._prepare()
        except MaskInversionError as error:
            self.ready.emit(str(error))
            return
        if work is None:
            self.ready.emit("")
        else:
            self._worker.start(partial(_expected, work))


def estimation(run_input: RunInput, settings: RunSettings, store: ModelStore) -> Work:
    """Return the work that estimates a run; the store knows the device of a loaded model."""

    def work() -> str:
        if run_input.size > _MOST_PIXELS:
            return "Regions are counted when the run starts."
        from ...pipeline.estimate import estimate

        place = _Place(settings, store)
        tasks, window = run_input.tasks(), settings.window
        left_out = run_input.left_out(tasks)
        estimated = estimate(tasks, **place.known, patch=place.patch, window=window)
        if not estimated.regions:
            return ""
        at_once = settings.at_once(place.known["device"])
        check = place.check(min(at_once, estimated.regions), estimated.regions)
        return "\n".join(filter(None, (estimated.text, left_out, check.brief)))

    return work


def comparison(settings: Sequence[RunSettings], store: ModelStore) -> Work:
    """Return the work that estimates one region with each of several settings."""

    def work() -> str:
        from ...pipeline.estimate import in_words, seconds_of

        places = [_Place(one, store) for one in settings]
        times = [seconds_of(1, 1, **place.known) for place in places]
        known = [seconds for seconds in times if seconds is not None]
        line = "1 region, twice"
        if len(known) == len(times):
            line += f", {in_words(sum(known))}"
        check = max((place.check(1, 1) for place in places), key=lambda check: check.needed)
        return f"{line}\n{check.brief}"

    return work


class _Place:
    """Where a run with these settings takes place, as estimates take it."""

    def __init__(self, settings: RunSettings, store: ModelStore) -> None:
        from ...pipeline.preflight import likely_device

        self._spec, self._layers = _spec_of(settings), settings.inversion.layers
        self._loaded = store.has(settings.model, settings.device)
        self.patch = patch_of(self._spec.architecture)
        resolution = settings.resolution or self._spec.working_resolution
        if settings.resolution is None and not settings.method.whole_image:
            resolution = self._spec.native_resolution
        where = store.device(settings.model) if self._loaded else ""
        self.known: dict[str, Any] = {
            "model": settings.model,
            "device": where or likely_device(settings.device, settings.model, resolution),
            "resolution": resolution,
            "config": settings.inversion,
            "method": settings.method,
        }

    def check(self, at_once: int, regions: int) -> Preflight:
        """Compare the memory that is needed with what is free."""
        from ...pipeline.preflight import preflight

        return preflight(
            device=self.known["device"],
            architecture=self._spec.architecture,
            resolution=self.known["resolution"],
            patch=self.patch,
            at_once=at_once,
            layers=self._layers,
            weights=0 if self._loaded else self._spec.size_mb * 1_000_000,
            regions=regions,
            steps=self.known["config"].steps,
        )


def _spec_of(settings: RunSettings) -> ModelSpec:
    if settings.model in MODELS:
        return MODELS[settings.model]
    from ...engine.models.loading import spec_of  # imports PyTorch

    return spec_of(settings.model, settings.architecture)


def _expected(work: Work) -> str:
    """Run the work; unexpected errors are left to the run itself, which reports them."""
    try:
        return work()
    except MaskInversionError:
        raise
    except Exception:
        return ""
