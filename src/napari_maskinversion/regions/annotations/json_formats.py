"""JSON of VGG Image Annotator (1 and 2), Create ML and Label Studio. Read only."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import degrees
from pathlib import Path
from typing import Any, Final

from pydantic import AliasChoices, Field

from .annotation_building import AnnotationFormat, Box, Drawn, Geometry, LeftOut, Outline, Parsed
from .geojson import take_label
from .json_files import Id, Loose, Name, Record
from .listed_images import ImageReference, ListedImage, choose_images, whole_size
from .polygons import ellipse, finite, ring, turned

_NO_AREA: Final = ("point", "line", "polyline")


def _numbers(record: Mapping[str, Any], *names: str) -> list[float]:
    return [finite(record.get(name), name) for name in names]


class _ViaImage(Record):
    filename: Loose[str] = None
    regions: Loose[list[Any] | dict[str, Any]] = None  # An object in VIA 1


class _ViaRegion(Record):
    shape_attributes: Loose[dict[str, Any]] = None
    region_attributes: Loose[dict[str, Any]] = None


def is_via(page: Any) -> bool:
    """Return whether JSON content is a project of VIA, or the regions of one."""
    images = None
    if isinstance(page, dict):
        images = page.get("_via_img_metadata", page)
    first = None
    if isinstance(images, dict):
        first = next(iter(images.values()), None)
    return isinstance(first, dict) and {"filename", "regions"} <= first.keys()


def parse_via(images: list[_ViaImage], path: Path, image: ImageReference) -> Parsed:
    """Return the regions of an image; one of their attributes is the name."""
    listed = []
    for number, entry in enumerate(images):
        listed.append(ListedImage(key=number, name=entry.filename or ""))
    (chosen,) = choose_images(listed, path, image)
    regions = images[chosen.key].regions or []
    objects = []
    for number, entry in enumerate(regions.values() if isinstance(regions, dict) else regions, 1):
        record = _ViaRegion.of(entry)
        values = {}
        for name, value in (record.region_attributes or {}).items():
            values[name] = _ticked(value)
        label = take_label(values)
        if label is None and len(values) == 1:
            label = values.popitem()[1]
        objects.append(
            Drawn(
                where=f"{path}, {chosen.name}, region {number}",
                geometry=partial(_via_geometry, record.shape_attributes or {}),
                label="" if label is None else str(label),
                values={name: value for name, value in values.items() if value != ""},
            )
        )
    return Parsed(objects=objects, images=[chosen])


def _ticked(value: Any) -> Any:
    """Return the ticked boxes as a text, and any other value unchanged."""
    if isinstance(value, dict):
        return ", ".join(key for key, on in value.items() if on)
    return value


def _via_geometry(shape: Mapping[str, Any]) -> Geometry:
    kind = shape.get("name")
    if kind in _NO_AREA:
        raise LeftOut(f"is a {kind}")
    if kind == "polygon":
        x, y = (shape.get(f"all_points_{axis}") or [] for axis in "xy")
        return Outline([ring(list(zip(x, y, strict=True)))])
    if kind == "rect":
        left, top, wide, high = _numbers(shape, "x", "y", "width", "height")
        return Box(top, left, top + high, left + wide)
    if kind == "circle":
        names = ("cx", "cy", "r", "r")
    else:
        names = ("cx", "cy", "rx", "ry")
    theta = degrees(finite(shape.get("theta") or 0, "theta"))
    return Outline([turned(ellipse(*_numbers(shape, *names)), theta)])


class _Boxes(Record):
    # Create ML 0.5 called them otherwise
    image: Loose[str] = Field(None, validation_alias=AliasChoices("image", "imagefilename"))
    annotations: Loose[list[Any]] = Field(
        None, validation_alias=AliasChoices("annotations", "annotation")
    )


class _Labelled(Record):
    label: Loose[Name] = None
    coordinates: Loose[dict[str, Any]] = None

    def box(self) -> Box:
        """Its box; the file has its centre and size."""
        x, y, wide, high = _numbers(self.coordinates or {}, "x", "y", "width", "height")
        return Box(y - high / 2, x - wide / 2, y + high / 2, x + wide / 2)


def is_create_ml(page: Any) -> bool:
    """Return whether JSON content is a list of images with their boxes."""
    first = _Boxes.of(page[0] if isinstance(page, list) and page else None)
    return first.image is not None and first.annotations is not None


def parse_create_ml(entries: list[_Boxes], path: Path, image: ImageReference) -> Parsed:
    """Return the boxes of an image."""
    listed = []
    for number, entry in enumerate(entries):
        listed.append(ListedImage(key=number, name=entry.image or ""))
    (chosen,) = choose_images(listed, path, image)
    objects = []
    for number, box in enumerate(map(_Labelled.of, entries[chosen.key].annotations or []), 1):
        objects.append(
            Drawn(
                where=f"{path}, {chosen.name}, box {number}",
                geometry=partial(_Labelled.box, box),
                label=box.label or "",
            )
        )
    return Parsed(objects=objects, images=[chosen])


class _Task(Record):
    data: Loose[dict[str, Any]] = None
    annotations: Loose[list[dict[str, Any]]] = None

    def results(self, where: str, notes: list[str]) -> list[_Result]:
        """Return what was drawn, by the first annotation that counts."""
        drawn = []
        for annotation in self.annotations or ():
            if not annotation.get("was_cancelled"):
                drawn.append(annotation)
        if len(drawn) > 1:
            notes.append(f"{where} has {len(drawn)} annotations; the first one was read.")
        lists = [annotation.get("result") for annotation in drawn[:1]]
        if self.annotations is None:  # JSON-MIN has a list for each kind of label
            lists = list((self.model_extra or {}).values())
        every = []
        for entries in lists:
            if isinstance(entries, list):
                for entry in entries:
                    every.append(_Result.of(entry))
        # Those without a width are about the whole image.
        return [result for result in every if result.original_width]


class _Result(Record):
    id: Loose[Id] = None
    original_width: Loose[int] = None
    original_height: Loose[int] = None
    image_rotation: Any = None
    value: Loose[dict[str, Any]] = None  # JSON-MIN has its members beside the others


def is_label_studio(page: Any) -> bool:
    """Return whether JSON content is tasks of Label Studio (JSON or JSON-MIN)."""
    first = page[0] if isinstance(page, list) and page else page
    keys = first.keys() if isinstance(first, dict) else set()
    return {"data", "annotations"} <= keys or {"annotation_id", "annotator"} <= keys


def _listed_tasks(page: Any, _: Path) -> list[tuple[_Task, ListedImage]]:
    listed = []
    for number, entry in enumerate(page if isinstance(page, list) else [page]):
        task = _Task.of(entry)
        about = (task.model_extra if task.data is None else task.data) or {}
        names = (about.get(key) for key in ("image", *about))
        name = next((value for value in names if isinstance(value, str)), "")
        sizes = (whole_size(r.original_height, r.original_width) for r in task.results("", []))
        listed.append((task, ListedImage(key=number, name=name, size=next(sizes, None))))
    return listed


def parse_label_studio(
    tasks: list[tuple[_Task, ListedImage]], path: Path, image: ImageReference
) -> Parsed:
    """Return the shapes of an image; results of one id are one region."""
    (chosen,) = choose_images([listed_image for _, listed_image in tasks], path, image)
    where = f"{path}, {chosen.name}"
    notes: list[str] = []
    regions: dict[Any, tuple[_Result, dict[str, Any]]] = {}
    for number, result in enumerate(tasks[chosen.key][0].results(where, notes)):
        _, members = regions.setdefault(
            f"#{number}" if result.id is None else result.id, (result, {})
        )
        members.update((result.model_extra if result.value is None else result.value) or {})
    objects = []
    for number, (result, members) in enumerate(regions.values(), 1):
        lists = {}
        for key, value in members.items():
            if isinstance(value, list):
                lists[key] = value
        texts = {}
        for key, v in lists.items():
            if set(map(type, v)) == {str}:
                texts[key] = ", ".join(v)
        labels = []
        for key in list(texts):
            if key.endswith("labels"):
                labels.append(texts.pop(key))
        objects.append(
            Drawn(
                where=f"{where}, region {number}",
                geometry=partial(_label_studio_geometry, result, members),
                label=next(iter(labels), ""),
                values=texts,
                source_id="" if result.id is None else str(result.id),
            )
        )
    return Parsed(objects=objects, images=[chosen], notes=notes)


def _label_studio_geometry(result: _Result, members: Mapping[str, Any]) -> Geometry:
    """Return a shape, which the file has in percent of the image."""
    import shapely

    if "rle" in members:
        raise LeftOut("is a brush stroke (in Label Studio, export 'Brush labels to PNG')")
    if result.image_rotation:
        raise LeftOut("was drawn on a turned image")
    shares = (result.original_width or 0) / 100, (result.original_height or 0) / 100
    if "points" in members:
        drawn = ring(members["points"])
    elif "radiusX" in members:
        drawn = ellipse(*_numbers(members, "x", "y", "radiusX", "radiusY"))
    elif "height" in members:
        x, y, wide, high = _numbers(members, "x", "y", "width", "height")
        drawn = ring([(x, y), (x + wide, y), (x + wide, y + high), (x, y + high)])
    else:
        raise LeftOut("is a point")
    drawn = shapely.transform(drawn, lambda points: points * shares)
    if "radiusX" in members:
        about = "center"
    else:
        about = drawn.exterior.coords[0]
    return Outline([turned(drawn, finite(members.get("rotation") or 0, "rotation"), about)])


VIA: Final = AnnotationFormat(
    name="VGG Image Annotator",
    content="images with filename, regions",
    markers=((b'"shape_attributes"', b'"filename"'),),
    matches=is_via,
    parse=parse_via,
    prepare=lambda page, _: [
        _ViaImage.of(entry) for entry in page.get("_via_img_metadata", page).values()
    ],
)
CREATE_ML: Final = AnnotationFormat(
    name="Create ML",
    content="a list of image, annotations",
    markers=((b'"coordinates"', b'"label"', b'"image"'),),
    matches=is_create_ml,
    parse=parse_create_ml,
    prepare=lambda page, _: [_Boxes.of(entry) for entry in page],
)
LABEL_STUDIO: Final = AnnotationFormat(
    name="Label Studio",
    content="tasks with data, annotations",
    markers=((b'"original_width"',),),
    matches=is_label_studio,
    parse=parse_label_studio,
    prepare=_listed_tasks,
)
