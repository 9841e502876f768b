"""Says what a run would be like, shortly after the last change and beside the main thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from napari.qt.threading import thread_worker
from qtpy.QtCore import QObject, QTimer, Signal

from ...base.errors import MaskInversionError
from ...engine.models.architecture_sizes import patch_of

if TYPE_CHECKING:
    from ...engine.methods.registry import Method
    from ...engine.models.specs import ModelSpec
    from ...engine.settings import InversionConfig
    from ...images.windows import WindowConfig
    from ...results.settings import RunSettings
    from ..layers.tasks import RunInput
    from ..workers.model_store import ModelStore

QUIET: Final = 400  # milliseconds without a change
# Label images of more pixels are not read over and over while somebody chooses.
_MOST_PIXELS: Final = 50_000_000
Work = Callable[[], str]


class Estimator(QObject):
    """Asks for an estimate when things have come to rest; one at a time, the last one counts.

    Parameters
    ----------
    prepare : callable
        On the main thread: gives the work, which runs in a worker and returns a line of text; None
        where there is nothing to say. A refusal becomes the line.

    Signals
    -------
    ready : str
    """

    ready = Signal(str)

    def __init__(self, prepare: Callable[[], Work | None], parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._prepare = prepare
        self._worker: Any = None
        self._again = self._stopped = False
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(QUIET)
        self._timer.timeout.connect(self._begin)

    def later(self) -> None:
        """Something has changed."""
        self._stopped = False
        self._timer.start()

    def stop(self) -> None:
        """Say nothing more until the next change."""
        self._stopped, self._again = True, False
        self._timer.stop()

    @property
    def busy(self) -> bool:
        """Whether an estimate is due or under way."""
        return self._timer.isActive() or self._worker is not None

    def _begin(self) -> None:
        if self._worker is not None:
            self._again = True
            return
        try:
            work = self._prepare()
        except MaskInversionError as error:
            self.ready.emit(str(error))
            return
        if work is None:
            self.ready.emit("")
            return
        # In a list that is emptied: napari keeps every worker as long as its window lives.
        self._worker = thread_worker(_guarded, ignore_errors=True)([work])
        self._worker.returned.connect(self._returned)
        self._worker.finished.connect(self._finished)
        self._worker.start()

    def _returned(self, text: str) -> None:
        if not self._stopped and not self._again and not self._timer.isActive():
            self.ready.emit(text)

    def _finished(self) -> None:
        self._worker = None
        if self._again:
            self._again = False
            self._timer.start()


def estimation(
    given: RunInput,
    spec: ModelSpec,
    config: InversionConfig,
    window: WindowConfig,
    store: ModelStore,
    *,
    device: str = "auto",
    at_once: int = 16,
    method: Method | None = None,
) -> Work:
    """Make the work that estimates a run.

    Parameters
    ----------
    given : RunInput
    spec : ModelSpec
        The model chosen.
    config : InversionConfig
    window : WindowConfig
    store : ModelStore
        Knows the model's device, once it is loaded.
    device : str
        As chosen.
    at_once : int
        Regions inverted together.
    method : Method, optional
        MaskInversion unless given.
    """

    def work() -> str:
        if given.size > _MOST_PIXELS:
            return "Regions are counted when the run starts."
        from ...pipeline.estimate import estimate
        from ...pipeline.preflight import preflight

        loaded, where, resolution = _place(spec, store, device, method)
        patch = patch_of(spec.architecture)
        found = estimate(
            given.tasks(),
            model=spec.name,
            device=where,
            resolution=resolution,
            patch=patch,
            config=config,
            window=window,
            method=method,
        )
        if not found.regions:
            return ""
        check = preflight(
            device=where,
            architecture=spec.architecture,
            resolution=resolution,
            patch=patch,
            at_once=min(at_once, found.regions),
            layers=config.layers,
            weights=0 if loaded else spec.size_mb * 1_000_000,
        )
        return f"{found.text}\n{check.text}"

    return work


def comparison(settings: Sequence[RunSettings], store: ModelStore, device: str) -> Work:
    """Make the work that estimates one region answered by each of some settings."""

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
    """Whether a model is loaded, where it works, and at which resolution."""
    from ...pipeline.preflight import likely_device

    loaded = store.has(spec.name, device)
    resolution = spec.working_resolution
    if method is not None and not method.whole_image:
        resolution = spec.native_resolution
    where = store.device(spec.name) if loaded else ""
    return loaded, where or likely_device(device, spec.name, resolution), resolution


def _guarded(works: list[Work]) -> str:
    """Take the work and run it; whatever else goes wrong is for the run itself to tell."""
    try:
        return works.pop()()
    except MaskInversionError as error:
        return str(error)
    except Exception:
        return ""
