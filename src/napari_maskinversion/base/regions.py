"""Regions of one image plane, each stored as a bounding box and a crop of its mask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from os import PathLike
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from .errors import EmptyMaskError, InputError, MaskShapeError
from .label_blocks import LARGEST, crop_labels, join
from .wording import listed


@dataclass(frozen=True, slots=True)
class Region:
    """One region.

    Shapes: mask (y1 - y0, x1 - x0).
    """

    id: int  # The label value, or the row of the shape
    # ``(y0, x0, y1, x1)`` in pixels of the plane, end exclusive, inside the plane
    bbox: tuple[int, int, int, int]
    mask: npt.NDArray[Any] = field(repr=False)  # bool, or float32 coverage in 0..1
    # Ids of the regions merged into this one; empty for a plain region
    members: tuple[int, ...] = ()
    name: str = field(default="", repr=False)  # Its name in the file that it came from; "" for none
    # Its id in that file, which need not be a label value; "" for none
    source_id: str = field(default="", repr=False)
    # Its attributes there, which results carry along
    values: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @classmethod
    def from_mask(
        cls, region_id: int, mask: npt.NDArray[Any], corner: tuple[int, int] = (0, 0)
    ) -> Region | None:
        """Crop a mask (h, w) to its covered pixels; None if there are none.

        `corner` is the plane's pixel (y, x) of the mask's first one.
        """
        rows = np.flatnonzero(mask.any(1))
        columns = np.flatnonzero(mask.any(0))
        if not len(rows):
            return None
        y0 = int(rows[0])
        x0 = int(columns[0])
        y1 = int(rows[-1]) + 1
        x1 = int(columns[-1]) + 1
        y, x = corner
        return cls(region_id, (y + y0, x + x0, y + y1, x + x1), mask[y0:y1, x0:x1].copy())

    @property
    def area(self) -> float:
        """Number of covered pixels."""
        is_bool = self.mask.dtype.kind == "b"
        return float(np.count_nonzero(self.mask) if is_bool else self.mask.sum(dtype=np.float64))

    @property
    def centroid(self) -> tuple[float, float]:
        """Centre of mass ``(y, x)``; whole numbers are pixel centres of the plane."""
        rows = self.mask.sum(axis=1, dtype=np.float64)
        columns = self.mask.sum(axis=0, dtype=np.float64)
        y = float(rows @ np.arange(len(rows)) / rows.sum())
        x = float(columns @ np.arange(len(columns)) / columns.sum())
        return self.bbox[0] + y, self.bbox[1] + x


class Regions(Sequence[Region]):
    """Regions of a plane of ``shape`` pixels; memory grows with their boxes, not with the plane.

    Parameters
    ----------
    shape : tuple of int
        ``(H, W)`` of the plane in pixels.
    regions : iterable of Region
        They may overlap.

    Raises
    ------
    EmptyMaskError
        If a region covers no pixel; the message names its id.
    MaskShapeError
        If a box is not inside the plane or does not fit its mask.
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
        """Return one region, or a slice as ``Regions`` of the same plane."""
        if isinstance(index, slice):
            return Regions(self.shape, self._regions[index])
        return self._regions[index]

    def __len__(self) -> int:
        return len(self._regions)

    def __iter__(self) -> Iterator[Region]:
        return iter(self._regions)

    def __repr__(self) -> str:
        return f"<Regions: {len(self)} on a plane of {self.shape[0]} x {self.shape[1]} px>"

    @property
    def ids(self) -> list[int]:
        """The regions' ids, in order."""
        return [region.id for region in self._regions]

    @classmethod
    def from_labels(cls, labels: npt.ArrayLike) -> Regions:
        """Make a region of each value but 0 in an integer image (H, W), sorted by value.

        The image may be a torch tensor on any device.

        Raises
        ------
        InputError
            If the image is not 2-D or not of integers.
        """
        array = as_array(labels, "Rows of a label image")
        if array.ndim != 2 or array.dtype.kind not in "iub":
            raise InputError(
                f"A label image must be a 2-D array of whole numbers; got shape {array.shape} "
                f"and type {array.dtype}."
            )
        regions = [Region(value, box, mask) for value, box, mask in crop_labels(array)]
        return cls((array.shape[0], array.shape[1]), regions)

    @classmethod
    def from_masks(cls, masks: npt.ArrayLike, ids: Sequence[int] | None = None) -> Regions:
        """Make regions of masks (N, H, W), or of a single one (H, W).

        Parameters
        ----------
        masks : array_like
            bool, numbers in 0..1 (coverage), or 0 and 255; also torch tensors on any device.
        ids : sequence of int, optional
            Default: 0 to N - 1.

        Raises
        ------
        MaskShapeError
            If the array has another number of axes, or ``ids`` another length.
        InputError
            If a mask has other values; names it.
        EmptyMaskError
            If a mask has no pixel; the message names its id.
        """
        if isinstance(masks, (list, tuple)) and not masks:
            raise InputError("There are no masks to invert; pass at least one.")
        stack = as_array(masks, "Masks")
        if stack.ndim == 2:
            stack = stack[None]
        if stack.ndim != 3:
            raise MaskShapeError(
                f"Masks must be an array (N, H, W), or (H, W) for one; got shape {stack.shape}."
            )
        if ids is None:
            names = list(range(len(stack)))
        else:
            names = _checked(ids)
        if len(names) != len(stack):
            raise MaskShapeError(f"There are {len(stack)} masks but {len(names)} ids.")
        regions = []
        for name, mask in zip(names, stack, strict=True):
            region = Region.from_mask(name, _coverage(mask, name))
            if region is None:
                raise EmptyMaskError(f"Mask {name} has no pixel; leave it out or draw it again.")
            regions.append(region)
        return cls((stack.shape[1], stack.shape[2]), regions)

    @classmethod
    def of(cls, masks: npt.ArrayLike | Regions) -> Regions:
        """Return regions unchanged, and masks as `from_masks` does."""
        if isinstance(masks, Regions):
            return masks
        return cls.from_masks(masks)

    def full_mask(self, index: int) -> npt.NDArray[Any]:
        """Return mask ``index`` on the whole plane, (H, W), in the dtype of the crop."""
        region = self._regions[index]
        y0, x0, y1, x1 = region.bbox
        full = np.zeros(self.shape, dtype=region.mask.dtype)
        full[y0:y1, x0:x1] = region.mask
        return full

    def only(self, ids: Iterable[int]) -> Regions:
        """Return the regions with these ids, in their present order.

        Raises
        ------
        InputError
            If there is no such id; names it.
        """
        wanted = set(ids)
        self._check_known(wanted)
        return Regions(self.shape, [region for region in self if region.id in wanted])

    def merged(self, groups: Iterable[Sequence[int]]) -> Regions:
        """Merge each group of regions into one: several objects, one query.

        The union takes the place and the id of the group's first member, and lists its members. It
        has the name and the attributes that are the same for all of them.
        Regions in no group stay as they are.

        Raises
        ------
        InputError
            If an id is unknown or in two groups, or a group has fewer than two.
        """
        chosen = [tuple(dict.fromkeys(group)) for group in groups]
        times = Counter(chain.from_iterable(chosen))
        self._check_known(times)
        for group in chosen:
            if len(group) < 2:
                raise InputError(
                    f"A merged region needs two ids or more; got {', '.join(map(str, group))}."
                )
        if twice := [name for name, count in times.items() if count > 1]:
            raise InputError(f"Region {min(twice)} is in two merged regions; use it once.")
        first = {group[0]: group for group in chosen}
        regions_by_id = {region.id: region for region in self}
        result = []
        for region in self:
            if region.id in first:
                members = [regions_by_id[name] for name in first[region.id]]
                result.append(_union(members, first[region.id]))
            elif region.id not in times:
                result.append(region)
        return Regions(self.shape, result)

    def _check_known(self, ids: Iterable[int]) -> None:
        missing = sorted(set(ids) - set(self.ids))
        if missing:
            ids_text = listed(self.ids) or "none"
            raise InputError(
                f"There is no region {listed(missing)} on this plane; it has {ids_text}."
            )


