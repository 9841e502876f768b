"""Estimates time and memory of a run, outside the GUI thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from qtpy.QtCore import QObject, Signal

from ...base.errors import MaskInversionError
from ...engine.models.architecture_sizes import patch_of
from ..widgets.sections import pause
from ..workers.worker import Worker

if TYPE_CHECKING:
    from ...engine.methods.registry import Method
    from ...engine.models.specs import ModelSpec
    from ...engine.settings import InversionConfig
    from ...images.windows import WindowConfig
    from ...results.settings import RunSettings
    from ..layers.tasks import RunInput
    from ..workers.model_store import ModelStore

QUIET: Final = 400  # milliseconds without a change
# Larger label images are not read again for every change.
_MOST_PIXELS: Final = 50_000_000
Work = Callable[[], str]


class Estimator(QObject):
    """Estimates a run shortly after the last change, outside the GUI thread.

    Parameters
    ----------
    prepare : callable
        Called on the GUI thread. Returns the work, which runs in a worker and returns a line of
        text, or None if there is nothing to estimate.

    Signals
    -------
    ready : str
        The estimate, or why there is none.
    """

    ready = Signal(str)

    def __init__(self, prepare: Callable[[], Work | None], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._prepare = prepare
        self._pause = pause(self, QUIET, self._begin)
        self._worker = Worker("latest", "The estimate", parent=self)
        self._worker.done.connect(self.ready.emit)
        self._worker.failed.connect(self.ready)

    def later(self) -> None:
        """Estimate again when nothing has changed for a while."""
        self._worker.drop()
        self._pause.start()

    def stop(self) -> None:
        """Tell nothing more until the next change."""
        self._worker.drop()
        self._pause.stop()

    @property
    def busy(self) -> bool:
        """Whether an estimate is to come."""
        return self._pause.isActive() or self._worker.busy

    def _begin(self) -> None:
        try:
            work = self._prepare()
        except MaskInversionError as error:
            self.ready.emit(str(error))
            return
        if work is None:
            self.ready.emit("")
        else:
            self._worker.start(partial(_expected, work))


def estimation(
    run_input: RunInput,
    spec: ModelSpec,
    config: InversionConfig,
    window: WindowConfig,
    store: ModelStore,
    *,
    device: str = "auto",
    at_once: int | None = None,
    method: Method | None = None,
) -> Work:
    """Return the work that estimates a run.

    Parameters
    ----------
    run_input : RunInput
    spec : ModelSpec
        The chosen model.
    config : InversionConfig
    window : WindowConfig
    store : ModelStore
        Knows the device of a loaded model.
    device : str
        As chosen in the panel.
    at_once : int, optional
        Regions inverted together; the pipeline's default if None.
    method : Method, optional
        MaskInversion unless run_input.
    """

    def work() -> str:
        if run_input.size > _MOST_PIXELS:
            return "Regions are counted when the run starts."
        from ...pipeline.estimate import estimate
        from ...pipeline.preflight import preflight
        from ...pipeline.run import CHUNK

        loaded, where, resolution = _place(spec, store, device, method)
        patch = patch_of(spec.architecture)
        estimated = estimate(
            run_input.tasks(),
            model=spec.name,
            device=where,
            resolution=resolution,
            patch=patch,
            config=config,
            window=window,
            method=method,
        )
        if not estimated.regions:
            return ""
        check = preflight(
            device=where,
            architecture=spec.architecture,
            resolution=resolution,
            patch=patch,
            at_once=min(at_once or CHUNK, estimated.regions),
            layers=config.layers,
            weights=0 if loaded else spec.size_mb * 1_000_000,
        )
        return f"{estimated.text}\n{check.text}"

    return work


def comparison(settings: Sequence[RunSettings], store: ModelStore, device: str) -> Work:
    """Return the work that estimates one region with each of several settings."""

    def work() -> str:
        from ...engine.models.registry import get_spec
        from ...pipeline.estimate import in_words, seconds_of
        from ...pipeline.preflight import preflight

        times, checks = [], []
        for setting in settings:
            spec, method = get_spec(setting.model), setting.method
            loaded, where, resolution = _place(spec, store, device, method)
            times.append(
                seconds_of(
                    1,
                    1,
                    model=spec.name,
                    device=where,
                    resolution=resolution,
                    config=setting.inversion,
                    method=method,
                )
            )
            checks.append(
                preflight(
                    device=where,
                    architecture=spec.architecture,
                    resolution=resolution,
                    patch=patch_of(spec.architecture),
                    at_once=1,
                    layers=setting.inversion.layers,
                    weights=0 if loaded else spec.size_mb * 1_000_000,
                )
            )
        known = [seconds for seconds in times if seconds is not None]
        line = "1 region, twice"
        if len(known) == len(times):
            line += f", {in_words(sum(known))}"
        return f"{line}\n{max(checks, key=lambda check: check.needed).text}"

    return work


def _place(
    spec: ModelSpec, store: ModelStore, device: str, method: Method | None
) -> tuple[bool, str, int]:
    """Return whether a model is loaded, its device and its resolution."""
    from ...pipeline.preflight import likely_device

    loaded = store.has(spec.name, device)
    resolution = spec.working_resolution
    if method is not None and not method.whole_image:
        resolution = spec.native_resolution
    where = store.device(spec.name) if loaded else ""
    return loaded, where or likely_device(device, spec.name, resolution), resolution


def _expected(work: Work) -> str:
    """Run the work; unexpected errors are left to the run itself, which reports them."""
    try:
        return work()
    except MaskInversionError:
        raise
    except Exception:
        return ""
