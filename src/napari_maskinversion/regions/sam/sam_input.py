"""A plane of any size as the input of SAM. Imports no torch."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from PIL import Image

from ...images.plane_source import PlaneSource, read_reduced

# Larger planes are first averaged down to at least this many times the input size; smaller ones are
# only resized, as in segment-anything.
_FINEST: Final = 4


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class SamInput:
    """A plane resized so that its longer side is that of the model's input.

    Shapes: pixels (h, w, 3), uint8.
    """

    pixels: npt.NDArray[np.uint8]
    plane: tuple[int, int]  # Pixels (H, W) of the plane
    key: str  # Hash of the pixels and sizes

    @property
    def size(self) -> tuple[int, int]:
        """Pixels (h, w) of the input."""
        return int(self.pixels.shape[0]), int(self.pixels.shape[1])

    @property
    def scale(self) -> tuple[float, float]:
        """Input pixels per plane pixel along y and x."""
        return self.size[0] / self.plane[0], self.size[1] / self.plane[1]


def resize_for_sam(source: PlaneSource, side: int) -> SamInput:
    """Read and resize a plane; a large one is never in memory as a whole."""
    source.check()
    height, width = source.shape
    scale = side / max(height, width)
    # Rounded as in segment-anything.
    size = (max(1, int(height * scale + 0.5)), max(1, int(width * scale + 0.5)))
    fitting = [i for i, level in enumerate(source.levels) if max(level.shape) >= side]
    level = max(fitting, default=0)
    rows, columns = source.levels[level].shape
    reduce = max(1, max(rows, columns) // (_FINEST * side))
    whole = (0, 0, -(-rows // reduce) * reduce, -(-columns // reduce) * reduce)
    picture = Image.fromarray(_as_rgb(read_reduced(source, level, whole, reduce)))
    pixels = np.asarray(picture.resize((size[1], size[0]), Image.Resampling.BILINEAR))
    key = hashlib.blake2b(pixels.tobytes(), digest_size=16)
    key.update(repr((size, source.shape)).encode())
    return SamInput(pixels=pixels, plane=(height, width), key=key.hexdigest())


def _as_rgb(values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Convert values of a source to RGB of eight bits."""
    kind = values.dtype.kind
    if kind == "b":
        values = values.astype(np.uint8) * np.uint8(255)
    elif kind == "f":
        values = np.round(np.clip(values, 0, 1) * 255).astype(np.uint8)
    elif values.dtype != np.uint8:
        values = np.round(values * (255 / np.iinfo(values.dtype).max)).astype(np.uint8)
    if values.ndim == 2:
        values = values[:, :, None]
    elif values.shape[2] == 4:  # composited over black
        values = np.round(values[:, :, :3] * (values[:, :, 3:] / 255)).astype(np.uint8)
    return np.ascontiguousarray(np.broadcast_to(values[:, :, :3], (*values.shape[:2], 3)))