def _union(members: Sequence[Region], ids: tuple[int, ...]) -> Region:
    box, mask = join([(member.bbox[0], member.bbox[1], member.mask) for member in members])
    names = {member.name for member in members}
    source_id = " ".join(member.source_id for member in members).strip()
    name = ""
    if len(names) == 1:
        name = names.pop()
    first, *later = (member.values for member in members)
    shared = {}
    for key in first:
        if all(values.get(key) == first[key] for values in later):
            shared[key] = first[key]
    return Region(ids[0], box, mask, ids, name=name, source_id=source_id, values=shared)


def as_array(values: Any, parts: str = "Rows of an image") -> npt.NDArray[Any]:
    """Convert arrays, torch tensors on any device, and lists of them to NumPy.

    In the byte order of this machine.
    """
    if isinstance(values, str | PathLike):
        raise InputError(
            f"{parts} must be numbers; got {str(values)!r}. If it is the path of an image, pass "
            "read_image(path); of regions, read_regions(path)."
        )
    if isinstance(values, (list, tuple)):
        values = [as_array(value, parts) for value in values]
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise InputError("An array has masked values; fill them first, as in array.filled(0).")
    try:
        if hasattr(values, "detach"):  # a torch tensor; NumPy knows no bfloat16
            values = values.detach().cpu()
            if values.is_floating_point():
                values = values.float()
        try:
            array = np.asarray(values)
        except TypeError:  # CuPy's arrays are moved to this memory on request only
            array = np.asarray(values.get() if hasattr(values, "get") else values)
    except ValueError as error:
        raise MaskShapeError(f"{parts} must have one size: {error}.") from None
    except (TypeError, NotImplementedError) as error:  # a sparse tensor, or of the device meta
        raise InputError(f"{parts} cannot be read ({error}); pass a dense array.") from None
    if array.dtype.kind in "USVMm":
        raise InputError(f"{parts} must be numbers; got type {array.dtype}.")
    return array.astype(array.dtype.newbyteorder("="), copy=False)


