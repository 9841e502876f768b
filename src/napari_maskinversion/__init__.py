"""Localized CLIP embeddings, labels and heatmaps of image regions, in napari and without it.

Importing this package loads neither torch nor napari: public names are looked up when first used.
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .engine.invert.inverter import MaskInverter
    from .engine.methods.factory import region_embedder
    from .engine.methods.registry import list_methods
    from .engine.models.loading import load_model, wrap_open_clip
    from .engine.models.registry import list_models
    from .engine.settings import InversionConfig

try:
    __version__ = version("napari-maskinversion")
except PackageNotFoundError:  # pragma: no cover - a source tree that is not installed
    __version__ = "0.0.0"

_PUBLIC = {
    "InversionConfig": "engine.settings",
    "MaskInverter": "engine.invert.inverter",
    "list_methods": "engine.methods.registry",
    "list_models": "engine.models.registry",
    "load_model": "engine.models.loading",
    "region_embedder": "engine.methods.factory",
    "wrap_open_clip": "engine.models.loading",
}

__all__ = [
    "InversionConfig",
    "MaskInverter",
    "list_methods",
    "list_models",
    "load_model",
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
