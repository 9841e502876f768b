"""Annotation files: one table of formats, chosen by suffix and content."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from ...base.errors import InputError
from ...base.reading import check_kind
from ...base.units import Georeference
from ...base.validation import composed, without_hidden
from .annotation import Annotations
from .building import AnnotationFormat, build
from .cellpose import CELLPOSE
from .coco import COCO
from .coco_panoptic import COCO_PANOPTIC
from .cvat import CVAT
from .geojson import GEOJSON
from .imagej import IMAGEJ
from .labelme import LABELME
from .listed_images import ImageReference
from .other_programs import UNREAD, way_out
from .voc import VOC
from .yolo import YOLO

# The first one that matches reads a file: COCO would match COCO panoptic, too.
FORMATS: Final[tuple[AnnotationFormat, ...]] = (
    COCO_PANOPTIC,
    COCO,
    GEOJSON,
    LABELME,
    CVAT,
    VOC,
    YOLO,
    IMAGEJ,
    CELLPOSE,
)
SUFFIXES: Final = tuple(dict.fromkeys(suffix for form in FORMATS for suffix in form.suffixes))
"""How names of files of regions end."""
VIEWER_SUFFIXES: Final = tuple(
    dict.fromkeys(suffix for form in FORMATS if form.in_viewer for suffix in form.suffixes)
)
"""Those that napari's *File > Open* reads."""
_STRANGE: Final = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_PEEK: Final = 65_536  # bytes from each end of a file


def is_annotations(path: Path) -> bool:
    """Return whether a file is read as annotations, or refused as such with a way out.

    Its ending decides, and for those that label images have, too, its content.
    """
    formats = [form for form in FORMATS if _ends(path, form.suffixes)]
    if not formats:
        return path.suffix.lower() in UNREAD
    return not all(form.shared for form in formats) or may_hold_annotations(path)


def may_hold_annotations(path: Path) -> bool:
    """Return whether suffix and both ends of a file fit a format.

    Reading all of a large file would take too long while napari looks for a reader.
    """
    try:
        check_kind(path)
        with path.open("rb") as file:
            text = file.read(_PEEK)
            size = path.stat().st_size
            if size > _PEEK:
                file.seek(max(_PEEK, size - _PEEK))
                text += file.read()
    except (OSError, InputError):
        return False
    return any(
        all(marker in text for marker in group)
        for form in FORMATS
        if form.in_viewer and _ends(path, form.suffixes)
        for group in form.markers
    )


def read_annotations(
    path: Path,
    shape: tuple[int, int] | None = None,
    *,
    image: str = "",
    series: int | None = None,
    geo: Georeference | None = None,
) -> Annotations:
    """Read a file in any of `FORMATS`."""
    return open_annotations(path).read(shape, image=image, series=series, geo=geo)


@dataclass(frozen=True, slots=True)
class AnnotationFile:
    """A file of annotations that was parsed, to read what it says about one image or many."""

    path: Path
    format: AnnotationFormat
    content: Any  # What the format's ``prepare`` returned

    def read(
        self,
        shape: tuple[int, int] | None = None,
        *,
        image: str = "",
        series: int | None = None,
        geo: Georeference | None = None,
    ) -> Annotations:
        """Return the regions of an image, as `read_annotations` does."""
        reference = ImageReference(name=image, series=series, shape=shape, geo=geo)
        parsed = self.format.parse(self.content, self.path, reference)
        return _with_plain_labels(build(parsed, self.path, reference), self.path)


def _with_plain_labels(annotations: Annotations, path: Path) -> Annotations:
    """Make labels that look the same the same, and replace what cannot be shown in them."""
    changed = [label for label in annotations.labels if _plain(label) != label]
    if not changed:
        return annotations
    items = tuple(replace(item, label=_plain(item.label)) for item in annotations.items)
    colors = {_plain(label): color for label, color in annotations.colors.items()}
    numbers = {_plain(label): number for label, number in annotations.category_ids.items()}
    notes = annotations.notes
    strange = [label for label in changed if _plain(label) != composed(label)]
    if strange:
        what = f"{path}: signs that cannot be shown were replaced or left out in labels"
        notes = (*notes, f"{what}, such as {strange[0]!a}.")
    if len({_plain(label) for label in annotations.labels}) < len(annotations.labels):
        notes = (*notes, f"{path}: labels that look the same, such as {changed[0]!a}, are one.")
    return replace(annotations, items=items, colors=colors, category_ids=numbers, notes=notes)


def _plain(label: str) -> str:
    return without_hidden(_STRANGE.sub("\N{REPLACEMENT CHARACTER}", composed(label)))


def open_annotations(path: Path) -> AnnotationFile:
    """Parse a file in any of `FORMATS`."""
    check_kind(path)
    formats = _formats_for(path)
    content = formats[0].load(path) if formats else None
    for form in formats:
        if form.matches(content):
            return AnnotationFile(path, form, form.prepare(content, path))
    refusal = way_out(path, content)
    if refusal:
        raise InputError(refusal)
    known = " nor ".join(f"{form.name} ({form.content})" for form in formats or FORMATS)
    neither = "not" if len(formats) == 1 else "neither"
    raise InputError(f"{path} is {neither} {known}; it contains {_describe(content)}.")


def _formats_for(path: Path) -> list[AnnotationFormat]:
    """Formats that share a parser with the first one of this ending."""
    load = next((form.load for form in FORMATS if _ends(path, form.suffixes)), None)
    return [form for form in FORMATS if form.load is load]


def _ends(path: Path, suffixes: tuple[str, ...]) -> bool:
    return path.name.lower().endswith(suffixes)


def _describe(content: Any) -> str:
    if isinstance(content, dict):
        keys = ", ".join(map(str, list(content)[:5]))
        return f"an object with {keys or 'nothing'}"
    if isinstance(content, list):
        return "a list"
    tag = getattr(content, "tag", None)
    return "a single value" if tag is None else f"a root {tag!r}"
