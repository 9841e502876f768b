"""Localized CLIP embeddings, labels and heatmaps of image regions, in napari and without it.

Importing this package loads neither torch nor napari: public names are looked up when first used.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from .base import errors

if TYPE_CHECKING:
    from .base.regions import Regions
    from .diffusion.generated_pictures import Imagined
    from .engine.invert.inverter import MaskInverter
    from .engine.invert.loop import InversionResult
    from .engine.methods.factory import region_embedder
    from .engine.methods.registry import list_methods
    from .engine.models.loading import load_model, wrap_open_clip
    from .engine.models.registry import list_models
    from .engine.settings import InversionConfig
    from .images.opening import read_image
    from .learning.classifier import Classifier
    from .library.library import Library
    from .pipeline.finding import Found, find_regions
    from .pipeline.imagining import imagine
    from .pipeline.labelling import label_regions
    from .regions.region_reading import read_regions
    from .results.export.catalogue import export
    from .results.results import Results

try:
    __version__ = version("napari-maskinversion")
except PackageNotFoundError:  # pragma: no cover - a source tree that is not installed
    __version__ = "0.0.0"

_PUBLIC = {
    "Classifier": "learning.classifier",
    "Found": "pipeline.finding",
    "InversionConfig": "engine.settings",
    "InversionResult": "engine.invert.loop",
    "Library": "library.library",
    "MaskInverter": "engine.invert.inverter",
    "Regions": "base.regions",
    "Results": "results.results",
    "Imagined": "diffusion.generated_pictures",
    "export": "results.export.catalogue",
    "find_regions": "pipeline.finding",
    "imagine": "pipeline.imagining",
    "label_regions": "pipeline.labelling",
    "list_methods": "engine.methods.registry",
    "list_models": "engine.models.registry",
    "load_model": "engine.models.loading",
    "read_image": "images.opening",
    "read_regions": "regions.region_reading",
    "region_embedder": "engine.methods.factory",
    "wrap_open_clip": "engine.models.loading",
}

__all__ = [
    "Classifier",
    "Found",
    "Imagined",
    "InversionConfig",
    "InversionResult",
    "Library",
    "MaskInverter",
    "Regions",
    "Results",
    "errors",
    "export",
    "find_regions",
    "imagine",
    "label_regions",
    "list_methods",
    "list_models",
    "load_model",
    "read_image",
    "read_regions",
    "region_embedder",
    "wrap_open_clip",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_PUBLIC[name]}", __name__), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
