"""Images and regions from files, as the pipeline takes them."""

from __future__ import annotations

import contextlib
import warnings
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..core.errors import EmptyMaskError, InputError, MaskShapeError
from ..core.regions import Region, Regions

Array = npt.NDArray[Any]

_TIFF: Final = {".tif", ".tiff"}
_PICTURES: Final = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", *_TIFF}


def read_image(path: str | Path) -> Array:
    """Read an image to (H, W) or (H, W, 3), in a type the models take.

    RGBA is laid over black. uint8, uint16 and bool stay what they are; other numbers are stretched
    from their smallest to their largest value to float32 in 0..1, since they have no fixed range.

    Raises
    ------
    InputError
        If the file is missing, is no image, has more than one plane, or holds NaN; names it.
    """
    array = _read(Path(path), "image")
    while array.ndim > 2 and array.shape[0] == 1:
        array = array[0]
    if array.ndim == 3 and array.shape[2] not in (1, 3, 4) and array.shape[0] in (3, 4):
        array = np.moveaxis(array, 0, -1)
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (1, 3, 4)):
        raise InputError(
            f"{path} holds an array of shape {array.shape}; one plane of grey or RGB is needed. "
            "Save the plane you want as an image of its own."
        )
    if array.ndim == 3 and array.shape[2] == 1:
        array = array[:, :, 0]
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        count = int((~np.isfinite(array)).sum())
        raise InputError(f"{path} holds {count} values that are not finite (NaN or infinity).")
    if array.dtype not in (np.uint8, np.uint16, np.bool_):
        array = _stretch(array)
    if array.ndim == 3 and array.shape[2] == 4:
        array = _over_black(array)
    return array


def _stretch(array: Array) -> Array:
    values = array.astype(np.float64)
    low, high = values.min(), values.max()
    if array.dtype.kind == "f" and low >= 0 and high <= 1:
        return array.astype(np.float32)
    return np.asarray((values - low) / max(high - low, np.finfo(float).tiny), dtype=np.float32)


def _over_black(array: Array) -> Array:
    if array.dtype.kind in "ub":
        top = 1 if array.dtype.kind == "b" else np.iinfo(array.dtype).max
        mixed = array[:, :, :3].astype(np.float32) * (array[:, :, 3:].astype(np.float32) / top)
        return np.asarray(np.round(mixed), dtype=array.dtype)
    return np.asarray(array[:, :, :3] * array[:, :, 3:])


def read_regions(path: str | Path, image_shape: tuple[int, int]) -> Regions:
    """Read regions: a label image, one binary mask, or many binary masks.

    A 2-D image whose values are 0 and one other is one region; with more values each is a
    region named by its value. A folder of pictures and a file of several pages are one binary mask
    each, in the order of their names or pages, counted from 1; overlapping masks stay apart.

    Raises
    ------
    InputError
        If nothing can be read, or values are no labels.
    MaskShapeError
        If a mask is of another size than the image; names the file.
    EmptyMaskError
        If a mask has no pixel; names the file or page.
    """
    place = Path(path)
    if place.is_dir():
        files = mask_files(place)
        if not files:
            raise InputError(f"{place} holds no mask pictures (PNG, TIFF, JPEG, ...).")
        found = (
            _binary(_plane(_read(file, "mask"), file), number, str(file), image_shape)
            for number, file in enumerate(files, 1)
        )
        return Regions(image_shape, list(found))
    array = _read(place, "masks")
    colours = array.ndim == 3 and array.shape[2] in (3, 4) and place.suffix.lower() not in _TIFF
    if array.ndim == 2 or colours or (array.ndim == 3 and array.shape[0] == 1):
        return _labels(_plane(array, place), place, image_shape)
    if array.ndim != 3:
        raise InputError(
            f"{place} holds an array of shape {array.shape}; masks are (H, W) labels or "
            "(N, H, W) binary masks."
        )
    return Regions(
        image_shape,
        [
            _binary(page, number, f"{place}, page {number}", image_shape)
            for number, page in enumerate(array, 1)
        ],
    )


def mask_files(folder: Path) -> list[Path]:
    """Pictures of a folder in the order of their names: file i is region i + 1."""
    return sorted(p for p in folder.iterdir() if p.suffix.lower() in _PICTURES)


def _labels(array: Array, path: Path, image_shape: tuple[int, int]) -> Regions:
    _check_size(array, str(path), image_shape)
    if array.dtype.kind == "f" and np.array_equal(array, np.round(array)):
        array = array.astype(np.int64)
    if array.dtype.kind == "f":
        raise InputError(f"{path} holds fractions; a label image has whole numbers.")
    values = np.unique(array)
    if len(values) == 2 and values[0] == 0:
        # One binary mask, however it was saved (1, 255, 65535): it has no label of its own.
        array = (array != 0).astype(np.uint8)
    regions = Regions.from_labels(array)
    if not len(regions):
        raise EmptyMaskError(f"{path} has no region: every pixel is 0.")
    return regions


def _binary(array: Array, number: int, name: str, image_shape: tuple[int, int]) -> Region:
    _check_size(array, name, image_shape)
    mask = array > (0 if array.dtype.kind == "b" else array.max() / 2)
    if not mask.any():
        raise EmptyMaskError(f"{name} has no pixel; leave it out or draw it again.")
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    box = (int(rows[0]), int(columns[0]), int(rows[-1]) + 1, int(columns[-1]) + 1)
    return Region(number, box, mask[box[0] : box[2], box[1] : box[3]].copy())


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
        raise InputError(f"{path} holds an array of shape {array.shape}; a mask is (H, W).")
    return array


def _check_size(array: Array, name: str, image_shape: tuple[int, int]) -> None:
    if array.shape != image_shape:
        size = " x ".join(str(side) for side in array.shape)
        raise MaskShapeError(
            f"{name} is {size} px but the image is {image_shape[0]} x {image_shape[1]} px; "
            "use masks drawn on this image."
        )


def _read(path: Path, what: str) -> Array:
    if not path.exists():
        raise InputError(f"There is no {what} at {path}; check the path.")
    if path.is_dir():
        raise InputError(f"{path} is a folder; name one {what} file.")
    try:
        # A reader's own warnings would stand between the user and our one line.
        with warnings.catch_warnings(), contextlib.ExitStack():
            warnings.simplefilter("ignore")
            if path.suffix.lower() == ".npy":
                return np.asarray(np.load(path, allow_pickle=False))
            if path.suffix.lower() in _TIFF:
                import tifffile

                return np.asarray(tifffile.imread(path))
            import imageio.v3

            # Label images keep their palette's numbers: never turned into colours.
            return np.asarray(imageio.v3.imread(path, **_keep_palette(path)))
    except Exception as error:
        reason = str(error).strip().splitlines()[:1] or [type(error).__name__]
        raise InputError(f"{path} could not be read as {what}: {reason[0]}") from error


def _keep_palette(path: Path) -> dict[str, Any]:
    from PIL import Image

    with Image.open(path) as picture:
        return {"index": 0, "mode": "P"} if picture.mode == "P" else {"index": 0}
