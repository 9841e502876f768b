"""Cellpose's ``_seg.npy``, a pickled dictionary with a label image, and ``_cp_outlines.txt``.

Read only, without the code of a pickle.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path, PureWindowsPath
from typing import Any, Final

import numpy as np

from ...base.errors import InputError
from ...base.identity import Position
from ...base.reading import read_npy_head
from ...base.regions import Regions
from ..plain_pickle import PickledArray, PlainPickleError, load_plain
from .annotation_building import AnnotationFormat, Drawn, Outline, Parsed, label_of
from .listed_images import ImageReference, ListedImage, check_size
from .polygons import polygons_of
from .yolo import read_lines

_OUTLINE: Final = re.compile(r"-?\d+,-?\d+(,-?\d+,-?\d+)*")
_WAY_OUT: Final = "in Cellpose, save the masks as PNG or TIFF"


def read_seg(path: Path) -> Any:
    """Read the dictionary of a ``_seg.npy``; nothing in it is run."""
    try:
        with path.open("rb") as file:
            shape, _, kind = read_npy_head(file)
            value = None
            if kind.kind == "O" and shape == ():
                value = load_plain(file)
    except PlainPickleError as error:
        raise InputError(f"{path} cannot be read safely: {error}; {_WAY_OUT}.") from None
    objects = []
    if isinstance(value, PickledArray):
        objects = value.objects()
    if len(objects) != 1:
        raise InputError(f"{path} is not a file of Cellpose; {_WAY_OUT}.")
    return objects[0]


def parse_cellpose(page: Any, path: Path, image: ImageReference) -> Parsed:
    """Return masks; masks of a volume lie on planes (z)."""
    masks = page["masks"]
    if isinstance(masks, PickledArray):
        labels = masks.array().squeeze()
    else:
        labels = np.zeros(0)
    if labels.ndim not in (2, 3) or labels.dtype.kind not in "iu":
        raise InputError(f"{path} has no label image as masks; {_WAY_OUT}.")
    size = (int(labels.shape[-2]), int(labels.shape[-1]))
    check_size(path, size, image.shape)
    planes: list[tuple[Position, Any]] = [((), labels)]
    if labels.ndim == 3:
        planes = [((("z", z),), plane) for z, plane in enumerate(labels)]
    objects = []
    for position, plane in planes:
        for region in Regions.from_labels(plane):
            objects.append(label_of(region, f"{path}, mask {region.id}", position=position))
    name = page.get("filename")
    # Cellpose stores the full path on the machine where it ran.
    if isinstance(name, str):
        name = PureWindowsPath(name).name
    else:
        name = ""
    return Parsed(objects=objects, images=[ListedImage(name=name, size=size)])


def parse_outlines(lines: list[str], path: Path, image: ImageReference) -> Parsed:
    """Return the cells of a ``_cp_outlines.txt``: a line of x, y of the pixels along each."""
    objects = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            objects.append(Drawn(where=f"{path}, line {number}", geometry=partial(_outline, line)))
    return Parsed(objects=objects)


def are_outlines(lines: list[str]) -> bool:
    """Return whether lines are whole numbers with commas between them."""
    used = [line for line in lines if line.strip()]
    return bool(used) and all(_OUTLINE.fullmatch(line.strip()) for line in used)


def _outline(line: str) -> Outline:
    import shapely

    points = np.array(line.split(","), float).reshape(-1, 2) + 0.5
    # Pixels along the cell belong to it, and their centres lie on the line.
    if len(points) <= 2:
        return Outline(polygons_of(shapely.MultiPoint(points).buffer(0.25)))
    edge = shapely.LinearRing(points).buffer(0.25)
    return Outline(polygons_of(shapely.union_all([shapely.Polygon(points), edge])))


CELLPOSE_OUTLINES: Final = AnnotationFormat(
    name="Cellpose outlines",
    suffixes=("_cp_outlines.txt",),
    content="lines of x and y with commas",
    markers=(),
    load=read_lines,
    matches=are_outlines,
    parse=parse_outlines,
    in_viewer=False,
)
CELLPOSE: Final = AnnotationFormat(
    name="Cellpose",
    suffixes=("_seg.npy",),
    content="a dictionary with masks",
    markers=((b"NUMPY", b"'|O'"),),
    load=read_seg,
    matches=lambda page: isinstance(page, dict) and "masks" in page,
    parse=parse_cellpose,
    shared=True,
)
