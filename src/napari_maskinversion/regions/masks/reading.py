"""Read regions from files: label images, binary masks and folders of masks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from ...base.errors import EmptyMaskError, InputError, MaskShapeError
from ...base.label_blocks import as_whole_numbers
from ...base.reading import is_of_macos
from ...base.regions import Region, Regions
from ...images.decoding import LOSSY, PICTURES, Array, decode
from ...images.ome_zarr import is_zarr
from ...images.opening import open_labels
from ...images.stack import Stack
from ...images.tiff import holds_results, is_tiff
from .label_images import plane_of_labels, regions_of_labels


def read_regions(path: str | Path, image_shape: tuple[int, int], *, series: int = 0) -> Regions:
    """Read regions: a label image, one binary mask, or many binary masks.

    In a 2-D image each value but 0 is a region with this id; an image with only 255 or 65535 is a
    binary mask and becomes region 1. TIFF and zarr are read block by block. Each picture in a
    folder and each page of a file is one binary mask, numbered from 1 by name or page; overlapping
    masks stay separate. Of an OME-Zarr image it is the label image within.
    """
    place = Path(path)
    has_samples = True  # of a picture; an array of a TIFF file may count pages
    if is_zarr(place) or is_tiff(place):
        with open_labels(place, series) as stack:
            if not stack.pages and "s" not in stack.axes:
                return _flat(stack, place, image_shape)
            has_samples = "s" in stack.axes
            if is_zarr(place):
                raise InputError(
                    f"{place} contains labels of shape {tuple(stack.levels[0].shape)}; choose "
                    "planes with --planes largest or --planes each."
                )
            if series:
                raise InputError(
                    f"{place} has several pages for each of its {len(stack.images)} images; save "
                    "the labels of each as one plane."
                )
    if place.is_dir():
        files = mask_files(place)
        if not files:
            left_out = " ".join(mask_notes(place))
            raise InputError(
                f"{place} contains no mask pictures (PNG, TIFF, JPEG, ...). {left_out}".strip()
            )
        masks = (
            _binary(
                _plane(decode(file, "mask", colours=False), file), number, str(file), image_shape
            )
            for number, file in enumerate(files, 1)
        )
        return Regions(image_shape, list(masks))
    array = decode(place, "masks", colours=False)
    colours = array.ndim == 3 and array.shape[2] in (2, 3, 4) and has_samples
    if array.ndim == 2 or colours or (array.ndim == 3 and array.shape[0] == 1):
        plane = _plane(array, place)
        if place.suffix.lower() in LOSSY:
            # Lossy compression changes values: black and white survive, labels do not.
            return Regions(image_shape, [_binary(plane, 1, str(place), image_shape)])
        return _labels(plane, place, image_shape)
    if array.ndim != 3:
        raise InputError(
            f"{place} contains an array of shape {array.shape}; masks are (H, W) labels or "
            "(N, H, W) binary masks."
        )
    return Regions(
        image_shape,
        [
            _binary(page, number, f"{place}, page {number}", image_shape)
            for number, page in enumerate(array, 1)
        ],
    )


def _flat(stack: Stack, path: Path, image_shape: tuple[int, int]) -> Regions:
    """Read a label image of one plane, which need not fit into memory."""
    check_size(stack.shape, str(path), image_shape)
    axes = (stack.axes.index("y"), stack.axes.index("x"))
    try:
        plane = plane_of_labels(stack.levels[0], axes=axes, index=[0] * len(stack.axes))
        regions = regions_of_labels(plane)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    return _named(regions, path)


def mask_files(folder: Path) -> list[Path]:
    """List the pictures in a folder by name: file i is region i + 1.

    Results of this program that lie there are left out.
    """
    return [path for path in _pictures(folder) if not holds_results(path)]


def _pictures(folder: Path) -> list[Path]:
    files = (path for path in folder.iterdir() if not is_of_macos(path))
    return sorted(path for path in files if path.suffix.lower() in PICTURES)


def mask_notes(path: Path, series: int = 0) -> tuple[str, ...]:
    """Return what is left out of a folder of masks, or missing in a zarr folder of labels."""
    if is_zarr(path):
        with open_labels(path, series) as stack:
            return stack.notes
    results = (
        [file.name for file in _pictures(path) if holds_results(file)] if path.is_dir() else []
    )
    if not results:
        return ()
    return (f"{path}: {', '.join(results)} hold results of this program and were left out.",)


def _labels(array: Array, path: Path, image_shape: tuple[int, int]) -> Regions:
    check_size(array.shape, str(path), image_shape)
    try:
        return _named(Regions.from_labels(as_whole_numbers(array)), path)
    except EmptyMaskError:
        raise
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def renumber_black_and_white(regions: Regions) -> Regions:
    """Return a single region 255 or 65535, which is white in a binary image, as region 1."""
    if regions.ids in ([255], [65535]):
        return Regions(regions.shape, [replace(regions[0], id=1)])
    return regions


def _named(regions: Regions, path: Path) -> Regions:
    regions = renumber_black_and_white(regions)
    if not len(regions):
        raise EmptyMaskError(f"{path} has no region: every pixel is 0.")
    return regions


def _binary(array: Array, number: int, name: str, image_shape: tuple[int, int]) -> Region:
    check_size(array.shape, name, image_shape)
    region = Region.from_mask(number, _threshold(array, name))
    if region is None:
        raise EmptyMaskError(f"{name} has no pixel; leave it out or draw it again.")
    return region


def _threshold(array: Array, name: str) -> Array:
    """Convert to bool: 0 and one other value, or blurred black and white."""
    if array.dtype.kind == "b":
        return array
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise InputError(f"{name} contains NaN or infinite values; a mask has none.")
    low, high = array.min(), array.max()
    if ((array == 0) | (array == high)).all():
        return np.asarray(array != 0)
    top = 1 if array.dtype.kind == "f" else 255
    middle = (array > 0.25 * top) & (array < 0.75 * top)
    if low >= 0 and high <= top and high > top / 2 and middle.mean() < 0.1:
        return np.asarray(array > top / 2)
    raise InputError(
        f"{name} contains more than two values; each binary mask is black and white. "
        "Save labels as one 2-D image of whole numbers (PNG or TIFF)."
    )


def _plane(array: Array, path: Path) -> Array:
    if array.ndim == 3 and array.shape[0] == 1:
        array = array[0]
    if array.ndim == 3 and array.shape[2] in (2, 3, 4):
        colour = array[:, :, : 3 if array.shape[2] > 2 else 1]
        if (colour == colour[:, :, :1]).all():
            return np.asarray(colour[:, :, 0])
        raise InputError(
            f"{path} is a colour picture; masks are grey: save labels as whole numbers, "
            "or each mask as black and white."
        )
    if array.ndim != 2:
        raise InputError(f"{path} contains an array of shape {array.shape}; a mask is (H, W).")
    return array


def check_size(shape: tuple[int, ...], name: str, image_shape: tuple[int, int]) -> None:
    """Refuse masks that do not have the size of the image."""
    if shape != image_shape:
        size = " x ".join(str(side) for side in shape)
        raise MaskShapeError(
            f"{name} is {size} px but the image is {image_shape[0]} x {image_shape[1]} px; "
            "use masks drawn on this image."
        )
