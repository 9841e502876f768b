"""GeoJSON as QuPath and GIS software read it.

In pixels, (0, 0) is the outer corner of the image's first pixel and y goes down, as in QuPath.
World coordinates are those of the image's reference system. The file states which it uses.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final, Literal
from uuid import NAMESPACE_URL, uuid5

import numpy as np

from ...base.errors import InputError
from ...base.identity import Position
from ..crs import Bounds, Coordinates, crs_name, find_coordinates, to_world
from .annotation import Annotation, Annotations, color_of
from .annotation_building import AnnotationFormat, Drawn, LeftOut, Outline, Parsed
from .json_files import Id, Loose, Name, Record, to_json_types, write_json
from .listed_images import ImageReference, ListedImage, whole_size
from .polygons import outline, polygons_of

OURS: Final = "napari-maskinversion"
_AREAS: Final = ("Polygon", "MultiPolygon", "GeometryCollection")
# Properties with the class of a feature, and with its id, in letters of any size.
_LABELS: Final = ("label", "class", "class_name", "classification", "category", "type", "name")
_IDS: Final = ("fid", "id")
_MOST: Final = 1e9
_PLANE_AXES: Final = ("c", "z", "t")
_CHILD: Final = ", child"


def is_geojson(page: Any) -> bool:
    """Return whether JSON content is GeoJSON, or a list of it, as of QuPath and of lines."""
    if isinstance(page, list):
        return bool(page) and all(isinstance(item, dict) and is_geojson(item) for item in page)
    kind = None
    if isinstance(page, dict):
        kind = page.get("type")
    bare = kind in _AREAS and ("coordinates" in page or "geometries" in page)
    return bare or kind in ("FeatureCollection", "Feature")


def _features(page: Any, path: Path) -> list[Any]:
    """Return the features of all that is GeoJSON; a geometry becomes one for each of its parts."""
    if isinstance(page, dict) and page.get("type") == "FeatureCollection":
        return list(page["features"])
    if isinstance(page, dict) and page.get("type") == "GeometryCollection":
        page = page.get("geometries")
    if isinstance(page, list):
        features = []
        for part in page:
            features += _features(part, path)
        return features
    bare = isinstance(page, dict) and "coordinates" in page
    if bare:
        return [{"type": "Feature", "geometry": page}]
    return [page]


def write_geojson(annotations: Annotations, path: Path, *, world: bool = False) -> None:
    """Write GeoJSON in pixels or world coordinates."""
    geo = None
    if world:
        geo = annotations.geo
    if world and geo is None:
        raise InputError(
            f"{annotations.image or 'The image'} has no georeference; write GeoJSON in pixels."
        )
    features = []
    for number, item in enumerate(annotations.items):
        shape = outline(item.region)
        if geo is not None:
            shape = to_world(shape, geo)
        geometry = _polygons(shape)
        plane = dict(item.position)
        if any(axis in plane for axis in _PLANE_AXES):
            default = {"c": -1, "z": 0, "t": 0}
            geometry["plane"] = {axis: plane.get(axis, default[axis]) for axis in _PLANE_AXES}
        features.append(
            {
                "type": "Feature",
                # Deterministic: the same regions get the same ids.
                "id": str(uuid5(NAMESPACE_URL, f"{annotations.image}/{number}/{item.region.id}")),
                "geometry": geometry,
                "properties": _properties(item, annotations),
            }
        )
    page: dict[str, Any] = {"type": "FeatureCollection"}
    if geo is not None and geo.epsg is not None:
        page["crs"] = {"type": "name", "properties": {"name": crs_name(geo.epsg)}}
    page[OURS] = {
        "version": 1,
        "image": annotations.image,
        "height": annotations.shape[0],
        "width": annotations.shape[1],
        "coordinates": "pixel" if geo is None else "world",
        "meaning": "(x, y); (0, 0) is the outer corner of the first pixel, y goes down"
        if geo is None
        else "(x, y) in the image's reference system",
        "epsg": None if geo is None else geo.epsg,
        **annotations.about,
    }
    page["features"] = features
    write_json(page, path, indent=None)


def _polygons(shape: Any) -> dict[str, Any]:
    """Convert to GeoJSON: exteriors counter-clockwise, holes clockwise."""
    from shapely.geometry import mapping
    from shapely.geometry.polygon import orient

    parts = [mapping(orient(part))["coordinates"] for part in polygons_of(shape)]
    if len(parts) == 1:
        return {"type": "Polygon", "coordinates": _lists(parts[0])}
    return {"type": "MultiPolygon", "coordinates": [_lists(part) for part in parts]}


def _lists(rings: Any) -> list[list[list[float]]]:
    # Integers without a decimal point make files a third smaller.
    lists = []
    for ring in rings:
        corners = []
        for x, y in ring:
            corners.append([_whole(x), _whole(y)])
        lists.append(corners)
    return lists


def _whole(number: float) -> float:
    """Return a whole number without its decimal point."""
    if number == int(number):
        return int(number)
    return number


def _properties(item: Annotation, annotations: Annotations) -> dict[str, Any]:
    values = to_json_types(item.columns)
    numbers = {}
    for key, value in values.items():
        if type(value) in (int, float):
            numbers[key] = value
    if item.score is not None and math.isfinite(item.score):
        numbers = {"score": float(item.score), **numbers}
    texts = {}
    for key, value in values.items():
        if isinstance(value, str) and value:
            texts[key] = value
    attributes = to_json_types(item.values).items()
    properties_read = {}
    for name, value in attributes:
        properties_read[f"source_{name}" if name in _TAKEN else name] = value
    properties: dict[str, Any] = {
        **properties_read,
        "objectType": "annotation",
        "name": f"region {item.region.id}",
        "region": item.region.id,
    }
    if item.position:
        properties["position"] = dict(item.position)
    if item.label:
        properties["classification"] = {
            "name": item.label,
            "color": list(color_of(annotations, item.label)),
        }
    if numbers:
        properties["measurements"] = numbers
    if texts:
        properties["metadata"] = texts
    return properties


class _Class(Record):
    """QuPath's classification."""

    name: Loose[Name] = None
    names: Loose[list[Name]] = None  # Of a class derived from others, since QuPath 0.6


