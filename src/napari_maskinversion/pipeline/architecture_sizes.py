"""Sizes of an image tower, read off the name of its architecture; for estimates before loading."""

from __future__ import annotations

import re
from typing import Final

# Width and heads by the size in a name. Case matters: g is not G.
_SIZES: Final = {
    "demo": (128, 4),
    "T": (192, 3),
    "S": (384, 6),
    "M": (512, 8),
    "B": (768, 12),
    "L": (1024, 16),
    "L2": (1024, 16),
    "XL": (1152, 16),
    "SO400M": (1152, 16),
    "H": (1280, 16),
    "g": (1408, 16),
    "gopt": (1536, 16),
    "bigG": (1664, 16),
    "e": (1792, 16),
    "E": (1792, 16),
}
_WORDS: Final = {"tiny": "T", "small": "S", "medium": "M", "base": "B", "large": "L"}
_PLUS: Final = (896, 14)  # ViT-B-16-plus; elsewhere "plus" describes the text tower
# Named after their text towers.
_ALIASES: Final = {
    "nllb-clip-base": "ViT-B-32",
    "nllb-clip-base-siglip": "ViT-B-16",
    "nllb-clip-large": "ViT-H-14",
    "nllb-clip-large-siglip": "ViT-SO400M-14",
    "coca_base": "ViT-B-18",
}
_DEMO_PATCH: Final = 8
_PATCH: Final = 16  # if the name does not contain it: ViTamin, MobileCLIP


def patch_of(architecture: str) -> int:
    """Return the side of a model's patches in pixels: 14 for ``"ViT-L-14-336"``."""
    if architecture == "demo":
        return _DEMO_PATCH
    name = _ALIASES.get(architecture, architecture)
    match = re.search(r"(?:-|patch)(\d{1,2})(?!\d)", name)
    return int(match[1]) if match else _PATCH


def tower_size(architecture: str) -> tuple[int, int]:
    """Return width and heads of a model's image tower; of size L if the name does not tell."""
    parts = re.split("[-_]", _ALIASES.get(architecture, architecture))
    sizes = [part for part in parts if part in _SIZES]
    sizes += [_WORDS[part] for part in parts if part in _WORDS]
    size = next(iter(sizes), "L")
    return _PLUS if size == "B" and "plus" in parts else _SIZES[size]
