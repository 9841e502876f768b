"""A whole plane, reduced to what a model or a reader needs of it."""

from __future__ import annotations

from typing import Any, Final

import numpy.typing as npt

from .plane_source import PlaneSource, read_reduced

MOST: Final = 1024  # pixels of a picture's longer side, about


def overview(source: PlaneSource) -> npt.NDArray[Any]:
    """Read a whole plane, reduced until its longer side is about `MOST` pixels or a little more."""
    fits = [i for i, level in enumerate(source.levels) if max(level.shape) >= MOST]
    level = fits[-1] if fits else 0
    height, width = source.levels[level].shape
    reduce = max(1, max(height, width) // MOST)
    box = (0, 0, -(-height // reduce) * reduce, -(-width // reduce) * reduce)
    return read_reduced(source, level, box, reduce)
