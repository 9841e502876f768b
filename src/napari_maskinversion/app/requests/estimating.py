"""How long a run will take, as work for a worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from ...engine.models.specs import MODELS, ModelSpec

if TYPE_CHECKING:
    from ...results.settings import RunSettings
    from ..layer_input.run_input import RunInput
    from ..work.model_store import ModelStore

# Larger label images are not read again for every change.
_MOST_PIXELS: Final = 50_000_000
_UNCOUNTED: Final = "Regions are counted when the run starts."
Work = Callable[[], str]


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
