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

        spec = _spec_of(settings)
        options = _options(settings, store)
        if settings.uses_native_windows:
            options["native"] = spec.native_resolution
        tasks = run_input.tasks()
        left_out = run_input.left_out(tasks)
        patch = patch_of(spec.architecture)
        estimated = estimate(tasks, **options, patch=patch, window=settings.window)
        if not estimated.regions:
            return ""
        lines = (estimated.text, left_out, place_text(options["device"]))
        return "\n".join(filter(None, lines))

    return work


def _options(settings: RunSettings, store: ModelStore) -> dict[str, Any]:
    """Return options of `estimate` for a run with these settings."""
    from ...pipeline.estimate import likely_device

    spec, model = _spec_of(settings), settings.model
    resolution = settings.resolution or spec.working_resolution
    if settings.resolution is None and not settings.method.whole_image:
        resolution = spec.native_resolution
    loaded = store.kept.loaded if store.has(model, settings.device) else None
    device_in_use = str(getattr(loaded, "device", ""))
    return {
        "model": model,
        "device": device_in_use or likely_device(settings.device, model, resolution),
        "resolution": resolution,
        "config": settings.inversion,
        "method": settings.method,
    }


def _spec_of(settings: RunSettings) -> ModelSpec:
    if settings.model in MODELS:
        return MODELS[settings.model]
    from ...engine.models.loading import spec_of  # imports PyTorch

    return spec_of(settings.model, settings.architecture)