class _Properties(Record):
    """What features of QuPath and of this program have; others are attributes."""

    classification: Loose[_Class | Name] = None
    objectType: Loose[  # noqa: N815 - QuPath's names
        Literal["annotation", "detection", "cell", "tile", "tmaCore", "tma_core", "root", "unknown"]
    ] = None
    region: Loose[int] = None
    position: Loose[dict[str, int]] = None
    measurements: Loose[dict[str, Any] | list[dict[str, Any]]] = None  # A list before QuPath 0.4
    metadata: Loose[dict[str, Any]] = None
    childObjects: Loose[list[dict[str, Any]]] = None  # noqa: N815
    children: Loose[list[dict[str, Any]]] = None


class _Feature(Record):
    id: Loose[Id] = None
    geometry: Loose[dict[str, Any]] = None
    properties: Loose[dict[str, Any]] = None

    @cached_property
    def about(self) -> _Properties:
        """The properties that are read."""
        return _Properties.of(self.properties)

    @property
    def is_of_qupath(self) -> bool:
        """Whether QuPath, or this program, wrote it."""
        from_qupath = self.about.objectType is not None or isinstance(
            self.about.classification, _Class
        )
        return from_qupath or "isLocked" in (self.properties or {})


# An attribute of this name is written with "source_" before it.
_TAKEN: Final = {*_Properties.model_fields, "name", "color", "isLocked"}


def parse_geojson(page: Any, path: Path, image: ImageReference) -> Parsed:
    """Return the features of a file; objects inside others, as QuPath nests them, stand alone.

    `find_coordinates` tells pixels from world coordinates.
    """
    if isinstance(page, list):
        pages = page
    else:
        pages = [page]
    head = next((part for part in pages if isinstance(part, dict)), {})
    ours = head.get(OURS)
    if not isinstance(ours, dict):
        ours = {}
    named = list(_with_children(_features(page, path), f"{path}, feature"))
    notes = list(_notes_on(named, path))
    # Those without an area are left out below, and their planes do not count.
    areas = []
    for _, feature in named:
        if (feature.geometry or {}).get("type") in _AREAS:
            areas.append(feature)
    places = dict(zip(map(id, areas), _positions(areas, ours=bool(ours)), strict=True))
    coordinates = find_coordinates(
        path,
        crs=head.get("crs"),
        said=str(ours.get("coordinates") or ""),
        of_qupath=any(feature.is_of_qupath for feature in areas),
        bounds=lambda: _bounds(areas),
        geo=image.geo,
        shape=image.shape,
        without=image.without,
        notes=notes,
    )
    objects = []
    for where, feature in named:
        objects.append(
            _drawn(where, feature, places.get(id(feature), ()), coordinates, ours=bool(ours))
        )
    return Parsed(
        objects=objects,
        images=[
            ListedImage(
                name=str(ours.get("image") or ""),
                size=whole_size(ours.get("height"), ours.get("width")),
            )
        ],
        notes=notes,
        geo=coordinates.geo,
        coordinates=f"its coordinates were read as {coordinates.name}",
    )


def _drawn(
    where: str, feature: _Feature, position: Position, coordinates: Coordinates, *, ours: bool
) -> Drawn:
    about = feature.about
    label = about.classification
    if isinstance(label, _Class):
        label = label.name or ": ".join(map(str, label.names or []))
    read = set()
    for name in _Properties.model_fields:
        if getattr(about, name) is not None:
            read.add(name)
    if not ours:
        read -= {"region", "position"}
    if about.objectType:
        read |= {"color", "isLocked"}
    values = {}
    for name, v in (feature.properties or {}).items():
        if name not in read:
            values[name] = v
    numbers = about.measurements or {}
    if isinstance(numbers, list):
        numbers = {
            str(measurement.get("name")): measurement.get("value") for measurement in numbers
        }
    number = feature.id
    score = numbers.get("score")
    if ours:  # its measurements and texts are results
        values.pop("name", None)
    else:
        values |= {**numbers, **(about.metadata or {})}
        score = values.pop("score", None)
        # QuPath's objects have names besides their class.
        label = label or take_label(values, _LABELS[: -1 if about.objectType else None])
        if number is None:
            number = take_label(values, _IDS)
    return Drawn(
        where=where,
        geometry=partial(_geometry, feature.geometry, coordinates),
        label="" if label is None else str(label),
        id=about.region if ours else None,
        position=position,
        score=score,
        values=values,
        source_id="" if number is None else str(number),
    )


