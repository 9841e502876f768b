"""Read regions from a file of any kind: label images, masks, annotations."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path

from ..base.errors import InputError
from ..base.reading import as_path
from ..base.regions import Regions
from .annotations.reading import is_annotations, read_annotations
from .masks.reading import mask_notes
from .masks.reading import read_regions as read_masks


def read_regions(
    path: str | Path, image_shape: Sequence[int], *, image: str = "", series: int | None = None
) -> Regions:
    """Read the regions of an image.

    Parameters
    ----------
    path : str or Path
        A label image, a binary mask, a folder of binary masks, or a file of another program: COCO,
        GeoJSON, labelme, CVAT, Pascal VOC, YOLO, ImageJ's ROIs or Cellpose's ``_seg.npy``.
    image_shape : sequence of int
        Pixels of the image: ``image.shape``.
    image : str
        File name of the image; selects it in a file about several images.
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
    file, shape = as_path(path, "regions"), (int(image_shape[0]), int(image_shape[1]))
    if not is_annotations(file):
        regions = read_masks(file, shape, series=series or 0)
        _warn(mask_notes(file, series or 0))
        return regions
    annotations = read_annotations(file, shape, image=image, series=series)
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
