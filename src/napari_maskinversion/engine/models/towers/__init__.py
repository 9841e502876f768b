"""Image towers, one file per family.

Nothing here imports open_clip or timm: towers are told apart by their parts.
"""

from __future__ import annotations

from typing import Any

from .base import ImageTower, check_config

__all__ = ["ImageTower", "check_config", "tower_of"]


def tower_of(visual: Any) -> ImageTower:
    """Give an image tower of open_clip as the engine sees it; nothing of it is changed."""
    if hasattr(visual, "trunk"):
        if getattr(visual.trunk, "attn_pool", None) is not None:
            from .pooled import PooledTower

            return PooledTower(visual)
        from .tokens import TokenTower

        return TokenTower(visual)
    if getattr(visual, "attn_pool", None) is not None:
        from .coca import CocaTower

        return CocaTower(visual)
    from .class_token import ClassTokenTower

    return ClassTokenTower(visual)