def take_label(values: dict[str, Any], names: Sequence[str] = _LABELS) -> Any:
    """Remove the first of some attributes that is a text, else a whole number; None for none."""
    labels = {}
    for key, v in values.items():
        if type(v) in (int, str) and v != "":
            labels[key] = v
    keys = {key.lower(): key for key in labels}
    named = []
    for key in names:
        if key in keys:
            named.append(keys[key])
    named.sort(key=lambda key: isinstance(labels[key], int))  # numbers of classes last
    if named:
        return values.pop(named[0])
    return None


def _with_children(features: Sequence[Any], parent: str) -> Iterator[tuple[str, _Feature]]:
    """Yield features and the objects that QuPath nests in them, with their names for messages."""
    for number, content in enumerate(features, 1):
        where = f"{parent} {number}"
        feature = _Feature.of(content)
        children = feature.about.childObjects or feature.about.children or []
        if any(child.get("type") != "Feature" for child in children):
            children = []  # An attribute of another program
        if not (children and feature.geometry is None):  # QuPath's root has no outline
            yield where, feature
        yield from _with_children(children, where + _CHILD)


def _notes_on(named: Sequence[tuple[str, _Feature]], path: Path) -> Iterator[str]:
    """Yield what becomes of objects in others, and of cells with a nucleus."""
    if inner := sum(_CHILD in where.removeprefix(str(path)) for where, _ in named):
        yield f"{path} has {inner} objects inside others; they are regions of their own."
    if nuclei := sum("nucleusGeometry" in (feature.model_extra or {}) for _, feature in named):
        yield (
            f"{path} has {nuclei} cells with a nucleus; the region is the cell. For nuclei, export "
            "them from QuPath as objects of their own."
        )


def _shape(geometry: dict[str, Any]) -> Any:
    """Return a geometry in two dimensions."""
    import shapely
    from shapely.geometry import shape as shape_of

    return shapely.force_2d(shape_of(geometry))


def _geometry(geometry: dict[str, Any] | None, coordinates: Coordinates) -> Outline:
    """Return the polygons of a feature, in pixels."""
    import shapely

    if geometry is None:
        raise LeftOut("has no geometry")
    drawn = _shape(geometry)
    if not np.isfinite(shapely.get_coordinates(drawn)).all():
        raise ValueError("it has coordinates that are not numbers")
    shape = coordinates.to_pixels(drawn)
    if not np.isfinite(shapely.get_coordinates(shape)).all():
        raise LeftOut("lies where the CRS of the image is not defined")
    polygons = polygons_of(shape)
    if not polygons:
        raise LeftOut("is empty" if drawn.is_empty else f"is a {drawn.geom_type}")
    return Outline(polygons)


def _bounds(features: Sequence[_Feature]) -> list[Bounds]:
    """Return the boxes of all features that can be read, and lie on earth."""
    boxes = []
    for feature in features:
        with suppress(Exception):  # shapely raises many kinds; it is left out below
            boxes.append(_shape(feature.geometry or {}).bounds)
    return [box for box in boxes if np.abs(box).max() < _MOST]


def _positions(features: Sequence[_Feature], *, ours: bool) -> list[Position]:
    """Return the planes of features; QuPath's without axes on which all are 0."""
    places = [feature.about.position for feature in features]
    if ours and None not in places:
        positions = []
        for position in places:
            plane = {axis: max(0, number) for axis, number in (position or {}).items()}
            positions.append(tuple(plane.items()))
        return positions
    planes = [_plane_of_qupath(feature) for feature in features]
    axes = []
    for axis in "tz":
        if any(plane.get(axis) for plane in planes):
            axes.append(axis)
    return [_on_axes(plane, axes) for plane in planes]


def _plane_of_qupath(feature: _Feature) -> dict[str, int]:
    """Return what QuPath says about the plane of a feature, by axis."""
    plane = (feature.geometry or {}).get("plane")
    if not isinstance(plane, dict):
        return {}
    numbers = {}
    for axis in "tz":
        number = plane.get(axis)
        if type(number) is int:
            numbers[axis] = max(0, number)  # -1 is all planes
    return numbers


def _on_axes(plane: Mapping[str, int], axes: Sequence[str]) -> Position:
    return tuple((axis, plane.get(axis, 0)) for axis in axes)


GEOJSON: Final = AnnotationFormat(
    name="GeoJSON",
    suffixes=(".geojson", ".json", ".geojsonl", ".geojsons", ".ndjson", ".jsonl"),
    content="a collection of features",
    markers=((b'"FeatureCollection"',), (b'"Feature"',)),
    matches=is_geojson,
    parse=parse_geojson,
)
