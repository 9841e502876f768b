"""ImageJ's ROIs: a .roi file, or a ZIP of them from the ROI Manager. Read only."""

from __future__ import annotations

import re
import zipfile
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, Final

from ...base.errors import InputError
from ...base.identity import Position
from ...base.reading import is_of_macos, read_bytes
from .annotation import SLICE
from .annotation_building import AnnotationFormat, Drawn, LeftOut, Outline, Parsed, left_out
from .listed_images import ImageReference
from .polygons import ellipse, ring

_MAX_BYTES: Final = 500_000_000  # of all ROIs, as the archive declares them
# Names that tell regions apart and are no classes: the ROI Manager's of positions (0012-0345),
# numbers and UUIDs, as Cellpose gives them.
_AUTOMATIC: Final = re.compile(
    r"[-+]?\d+(\.\d+)?([-_, ]+\d+(\.\d+)?)*|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(-\d+)?",
    re.IGNORECASE,
)
_NUMBER: Final = re.compile(r"\d+")


def read_rois(path: Path) -> list[tuple[str, bytes]]:
    """Return names and contents of ROIs."""
    if path.suffix.lower() != ".zip":
        return [(path.stem, read_bytes(path, "file of regions", most=_MAX_BYTES))]
    with zipfile.ZipFile(path) as archive:
        members = []
        for member in archive.infolist():
            if member.filename.lower().endswith(".roi") and not is_of_macos(
                PurePosixPath(member.filename)
            ):
                members.append(member)
        if sum(member.file_size for member in members) <= _MAX_BYTES:
            rois = []
            for member in members:
                rois.append((Path(member.filename).stem, archive.read(member)))
            return rois
    raise InputError(
        f"{path} declares more than {_MAX_BYTES / 1e6:.0f} MB; save the ROIs in several files."
    )


def parse_imagej(rois: list[tuple[str, bytes]], path: Path, image: ImageReference) -> Parsed:
    """Return ROIs; the name of one is its label, unless a program made it."""
    import roifile

    parsed = []
    notes = list[str]()
    for number, (stem, data) in enumerate(rois, 1):
        with left_out(f"{path}, ROI {number} ({stem})", notes):
            roi = roifile.ImagejRoi.frombytes(data)
            name = str(roi.name or stem)
            parsed.append((f"{path}, ROI {number} ({name})", name, roi))
    positions = _positions([roi for _, _, roi in parsed])
    automatic = {name for _, name, _ in parsed if _AUTOMATIC.fullmatch(name)}
    named = []
    for _, name, _ in parsed:
        if name not in automatic:
            named.append(name)
    # Three or more, all different, and only by their numbers: Roi 1, Roi 2, cell_003, ...
    if len({_NUMBER.sub("0", name) for name in named}) == 1 and 2 < len(named) == len(set(named)):
        notes.append(f"{path}: names such as {named[0]} only number the ROIs and are no words.")
        automatic |= set(named)
    return Parsed(
        objects=[
            Drawn(
                where=where,
                geometry=partial(_geometry, roi),
                label="" if name in automatic else name.strip(),
                position=position,
                source_id=name,
            )
            for (where, name, roi), position in zip(parsed, positions, strict=True)
        ],
        notes=notes,
    )


def _is_area(roi: Any) -> bool:
    from roifile import ROI_SUBTYPE
    from roifile import ROI_TYPE as KINDS

    areas = (KINDS.POLYGON, KINDS.RECT, KINDS.OVAL, KINDS.FREEHAND, KINDS.TRACED)
    return roi.roitype in areas and roi.subtype not in (ROI_SUBTYPE.TEXT, ROI_SUBTYPE.IMAGE)


def _geometry(roi: Any) -> Outline:
    if not _is_area(roi):
        kind = roi.subtype or roi.roitype
        raise LeftOut(f"is of type {kind.name.lower()}, which is no area,")
    if roi.roitype.name == "OVAL":
        wide = (roi.right - roi.left) / 2
        high = (roi.bottom - roi.top) / 2
        return Outline([ellipse(roi.left + wide, roi.top + high, wide, high)])
    try:
        outlines = [ring(points) for points in roi.coordinates(multi=True)]
    except NotImplementedError:
        raise ValueError(
            "it has curves, which are not read; in ImageJ, choose Edit > Selection > Interpolate "
            "and save it again"
        ) from None
    # Composite ROIs are filled as ImageJ does it: inside an odd number of outlines.
    return Outline(outlines, even_odd=len(outlines) > 1)


def _positions(rois: list[Any]) -> list[Position]:
    """Return the planes of ROIs; without axes on which all areas are on the first plane or none.

    In a stack that is no hyperstack ROIs have a slice number alone.
    """
    places = []
    for roi in rois:
        places.append(
            {
                "t": max(0, roi.t_position - 1),
                "z": max(0, roi.z_position - 1),
                SLICE: 0 if roi.t_position or roi.z_position else max(0, roi.position - 1),
            }
        )
    areas = []
    for roi, place in zip(rois, places, strict=True):
        if _is_area(roi):
            areas.append(place)
    used = []
    for axis in ("t", "z", SLICE):
        if any(place[axis] for place in areas):
            used.append(axis)
    positions: list[Position] = []
    for place in places:
        positions.append(tuple((axis, int(place[axis])) for axis in used))
    return positions


IMAGEJ: Final = AnnotationFormat(
    name="ImageJ ROIs",
    suffixes=(".roi", ".zip"),
    content="ROIs of the ROI Manager",
    markers=((b"Iout",), (b"PK", b".roi")),
    load=read_rois,
    matches=bool,
    parse=parse_imagej,
)
