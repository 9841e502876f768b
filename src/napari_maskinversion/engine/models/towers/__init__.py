"""Image towers by family.

Nothing here imports open_clip or timm: families recognise a module by its parts.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from .base import ImageTower
from .openclip_vit import ClassTokenTower, CocaTower
from .timm_vit import PooledTower, TokenTower

__all__ = ["FAMILIES", "ImageTower", "tower_of", "unsupported_config", "unsupported_tower"]

# The first one that fits a module explains it.
FAMILIES: tuple[type[ImageTower], ...] = (ClassTokenTower, CocaTower, PooledTower, TokenTower)
# By the beginning of timm's name.
_UNSUPPORTED: Final = {
    "vit_relpos": "positions are biases of its attention",
    "swin": "its attention sees windows, not the whole image",
    "convnext": "it is a convolutional network, without attention",
    "fastvit": "it is a convolutional network with a little attention at the end",
}


def tower_of(visual: Any) -> ImageTower:
    """Return an image tower of open_clip as the engine sees it; the module is not changed."""
    return next(family for family in FAMILIES if family.fits(visual))(visual)


def unsupported_tower(visual: Any) -> str:
    """Return why a built image tower cannot be explained: "has ..."; "" if it can."""
    for family in FAMILIES:
        if family.fits(visual):
            return family.unsupported(visual)
    return f"is a {type(visual).__name__}; a vision transformer is needed (such as ViT-B-16)"


def unsupported_config(config: Mapping[str, Any]) -> str:
    """Return why the image tower of an architecture cannot be explained; "" if it can.

    Answers before anything is downloaded; `unsupported_tower` checks what has been built.
    """
    vision = config.get("vision_cfg", {})
    for family in FAMILIES:
        if family.fits_config(vision):
            return family.unsupported_config(vision)
    name = str(vision.get("timm_model_name") or "")
    if not name:
        return "its image tower is a ResNet; a vision transformer is needed"
    reasons = (f": {why}" for start, why in _UNSUPPORTED.items() if name.startswith(start))
    return f"its image tower is timm's {name}{next(reasons, ', which is not known here')}"
