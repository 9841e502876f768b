"""Erode, dilate and fill masks: to clean rough ones, and to study the effect of mask quality."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from ..base.regions import Region
from ..base.validation import Config, setting

BoolArray = npt.NDArray[np.bool_]


class CleanUp(Config):
    """Operations on a mask, in this order."""

    # Both together remove thin bridges and specks.
    erode: float = setting(0.0, "Erode", "Pixels to take off all around.", ge=0)
    dilate: float = setting(0.0, "Dilate", "Pixels to add all around afterwards.", ge=0)
    fill_holes: bool = setting(False, "Fill holes", "Fill holes.")
    keep_largest: bool = setting(
        False, "Largest piece", "Keep the largest piece only.", cli="largest"
    )

    @property
    def nothing(self) -> bool:
        """Whether masks stay unchanged."""
        return self == CleanUp()


def clean_region(region: Region, shape: tuple[int, int], how: CleanUp) -> Region | None:
    """Clean a region's mask; None if nothing is left.

    A region that touches the edge of the plane is treated as if it continued there, so erosion
    removes nothing at that edge.
    """
    from scipy import ndimage

    if how.nothing:
        return region
    mask, corner = _padded(region, shape, int(np.ceil(how.dilate)) + 1)
    if how.erode:
        mask = _beyond(mask, how.erode)
    if how.dilate and mask.any():
        mask = ~_beyond(~mask, how.dilate)
    if how.fill_holes:
        mask = ndimage.binary_fill_holes(mask)
    if how.keep_largest:
        pieces, count = ndimage.label(mask, np.ones((3, 3)))
        if count > 1:
            mask = pieces == np.bincount(pieces.ravel())[1:].argmax() + 1
    cleaned = Region.from_mask(region.id, mask, corner)
    if cleaned is None:
        return None
    return replace(cleaned, members=region.members)


def _padded(region: Region, shape: tuple[int, int], room: int) -> tuple[BoolArray, tuple[int, int]]:
    """Pad a mask with up to `room` pixels of the plane; also return the corner."""
    y0, x0, y1, x1 = region.bbox
    before = (min(room, y0), min(room, x0))
    after = (min(room, shape[0] - y1), min(room, shape[1] - x1))
    mask = np.pad(region.mask > 0.5, tuple(zip(before, after, strict=True)))
    return mask, (y0 - before[0], x0 - before[1])


def _beyond(mask: BoolArray, distance: float) -> BoolArray:
    """Keep the pixels of a mask that are farther than `distance` from every pixel outside it."""
    from scipy import ndimage

    if mask.all():  # nothing is outside
        return mask
    return np.asarray(ndimage.distance_transform_edt(mask) > distance)