def top_of_bits(peak: float) -> float:
    """Return white of 16-bit pixels: the top of 8, 10, 12, 14 or 16 bits that holds the highest."""
    return next(2.0**bits - 1 for bits in (8, 10, 12, 14, 16) if peak < 2**bits)


def _checked(ids: Sequence[int]) -> list[int]:
    names = [int(number) for number in ids]
    if len(set(names)) < len(names) or not all(0 <= name <= LARGEST for name in names):
        raise InputError(
            f"Ids of regions are different numbers from 0 to {LARGEST}; got {listed(names)}."
        )
    return names


def _coverage(mask: npt.NDArray[Any], name: int) -> npt.NDArray[Any]:
    """Return a mask as bool, or float32 coverage in 0..1."""
    if mask.dtype.kind == "b":
        return mask
    if mask.dtype.kind not in "iuf":
        raise InputError(f"Mask {name} must be bool or numbers; got type {mask.dtype}.")
    if not np.all((mask >= 0) & (mask <= 1)):  # NaN fails this comparison too
        if not np.all((mask == 0) | (mask == 255)):
            raise InputError(
                f"Mask {name} must be bool, in 0..1, or 0 and 255; its values go from "
                f"{mask.min():g} to {mask.max():g}. Compare it with a threshold (mask > 0), or "
                "pass a label image as Regions.from_labels(labels)."
            )
        mask = mask > 0
    return mask.astype(bool if mask.dtype.kind in "iub" else np.float32)
