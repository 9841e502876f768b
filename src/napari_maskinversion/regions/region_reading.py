"""Read regions from a file of any kind: label images, masks, folders of masks, annotations."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Final

import numpy as np

from ..base.errors import InputError, NoRegionsError
from ..base.reading import is_of_macos
from ..base.regions import Region, Regions
from ..base.wording import listed
from ..images.decoding import LOSSY, PICTURES, Array, decode, has_void_colour
from ..images.lazy_plane import ArrayLike
from ..images.ome_zarr import is_zarr
from ..images.opening import georeference_of, open_labels
from ..images.tiff import holds_results, is_tiff
from .annotations.annotation_reading import is_annotations, read_annotations
from .annotations.listed_images import NO_GEOREFERENCE
from .label_images import check_size, plane_of_labels, regions_of_labels

_SAMPLES: Final = (2, 3, 4)  # grey or RGB, with or without alpha
_MOST_COLOURS: Final = 256  # of a picture whose colours tell regions apart
_VOID: Final = 255  # beside smaller numbers: what many data sets leave undecided
OnNote = Callable[[str], object]


def read_regions(
    path: str | Path,
    image_shape: Sequence[int],
    *,
    image: str | Path = "",
    series: int | None = None,
) -> Regions:
    """Read the regions of an image.

    Parameters
    ----------
    path : str or Path
        A label image, a binary mask, a folder of binary masks, or a file of another program: COCO,
        GeoJSON, labelme, CVAT, Pascal VOC, YOLO, ImageJ's ROIs or Cellpose's ``_seg.npy``.
    image_shape : sequence of int
        Pixels of the image: ``image.shape``.
    image : str or Path
        File of the image. Its name selects it in a file about several images, and GeoJSON in world
        coordinates needs its georeference.
    series : int, optional
        Number of the image in a file with several images.

    Returns
    -------
    Regions
        With their names, if the file has any.

    Warns
    -----
    UserWarning
        Says what was changed or left out, such as a polygon that reaches beyond the image.

    Raises
    ------
    InputError
        If the file cannot be read, or has regions of several planes; names it.
    MaskShapeError
        If it does not have the size of the image.
    EmptyMaskError
        If a region has no pixel; names it.

    Examples
    --------
    >>> rgb = read_image("photo.png")
    >>> regions = read_regions("masks.png", rgb.shape)
    """
    if len(image_shape) < 2:
        raise InputError(f"The shape of an image has two sides or more; got {image_shape}.")
    file = Path(path)
    shape = (int(image_shape[0]), int(image_shape[1]))
    if not is_annotations(file):
        notes: list[str] = []
        regions = read_masks(file, shape, series=series or 0, on_note=notes.append)
        _warn([*notes, *mask_notes(file)])
        return regions
    if isinstance(image, Path):
        name = image.as_posix()
    else:
        name = image
    geo = None
    if image:
        geo = georeference_of(Path(image), shape)
    without = NO_GEOREFERENCE
    if not image or not Path(image).exists():
        missing = f"the file {name} was not found"
        if image:
            without = missing
        else:
            without = "no file of the image was given (image=)"
    annotations = read_annotations(file, shape, image=name, series=series, geo=geo, without=without)
    planes = annotations.planes
    if len(planes) != 1:
        raise InputError(
            f"{file} has regions on {len(planes)} planes of a stack, not on one; use the command "
            "napari-maskinversion run with --plane."
        )
    _warn(annotations.notes)
    return next(iter(planes.values()))


def _warn(notes: Sequence[str]) -> None:
    for note in notes:
        warnings.warn(note, stacklevel=3)


def read_masks(
    path: str | Path,
    image_shape: tuple[int, int],
    *,
    series: int = 0,
    on_note: OnNote = lambda _: None,
) -> Regions:
    """Read regions: a label image, one binary mask, or many binary masks.

    In a 2-D image each value but 0 is a region with this id; an image with only 255 or 65535 is a
    binary mask and becomes region 1. TIFF and zarr are read block by block. Each picture in a
    folder and each page of a file is one binary mask, numbered from 1 by name or page; overlapping
    masks stay separate. Of an OME-Zarr image it is the label image within. In a picture of few
    colours each colour but black is a region; what is transparent is none.
    """
    place = Path(path)
    # Of a picture; the last axis of a TIFF file may count columns.
    samples: tuple[int, ...] = _SAMPLES
    if is_zarr(place) or is_tiff(place):
        with open_labels(place, series) as stack:
            if not stack.pages and "s" not in stack.axes:  # it need not fit into memory
                axes = (stack.axes.index("y"), stack.axes.index("x"))
                index = [0] * len(stack.axes)
                labels = plane_of_labels(stack.levels[0], axes=axes, index=index)
                return _labels(labels, place, image_shape, on_note)
            samples = _SAMPLES if "s" in stack.axes else ()
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
        planes = ((_plane(decode(file, "mask", colours=False), file), str(file)) for file in files)
        masks = _masks(planes, image_shape, on_note)
        named = []
        for mask in masks:
            named.append(replace(mask, source_id=files[mask.id - 1].name))
        return Regions(image_shape, named)
    array = _masks_first(decode(place, "masks", colours=False), image_shape)
    if array.ndim == 3 and array.shape[0] > 1 and array.shape[2] not in samples:
        pages = ((page, f"{place}, page {number}") for number, page in enumerate(array, 1))
        return _masks(pages, image_shape, on_note)
    plane = _plane(array, place)
    if place.suffix.lower() in LOSSY:
        # Lossy compression changes values: black and white survive, labels do not.
        return _masks([(plane, str(place))], image_shape, on_note)
    if plane.dtype != array.dtype:  # numbers of colours
        colours = np.union1d(plane, 0)
        on_note(f"{place} is a colour picture; each of its colours but black is a region.")
        regions = _labels(np.searchsorted(colours, plane), place, image_shape, on_note)
        named = []
        for region in regions:
            named.append(replace(region, source_id=f"#{colours[region.id]:06x}"))
        return Regions(image_shape, named)
    if (plane == _VOID).any() and has_void_colour(place):
        on_note(f"{place}: 255 is no region; Pascal VOC marks with it what is undecided.")
        plane = np.where(plane == _VOID, 0, plane)
    return _labels(plane, place, image_shape, on_note)


def mask_files(folder: Path) -> list[Path]:
    """List the pictures in a folder, 2.png before 10.png: file i is region i + 1.

    Results of this program that lie there are left out.
    """
    return [path for path in _pictures(folder) if not holds_results(path)]


def _pictures(folder: Path) -> list[Path]:
    files = [path for path in folder.iterdir() if not is_of_macos(path)]
    pictures = [path for path in files if path.suffix.lower() in PICTURES]
    if not pictures:  # Label Studio writes brushes as arrays
        pictures = [path for path in files if path.suffix.lower() == ".npy"]
    return sorted(pictures, key=_natural_order)


def _natural_order(path: Path) -> tuple[list[tuple[int, int, str]], str]:
    """Return the key by which 2.png comes before 10.png."""
    parts = []
    for part in re.split(r"(\d+)", path.name):
        if part.isdecimal():
            parts.append((0, int(part), ""))
        else:
            parts.append((1, 0, part.casefold()))
    return parts, path.name  # the name tells 1.png from 01.png


def mask_notes(path: Path) -> tuple[str, ...]:
    """Return what is left out of a folder of masks."""
    if is_zarr(path):
        return ()
    if path.is_dir():
        results = []
        for file in _pictures(path):
            if holds_results(file):
                results.append(file.name)
    else:
        results = []
    if not results:
        return ()
    return (f"{path}: {', '.join(results)} hold results of this program and were left out.",)


def _masks_first(array: Array, image_shape: tuple[int, int]) -> Array:
    """Return masks as (N, H, W): of (H, W, N), as of Mask R-CNN, and (N, 1, H, W), as of torch."""
    if array.ndim == 4 and array.shape[1] == 1:
        array = array[:, 0]
    last = array.ndim == 3 and array.shape[:2] == image_shape != array.shape[1:]
    if last and (array.dtype.kind == "b" or array.shape[2] not in _SAMPLES):
        return np.moveaxis(array, 2, 0)
    return array


def _labels(
    labels: ArrayLike, path: Path, image_shape: tuple[int, int], on_note: OnNote
) -> Regions:
    check_size(tuple(labels.shape), str(path), image_shape)
    try:
        regions = renumber_black_and_white(regions_of_labels(labels))
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    if not len(regions):
        raise NoRegionsError(f"{path} has no region: every pixel is 0 or no data.")
    _note_if_everywhere(regions, str(path), on_note)
    if regions.ids[-1:] == [_VOID] and len(regions) > 1 and regions.ids[-2] < _VOID / 2:
        on_note(f"{path}: region 255 may be what a data set leaves undecided (void).")
    return regions


def _note_if_everywhere(regions: Regions, subject: str, on_note: OnNote) -> None:
    area = sum(region.area for region in regions)
    if len(regions) > 1 and area == prod(regions.shape):
        on_note(
            f"{subject}: no pixel is 0, so all of the image is regions; one may be the background, "
            "as in exports of ilastik."
        )


def renumber_black_and_white(regions: Regions) -> Regions:
    """Return a single region 255 or 65535, which is white in a binary image, as region 1."""
    if regions.ids in ([255], [65535]):
        return Regions(regions.shape, [replace(regions[0], id=1)])
    return regions


def _masks(
    named: Iterable[tuple[Array, str]], image_shape: tuple[int, int], on_note: OnNote
) -> Regions:
    """Make a region of each binary mask, numbered from 1; overlapping ones stay apart."""
    regions = []
    empty = []
    for number, (array, name) in enumerate(named, 1):
        check_size(array.shape, name, image_shape)
        region = Region.from_mask(number, _threshold(array, name))
        if region is None:
            empty.append(name)
        else:
            regions.append(region)
    which = listed(empty)
    if not regions:
        raise NoRegionsError(f"{which} has no pixel; leave it out or draw it again.")
    if empty:
        on_note(f"Masks without a pixel were left out: {which}.")
    masks = Regions(image_shape, regions)
    _note_if_everywhere(masks, "The masks", on_note)
    return masks


def _threshold(array: Array, name: str) -> Array:
    """Convert to bool: 0 and one other value, or blurred black and white."""
    if array.dtype.kind == "b":
        return array
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise InputError(f"{name} contains NaN or infinite values; a mask has none.")
    low = array.min()
    high = array.max()
    if ((array == 0) | (array == high)).all():
        return np.asarray(array != 0)
    top = 255
    if array.dtype.kind == "f":
        top = 1
    middle = (array > 0.25 * top) & (array < 0.75 * top)
    if low >= 0 and high <= top and high > top / 2 and middle.mean() < 0.1:
        return np.asarray(array > top / 2)
    raise InputError(
        f"{name} contains more than two values; each binary mask is black and white. "
        "Save labels as one 2-D image of whole numbers (PNG or TIFF)."
    )


def _numbers_of_colours(colour: Array, path: Path) -> Array:
    """Return the number 0xRRGGBB of each pixel of a picture of few colours."""
    if colour.dtype == np.uint8:
        numbers = colour.astype(np.int64) @ np.array([65536, 256, 1])
        if len(np.unique(numbers)) <= _MOST_COLOURS:
            return np.asarray(numbers)
    raise InputError(
        f"{path} is a colour picture of more than {_MOST_COLOURS} colours; masks are grey, or have "
        "a colour for each region: save labels as whole numbers, or each mask as black and white."
    )


def _plane(array: Array, path: Path) -> Array:
    """Return the one plane (H, W) of an array, also of a grey picture with colours."""
    if array.ndim == 3 and array.shape[0] == 1:
        array = array[0]
    if array.ndim == 3 and array.shape[2] in _SAMPLES:
        colour = array[:, :, : 3 if array.shape[2] > 2 else 1]
        if array.shape[2] != 3:
            opacity = array[:, :, -1:]
            colour = np.where(opacity > opacity.max() / 2, colour, 0)
            if not colour.any():
                colour = opacity  # black on nothing
        array = colour[:, :, 0]
        if (colour != colour[:, :, :1]).any():
            array = _numbers_of_colours(colour, path)
    if array.ndim != 2:
        raise InputError(
            f"{path} contains an array of shape {array.shape}; masks are (H, W) labels or "
            "(N, H, W) binary masks."
        )
    return array
