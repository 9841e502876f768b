"""Annotation files: one table of formats, chosen by suffix and content."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from ...base.errors import InputError
from ...base.units import Georeference
from .annotation import Annotations
from .annotation_format import AnnotationFormat, ImageReference
from .coco import COCO
from .geojson import GEOJSON
from .voc import VOC

FORMATS: Final[tuple[AnnotationFormat, ...]] = (
    COCO,
    GEOJSON,
    VOC,
)
SUFFIXES: Final = tuple(dict.fromkeys(suffix for form in FORMATS for suffix in form.suffixes))
_PEEK: Final = 65_536  # bytes from each end of a file


def is_annotations(path: Path) -> bool:
    """Return whether a file's suffix is that of annotations."""
    return path.suffix.lower() in SUFFIXES


def may_hold_annotations(path: Path) -> bool:
    """Return whether suffix and both ends of a file fit a format.

    Reading all of a large file would take too long while napari looks for a reader.
    """
    if not is_annotations(path):
        return False
    try:
        with path.open("rb") as file:
            text = file.read(_PEEK)
            size = path.stat().st_size
            if size > _PEEK:
                file.seek(max(_PEEK, size - _PEEK))
                text += file.read()
    except OSError:
        return False
    return any(
        all(marker in text for marker in group)
        for form in _formats_for(path)
        for group in form.markers
    )


def read_annotations(
    path: Path,
    shape: tuple[int, int] | None = None,
    *,
    image: str = "",
    geo: Georeference | None = None,
) -> Annotations:
    """Read a file in any of `FORMATS`: COCO JSON, GeoJSON or Pascal VOC XML.

    Parameters
    ----------
    path : Path
    shape : tuple of int, optional
        Pixels (H, W) of the image; by default the size in the file.
    image : str
        File name of the image; selects it in a file about several images.
    geo : Georeference, optional
        Of the image, for files in world coordinates.

    Raises
    ------
    InputError
        If the file is in no format or broken; names it and the record.
    ManyImagesError
        If it is about several images, and `image` does not select one.
    MaskShapeError
        If it is about an image of another size.
    EmptyMaskError
        If a region misses the image; names it.
    """
    formats = _formats_for(path)
    content = formats[0].load(path)
    for form in formats:
        if form.matches(content):
            return form.read(content, path, ImageReference(name=image, shape=shape, geo=geo))
    known = " nor ".join(f"{form.name} ({form.content})" for form in formats)
    neither = "neither" if len(formats) > 1 else "not"
    raise InputError(f"{path} is {neither} {known}; it contains {_describe(content)}.")


def _formats_for(path: Path) -> list[AnnotationFormat]:
    """Formats that share a parser with the first one of this suffix."""
    suffix = path.suffix.lower()
    load = next((form.load for form in FORMATS if suffix in form.suffixes), FORMATS[0].load)
    return [form for form in FORMATS if form.load is load]


def _describe(content: Any) -> str:
    if isinstance(content, dict):
        keys = ", ".join(map(str, list(content)[:5]))
        return f"an object with {keys or 'nothing'}"
    if isinstance(content, list):
        return "a list"
    tag = getattr(content, "tag", None)
    return "a single value" if tag is None else f"a root {tag!r}"
