"""ImageJ's ROIs: a .roi file, or a ZIP of them from the ROI Manager. Read only."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path, PurePosixPath
from typing import Any, Final

import numpy as np

from ...base.errors import InputError
from ...base.identity import Position
from ...base.reading import is_of_macos, read_bytes
from .annotation import Annotation, Annotations, check_not_empty
from .annotation_format import AnnotationFormat, ImageReference
from .polygons import draw_region, ring

_MAX_BYTES: Final = 500_000_000  # of all ROIs, as the archive declares them
_MAX_ROIS: Final = 1_000_000
# Names that the ROI Manager makes of positions: 0012-0345, 0003-0012-0345.
_AUTOMATIC: Final = re.compile(r"\d+(-\d+)+")


def read_rois(path: Path) -> list[tuple[str, bytes]]:
    """Return names and contents of ROIs."""
    try:
        if path.suffix.lower() != ".zip":
            return [(path.stem, read_bytes(path, "file of regions", most=_MAX_BYTES))]
        with zipfile.ZipFile(path) as archive:
            members = [
                one
                for one in archive.infolist()
                if one.filename.lower().endswith(".roi")
                and not is_of_macos(PurePosixPath(one.filename))
            ]
            if sum(one.file_size for one in members) > _MAX_BYTES or len(members) > _MAX_ROIS:
                raise InputError(
                    f"{path} declares more than {_MAX_BYTES / 1e6:.0f} MB or {_MAX_ROIS} ROIs; "
                    "save them in several files."
                )
            return [(Path(one.filename).stem, archive.read(one)) for one in members]
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}).") from None
    except InputError:
        raise
    except Exception as error:  # zipfile raises many kinds on damaged files
        raise InputError(f"{path} is a broken ZIP file: {_first_line(error)}.") from None


def read_imagej(rois: list[tuple[str, bytes]], path: Path, image: ImageReference) -> Annotations:
    """Read areas as regions, counted from 1; see `AnnotationFormat.read`.

    A ROI's name is its label, unless the ROI Manager made it of numbers.
    """
    notes: list[str] = []
    areas: list[tuple[str, str, Any, list[Any]]] = []
    for number, (stem, data) in enumerate(rois, 1):
        roi, outlines = _parsed(data, f"{path}, ROI {number} ({stem})")
        name = str(roi.name or stem)
        where = f"{path}, ROI {number} ({name})"
        if not outlines:
            kind = roi.roitype.name.lower()
            notes.append(f"{where} is of type {kind} and was left out; regions are areas.")
            continue
        areas.append((where, name, roi, outlines))
    check_not_empty(areas, path, notes)
    shape = image.shape
    if shape is None:
        ends = np.array([part.bounds[2:] for *_, parts in areas for part in parts]).max(axis=0)
        wide, high = (max(1, int(np.ceil(end))) for end in ends)
        shape = (high, wide)
        notes.append(f"{path} has no image size; {high} x {wide} px contain all regions.")
    positions = _positions([roi for _, _, roi, _ in areas])
    items: list[Annotation] = []
    for (where, name, _, outlines), position in zip(areas, positions, strict=True):
        # Composite ROIs are filled as ImageJ does it: inside an odd number of outlines.
        composite = len(outlines) > 1
        region = draw_region(len(items) + 1, outlines, where, shape, notes, even_odd=composite)
        label = "" if _AUTOMATIC.fullmatch(name) else name.strip()
        items.append(Annotation(region=region, label=label, position=position, source_id=name))
    return Annotations(shape=shape, items=tuple(items), image=image.name, notes=tuple(notes))


def _parsed(data: bytes, where: str) -> tuple[Any, list[Any]]:
    """Return a ROI and its polygons; none if it has no area."""
    import roifile

    kinds = roifile.ROI_TYPE
    areas = (kinds.POLYGON, kinds.RECT, kinds.OVAL, kinds.FREEHAND, kinds.TRACED)
    try:
        roi = roifile.ImagejRoi.frombytes(data)
        if roi.roitype not in areas:
            return roi, []
        if roi.roitype == kinds.OVAL:
            return roi, [_oval(roi)]
        return roi, [ring(points) for points in roi.coordinates(multi=True)]
    except NotImplementedError:
        raise InputError(
            f"{where} has curves, which are not read; in ImageJ, choose Edit > Selection > "
            "Interpolate and save it again."
        ) from None
    except Exception as error:  # the library checks little
        raise InputError(f"{where} is broken: {_first_line(error)}.") from None


def _oval(roi: Any) -> Any:
    from shapely import Point, affinity

    wide, high = (roi.right - roi.left) / 2, (roi.bottom - roi.top) / 2
    circle = Point(0, 0).buffer(1, quad_segs=64)
    return affinity.affine_transform(circle, (wide, 0, 0, high, roi.left + wide, roi.top + high))


def _positions(rois: list[Any]) -> list[Position]:
    """Return the planes of ROIs; without axes on which all are on the first plane or on none.

    A stack that is no hyperstack has one number, which counts z.
    """
    places = [
        {
            "t": max(0, roi.t_position - 1),
            "z": max(0, (roi.z_position or (0 if roi.t_position else roi.position)) - 1),
        }
        for roi in rois
    ]
    axes = [axis for axis in ("t", "z") if any(place[axis] for place in places)]
    return [tuple((axis, int(place[axis])) for axis in axes) for place in places]


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


IMAGEJ: Final = AnnotationFormat(
    name="ImageJ ROIs",
    suffixes=(".roi", ".zip"),
    content="ROIs of the ROI Manager",
    markers=((b"Iout",), (b"PK", b".roi")),
    load=read_rois,
    matches=bool,
    read=read_imagej,
)
