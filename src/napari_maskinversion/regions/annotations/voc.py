"""Pascal VOC XML: boxes with names. Read only."""

from __future__ import annotations

from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any, Final

from .building import AnnotationFormat, Box, Drawn, Parsed
from .listed_images import ImageReference, ListedImage, whole_size
from .xml_files import read_xml, whole_number


def parse_voc(root: Any, path: Path, image: ImageReference) -> Parsed:
    """Return the boxes of a VOC file; it counts pixels from 1, and a box includes its last one."""
    notes, objects = [], []
    for number, item in enumerate(root.findall("object"), 1):
        label = (item.findtext("name") or "").strip()
        where = f"{path}, object {number}" + (f" ({label})" if label else "")
        if len(item.findall("bndbox")) > 1 or item.find("polygon") is not None:
            notes.append(
                f"{where} has more than one box, or a polygon; only its first box was read. Save "
                "polygons as COCO JSON, and each box as an object of its own."
            )
        objects.append(Drawn(where=where, geometry=partial(_box, item), label=label))
    size = whole_size(*(whole_number(root.findtext(f"size/{one}")) for one in ("height", "width")))
    listed = ListedImage(name=(root.findtext("filename") or "").strip(), size=size)
    return Parsed(objects=objects, images=[listed], notes=notes)


def _box(item: Any) -> Box:
    texts = [item.findtext(f"bndbox/{side}") for side in ("ymin", "xmin", "ymax", "xmax")]
    try:
        y0, x0, y1, x1 = (float(text or "") for text in texts)
    except ValueError:
        y0 = x0 = y1 = x1 = float("nan")
    if not all(map(isfinite, (y0, x0, y1, x1))):
        raise ValueError(
            "it has no box of four numbers (xmin, ymin, xmax, ymax); save turned boxes and "
            "polygons as COCO JSON"
        )
    return Box(y0 - 1, x0 - 1, y1, x1)


VOC: Final = AnnotationFormat(
    name="Pascal VOC",
    suffixes=(".xml",),
    content="a root 'annotation'",
    markers=((b"<annotation", b"<bndbox"),),
    load=read_xml,
    matches=lambda root: root.tag == "annotation",
    parse=parse_voc,
)
