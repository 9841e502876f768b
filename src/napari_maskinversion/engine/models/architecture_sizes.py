"""What the name of an architecture says of its image tower. Reads no model and imports nothing."""

from __future__ import annotations

import re
from typing import Final

# Width and heads by the size in a name. Sizes are told apart by case: g is not G.
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
_PLUS: Final = (896, 14)  # ViT-B-16-plus; elsewhere plus is said of the text tower
# Named for their text towers.
_OTHERS: Final = {
    "nllb-clip-base": "ViT-B-32",
    "nllb-clip-base-siglip": "ViT-B-16",
    "nllb-clip-large": "ViT-H-14",
    "nllb-clip-large-siglip": "ViT-SO400M-14",
    "coca_base": "ViT-B-18",
}
_DEMO_PATCH: Final = 8
_PATCH: Final = 16  # of those whose name does not say it: ViTamin, MobileCLIP


def patch_of(architecture: str) -> int:
    """Side of a model's patches in pixels: 14 of ``"ViT-L-14-336"``."""
    if architecture == "demo":
        return _DEMO_PATCH
    name = _OTHERS.get(architecture, architecture)
    found = re.search(r"(?:-|patch)(\d{1,2})(?!\d)", name)
    return int(found[1]) if found else _PATCH


def tower_size(architecture: str) -> tuple[int, int]:
    """Width and heads of a model's image tower; of a large one where the name does not say it."""
    parts = re.split("[-_]", _OTHERS.get(architecture, architecture))
    sizes = [part for part in parts if part in _SIZES]
    sizes += [_WORDS[part] for part in parts if part in _WORDS]
    size = next(iter(sizes), "L")
    return _PLUS if size == "B" and "plus" in parts else _SIZES[size]
