"""A plane of any size as SAM sees it. No torch."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from PIL import Image

from ...images.plane_source import PlaneSource, read_reduced

# Before the last, smooth reduction a plane is averaged down to no less than this times what SAM
# sees: planes below that are reduced as segment-anything itself does it.
_FINEST: Final = 4


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Sight:
    """A plane reduced (or enlarged) so that its longer side is the model's.

    Parameters
    ----------
    pixels : ndarray, shape (h, w, 3), uint8
    plane : tuple of int
        Pixels (H, W) of the plane.
    key : str
        Tells what is seen from everything else.
    """

    pixels: npt.NDArray[np.uint8]
    plane: tuple[int, int]
    key: str

    @property
    def size(self) -> tuple[int, int]:
        """Pixels (h, w) seen."""
        return int(self.pixels.shape[0]), int(self.pixels.shape[1])

    @property
    def scale(self) -> tuple[float, float]:
        """What a plane pixel is in what is seen, down and across."""
        return self.size[0] / self.plane[0], self.size[1] / self.plane[1]


def see(source: PlaneSource, side: int) -> Sight:
    """Look at a plane; only a plane that fits is ever held as a whole.

    Parameters
    ----------
    source : PlaneSource
    side : int
        Pixels along the longer side of what is seen.

    Raises
    ------
    InputError
        If there is nothing to see.
    """
    source.check()
    height, width = source.shape
    scale = side / max(height, width)
    # Rounded as segment-anything does.
    size = (max(1, int(height * scale + 0.5)), max(1, int(width * scale + 0.5)))
    fit = [i for i, level in enumerate(source.levels) if max(level.shape) >= side]
    level = max(fit, default=0)
    rows, columns = source.levels[level].shape
    reduce = max(1, max(rows, columns) // (_FINEST * side))
    whole = (0, 0, -(-rows // reduce) * reduce, -(-columns // reduce) * reduce)
    picture = Image.fromarray(_as_rgb(read_reduced(source, level, whole, reduce)))
    pixels = np.asarray(picture.resize((size[1], size[0]), Image.Resampling.BILINEAR))
    key = hashlib.blake2b(pixels.tobytes(), digest_size=16)
    key.update(repr((size, source.shape)).encode())
    return Sight(pixels=pixels, plane=(height, width), key=key.hexdigest())


def _as_rgb(values: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    """Give what a source reads as bytes of red, green and blue."""
    kind = values.dtype.kind
    if kind == "b":
        values = values.astype(np.uint8) * np.uint8(255)
    elif kind == "f":
        values = np.round(np.clip(values, 0, 1) * 255).astype(np.uint8)
    elif values.dtype != np.uint8:
        values = np.round(values * (255 / np.iinfo(values.dtype).max)).astype(np.uint8)
    if values.ndim == 2:
        values = values[:, :, None]
    elif values.shape[2] == 4:  # laid over black
        values = np.round(values[:, :, :3] * (values[:, :, 3:] / 255)).astype(np.uint8)
    return np.ascontiguousarray(np.broadcast_to(values[:, :, :3], (*values.shape[:2], 3)))
