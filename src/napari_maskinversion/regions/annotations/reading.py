"""Files of annotations by what they hold."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from ...base.errors import InputError
from ...base.units import Georeference
from .annotation import Annotations
from .coco import is_coco, read_coco
from .geojson import is_geojson, read_geojson
from .json_files import read_json
from .voc import read_voc

SUFFIXES: Final = (".json", ".geojson", ".xml")


def is_annotations(path: Path) -> bool:
    """Say whether a file's name is that of annotations, rather than of pixels."""
    return path.suffix.lower() in SUFFIXES


def read_annotations(
    path: Path,
    shape: tuple[int, int] | None = None,
    *,
    image: str = "",
    geo: Georeference | None = None,
) -> Annotations:
    """Read COCO JSON, GeoJSON or Pascal VOC XML.

    Parameters
    ----------
    path : Path
    shape : tuple of int, optional
        Pixels (H, W) of the image; otherwise what the file says.
    image : str
        The image's file name: a file about several images holds it under this one.
    geo : Georeference, optional
        Of the image, for files in world coordinates.

    Raises
    ------
    InputError
        If the file is none of these or broken; names it and the record.
    MaskShapeError
        If it is about an image of another size.
    EmptyMaskError
        If a region misses the image; names it.
    """
    if path.suffix.lower() == ".xml":
        return read_voc(path, shape, image)
    page: Any = read_json(path)
    if is_coco(page):
        return read_coco(page, path, shape, image)
    if is_geojson(page):
        return read_geojson(page, path, shape, image, geo)
    kind = (
        f"an object with {', '.join(map(str, list(page)[:5]))}"
        if isinstance(page, dict)
        else ("a list" if isinstance(page, list) else "a single value")
    )
    raise InputError(
        f"{path} is neither COCO (images, annotations, categories) nor GeoJSON (a collection of "
        f"features): it holds {kind or 'nothing'}."
    )
