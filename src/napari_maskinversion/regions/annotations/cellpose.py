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
            value = load_plain(file) if kind.kind == "O" and shape == () else None
    except PlainPickleError as error:
        raise InputError(f"{path} cannot be read safely: {error}; {_WAY_OUT}.") from None
    objects = value.objects() if isinstance(value, PickledArray) else []
    if len(objects) != 1:
        raise InputError(f"{path} is not a file of Cellpose; {_WAY_OUT}.")
    return objects[0]


def parse_cellpose(page: Any, path: Path, image: ImageReference) -> Parsed:
    """Return masks; masks of a volume lie on planes (z)."""
    masks = page["masks"]
    labels = masks.array().squeeze() if isinstance(masks, PickledArray) else np.zeros(0)
    if labels.ndim not in (2, 3) or labels.dtype.kind not in "iu":
        raise InputError(f"{path} has no label image as masks; {_WAY_OUT}.")
    size = (int(labels.shape[-2]), int(labels.shape[-1]))
    check_size(path, size, image.shape)
    planes: list[tuple[Position, Any]] = [((), labels)]
    if labels.ndim == 3:
        planes = [((("z", z),), plane) for z, plane in enumerate(labels)]
    objects = [
        label_of(region, f"{path}, mask {region.id}", position=position)
        for position, plane in planes
        for region in Regions.from_labels(plane)
    ]
    name = page.get("filename")
    # Cellpose stores the full path on the machine where it ran.
    name = PureWindowsPath(name).name if isinstance(name, str) else ""
    return Parsed(objects=objects, images=[ListedImage(name=name, size=size)])


def parse_outlines(lines: list[str], path: Path, image: ImageReference) -> Parsed:
    """Return the cells of a ``_cp_outlines.txt``: a line of x, y of the pixels along each."""
    return Parsed(
        objects=[
            Drawn(where=f"{path}, line {number}", geometry=partial(_outline, line))
            for number, line in enumerate(lines, 1)
            if line.strip()
        ]
    )


def are_outlines(lines: list[str]) -> bool:
    """Return whether lines are whole numbers with commas between them."""
    used = [line for line in lines if line.strip()]
    return bool(used) and all(_OUTLINE.fullmatch(line.strip()) for line in used)


def _outline(line: str) -> Outline:
    import shapely

    points = np.array(line.split(","), float).reshape(-1, 2) + 0.5
    # Pixels along the cell belong to it, and their centres lie on the line.
    grown = shapely.LinearRing(points) if len(points) > 2 else shapely.MultiPoint(points)
    area = [shapely.Polygon(points)] if len(points) > 2 else []
    return Outline(polygons_of(shapely.union_all([*area, grown.buffer(0.25)])))


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
