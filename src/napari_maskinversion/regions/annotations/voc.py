"""Pascal VOC XML: boxes with names. Read only."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from ...base.errors import InputError
from .annotation import Annotation, Annotations, box_region, check_not_empty, on_image
from .annotation_format import AnnotationFormat, ImageReference, check_size, note_other_image
from .xml_files import read_xml


def read_voc(root: Any, path: Path, image: ImageReference) -> Annotations:
    """Read the boxes of a VOC file as regions, counted from 1; see `AnnotationFormat.read`.

    VOC counts pixels from 1, and a box includes its last pixel.
    """
    notes: list[str] = []
    height, width = (_whole(root.findtext(f"size/{side}")) for side in ("height", "width"))
    if min(height, width) > 0:
        check_size(path, (height, width), image.shape)
    elif image.shape is None:
        raise InputError(f"{path} has no image size.")
    shape = image.shape or (height, width)
    note_other_image(path, (root.findtext("filename") or "").strip(), image, notes)
    items = []
    for number, item in enumerate(root.findall("object"), 1):
        label = (item.findtext("name") or "").strip()
        where = f"{path}, object {number}" + (f" ({label})" if label else "")
        try:
            x0, y0, x1, y1 = (
                float(str(item.findtext(f"bndbox/{name}")))
                for name in ("xmin", "ymin", "xmax", "ymax")
            )
            region = box_region(number, (y0 - 1, x0 - 1, y1, x1), where, shape, notes)
        except (ValueError, OverflowError):
            raise InputError(
                f"{where} has no box of four numbers (xmin, ymin, xmax, ymax); save turned boxes "
                "and polygons as COCO JSON."
            ) from None
        if len(item.findall("bndbox")) > 1 or item.find("polygon") is not None:
            notes.append(
                f"{where} has more than one box, or a polygon; only its first box was read. Save "
                "polygons as COCO JSON, and each box as an object of its own."
            )
        items.append(Annotation(region=on_image(region, where, shape), label=label))
    check_not_empty(items, path)
    return Annotations(shape=shape, items=tuple(items), image=image.name, notes=tuple(notes))


def _whole(text: str | None) -> int:
    try:
        return int(float(text or 0))
    except (ValueError, OverflowError):
        return 0


VOC: Final = AnnotationFormat(
    name="Pascal VOC",
    suffixes=(".xml",),
    content="a root 'annotation'",
    markers=((b"<annotation", b"<bndbox"),),
    load=read_xml,
    matches=lambda root: root.tag == "annotation",
    read=read_voc,
)
