"""Regions of one image plane, each kept as a bounding box and a crop of its mask."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from .errors import EmptyMaskError, InputError, MaskShapeError

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Region:
    """One region.

    Parameters
    ----------
    id : int
        What the user calls it: the label value, or the row of the shape.
    bbox : tuple of int
        ``(y0, x0, y1, x1)`` in pixels of the plane, end exclusive, inside the plane.
    mask : ndarray, shape (y1 - y0, x1 - x0)
        bool, or float32 coverage in 0..1.
    """

    id: int
    bbox: tuple[int, int, int, int]
    mask: npt.NDArray[Any]

    @property
    def area(self) -> float:
        """Covered pixels of the plane."""
        return float(self.mask.sum())


class Regions(Sequence[Region]):
    """Regions of a plane of ``shape`` pixels; ten thousand of them stay small.

    Parameters
    ----------
    shape : tuple of int
        ``(H, W)`` of the plane in pixels.
    regions : iterable of Region

    Raises
    ------
    EmptyMaskError
        If a region covers no pixel; the message names its id.
    MaskShapeError
        If a box does not lie in the plane or does not fit its mask.
    """

    def __init__(self, shape: tuple[int, int], regions: Sequence[Region]) -> None:
        self.shape = (int(shape[0]), int(shape[1]))
        self._regions = tuple(regions)
        for region in self._regions:
            y0, x0, y1, x1 = region.bbox
            inside = 0 <= y0 <= y1 <= self.shape[0] and 0 <= x0 <= x1 <= self.shape[1]
            if not inside or region.mask.shape != (y1 - y0, x1 - x0):
                raise MaskShapeError(
                    f"Region {region.id} has box {region.bbox} and a mask of "
                    f"{region.mask.shape} px on a plane of {self.shape} px; "
                    "the box must lie in the plane and be as large as the mask."
                )
            if not np.any(region.mask):
                raise EmptyMaskError(
                    f"Region {region.id} covers no pixel of the image; "
                    "draw it on the image or leave it out."
                )

    @overload
    def __getitem__(self, index: int) -> Region: ...
    @overload
    def __getitem__(self, index: slice) -> Regions: ...
    def __getitem__(self, index: int | slice) -> Region | Regions:
        """Give one region, or a slice as ``Regions`` of the same plane."""
        if isinstance(index, slice):
            return Regions(self.shape, self._regions[index])
        return self._regions[index]

    def __len__(self) -> int:
        return len(self._regions)

    def __iter__(self) -> Iterator[Region]:
        return iter(self._regions)

    @property
    def ids(self) -> list[int]:
        """The regions' ids, in order."""
        return [region.id for region in self._regions]

    @classmethod
    def from_labels(cls, labels: npt.NDArray[Any]) -> Regions:
        """Take each value above or below 0 of an integer image (H, W) as one region, by value.

        Raises
        ------
        InputError
            If the image is not 2-D or not of whole numbers.
        """
        array = np.asarray(labels)
        if array.ndim != 2 or array.dtype.kind not in "iub":
            raise InputError(
                f"A label image must be a 2-D array of whole numbers; got shape {array.shape} "
                f"and type {array.dtype}."
            )
        if array.dtype.kind == "b":
            array = array.astype(np.uint8)
        # Consecutive numbers first: label values may be huge, negative or sparse.
        values, index = np.unique(array, return_inverse=True)
        from skimage.measure import regionprops

        compact = index.reshape(array.shape).astype(np.int32) + 1
        found = []
        for props in regionprops(compact):
            value = int(values[props.label - 1])
            if value != 0:
                y0, x0, y1, x1 = props.bbox
                found.append(Region(value, (y0, x0, y1, x1), np.asarray(props.image, dtype=bool)))
        return cls((array.shape[0], array.shape[1]), found)

    @classmethod
    def from_masks(cls, masks: npt.ArrayLike, ids: Sequence[int] | None = None) -> Regions:
        """Crop a stack (N, H, W), bool or 0..1, to regions; ``ids`` default to 0..N-1.

        Raises
        ------
        MaskShapeError
            If the stack is not three-dimensional or ``ids`` has another length.
        InputError
            If values are not bool or finite numbers in 0..1.
        EmptyMaskError
            If a mask has no pixel; the message names its id.
        """
        if isinstance(masks, (list, tuple)) and not masks:
            raise InputError("There are no masks to invert; give at least one.")
        stack = np.asarray(masks)
        if stack.ndim != 3:
            raise MaskShapeError(f"Masks must be an array (N, H, W); got shape {stack.shape}.")
        names = list(range(len(stack))) if ids is None else [int(i) for i in ids]
        if len(names) != len(stack):
            raise MaskShapeError(f"There are {len(stack)} masks but {len(names)} ids.")
        found = []
        for name, mask in zip(names, stack, strict=True):
            if mask.dtype.kind != "b":
                # A comparison that NaN fails as well.
                if mask.dtype.kind not in "iuf" or not bool(np.all((mask >= 0) & (mask <= 1))):
                    raise InputError(
                        f"Mask {name} must be bool or numbers in 0..1; got type {mask.dtype} "
                        "with values outside. Compare it with a threshold first (mask > 0)."
                    )
                mask = mask.astype(bool if mask.dtype.kind in "iu" else np.float32)
            rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
            if not len(rows):
                raise EmptyMaskError(f"Mask {name} has no pixel; leave it out or draw it again.")
            y0, x0, y1, x1 = rows[0], columns[0], rows[-1] + 1, columns[-1] + 1
            box = (int(y0), int(x0), int(y1), int(x1))
            found.append(Region(name, box, mask[y0:y1, x0:x1].copy()))
        return cls((stack.shape[1], stack.shape[2]), found)

    def full_mask(self, index: int) -> npt.NDArray[Any]:
        """Mask ``index`` on the whole plane, (H, W), of the crop's own type."""
        region = self._regions[index]
        y0, x0, y1, x1 = region.bbox
        full = np.zeros(self.shape, dtype=region.mask.dtype)
        full[y0:y1, x0:x1] = region.mask
        return full
