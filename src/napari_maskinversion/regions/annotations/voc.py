"""Pascal VOC's XML: boxes with names. Read only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...base.errors import InputError, MaskShapeError
from .annotation import Annotation, Annotations, box_region, check_any, outside, same_image


def read_voc(path: Path, shape: tuple[int, int] | None, image: str = "") -> Annotations:
    """Read the boxes of a VOC file as regions, counted from 1.

    VOC counts pixels from 1, and a box's last pixel belongs to it.

    Parameters
    ----------
    path : Path
    shape : tuple of int or None
        Pixels (H, W) of the image; None takes the file's.
    image : str
        File name of the image.

    Raises
    ------
    InputError
        If the file is none, or an object is broken or misses the image; names both.
    MaskShapeError
        If it is about an image of another size.
    """
    root = read_xml(path)
    if root.tag != "annotation":
        raise InputError(f"{path} is no VOC file: its root is {root.tag!r}, not 'annotation'.")
    notes: list[str] = []
    size = tuple(_whole(root.findtext(f"size/{side}")) for side in ("height", "width"))
    if shape is None:
        if size[0] < 1 or size[1] < 1:
            raise InputError(f"{path} does not say how large its image is.")
        shape = (size[0], size[1])
    elif min(size) > 0 and size != shape:
        raise MaskShapeError(
            f"{path} is about an image of {size[0]} x {size[1]} px; this one is {shape[0]} x "
            f"{shape[1]} px."
        )
    other = (root.findtext("filename") or "").strip()
    if image and other and not same_image(other, image):
        notes.append(f"{path} says it is about {other}, and the image is {image}.")
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
            raise InputError(f"{where} has no box of four numbers.") from None
        if region is None:
            raise outside(where, shape)
        items.append(Annotation(region=region, label=label))
    check_any(items, path)
    return Annotations(shape=shape, items=tuple(items), image=image, notes=tuple(notes))


def read_xml(path: Path) -> Any:
    """Read an XML file; entities, which can be made to fill the memory, are refused.

    Raises
    ------
    InputError
        If it is missing or broken; names it, and where.
    """
    from defusedxml import DefusedXmlException
    from defusedxml.ElementTree import ParseError, parse

    try:
        return parse(path).getroot()
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}).") from None
    except ParseError as error:
        raise InputError(f"{path} is broken XML: {error}.") from None
    except DefusedXmlException:
        raise InputError(f"{path} holds XML entities and was not read: they can do harm.") from None
    except (LookupError, ValueError) as error:  # an encoding that is none, or not supported
        raise InputError(f"{path} cannot be read ({error}); save it in UTF-8.") from None


def _whole(text: str | None) -> int:
    try:
        return int(float(text or 0))
    except (ValueError, OverflowError):
        return 0
