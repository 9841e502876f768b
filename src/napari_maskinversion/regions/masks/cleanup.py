"""Masks made smaller, larger or whole: for rough ones, and to see how much quality matters."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ...base.errors import ConfigError
from ...base.regions import Region

BoolArray = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanUp:
    """What is done to a mask, in this order.

    Parameters
    ----------
    erode, dilate : float
        Pixels taken away all around, then pixels added; both: thin bridges and specks go.
    fill_holes : bool
    keep_largest : bool
        Of several pieces.

    Raises
    ------
    ConfigError
        If a distance is negative or no number.
    """

    erode: float = 0
    dilate: float = 0
    fill_holes: bool = False
    keep_largest: bool = False

    def __post_init__(self) -> None:
        for name in ("erode", "dilate"):
            value = getattr(self, name)
            if not 0 <= value < float("inf"):
                raise ConfigError(f"{name} takes a number of pixels, 0 or more; got {value:g}.")

    @property
    def nothing(self) -> bool:
        """Whether masks stay as they are."""
        return self == CleanUp()


def clean_region(region: Region, shape: tuple[int, int], how: CleanUp) -> Region | None:
    """Clean a region's mask; None if nothing of it is left.

    What lies beyond the plane's edge counts as part of a region that reaches it, so that eroding
    takes nothing away there.

    Parameters
    ----------
    region : Region
    shape : tuple of int
        Pixels (H, W) of its plane.
    how : CleanUp
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
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    if not len(rows):
        return None
    top, left, bottom, right = rows[0], columns[0], rows[-1] + 1, columns[-1] + 1
    y, x = corner
    box = (y + int(top), x + int(left), y + int(bottom), x + int(right))
    return Region(region.id, box, mask[top:bottom, left:right].copy(), region.members)


def _padded(region: Region, shape: tuple[int, int], room: int) -> tuple[BoolArray, tuple[int, int]]:
    """Give a mask with some of the plane around it, as far as there is any."""
    y0, x0, y1, x1 = region.bbox
    before = (min(room, y0), min(room, x0))
    after = (min(room, shape[0] - y1), min(room, shape[1] - x1))
    mask = np.pad(region.mask > 0.5, tuple(zip(before, after, strict=True)))
    return mask, (y0 - before[0], x0 - before[1])


def _beyond(mask: BoolArray, distance: float) -> BoolArray:
    """Pixels of a mask that are further than this from every pixel outside it."""
    from scipy import ndimage

    if mask.all():  # nothing is outside
        return mask
    return np.asarray(ndimage.distance_transform_edt(mask) > distance)
