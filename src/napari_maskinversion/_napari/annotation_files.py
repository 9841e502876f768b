"""Annotation files as napari opens and saves them: COCO, GeoJSON, Pascal VOC."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..core.errors import InputError
from ..formats.annotations import Annotation, Annotations, Position, solid
from ..formats.reading import SUFFIXES, is_annotations, read_annotations

if TYPE_CHECKING:
    import pandas as pd

LayerData = tuple[Any, dict[str, Any], str]
_LOOKED_AT: Final = 65_536  # bytes from each end of a file
_NAMES: Final = ("accepted_label", "label", "suggestion", "name", "class", "category")
_MOST_PIXELS: Final = 2_000_000_000


def get_reader(path: str | Sequence[str]) -> Callable[[Any], list[LayerData]] | None:
    """Give what reads a file, if it holds annotations; None for any other JSON or XML."""
    if not isinstance(path, str):
        return None
    place = Path(path)
    return read_layers if is_annotations(place) and _looks_right(place) else None


def _looks_right(path: Path) -> bool:
    """Look at both ends of a file: reading all of a large one would take too long here."""
    try:
        with path.open("rb") as file:
            text = file.read(_LOOKED_AT)
            size = path.stat().st_size
            if size > _LOOKED_AT:
                file.seek(max(_LOOKED_AT, size - _LOOKED_AT))
                text += file.read()
    except OSError:
        return False
    if path.suffix.lower() == ".xml":
        return b"<annotation" in text and b"<bndbox" in text
    coco = b'"annotations"' in text and b'"images"' in text
    return coco or b'"FeatureCollection"' in text or b'"Feature"' in text


def read_layers(path: Any) -> list[LayerData]:
    """Read annotations as Labels layers; where regions overlap, as several, so that none is lost.

    Names and scores are in the layers' features.

    Raises
    ------
    InputError
        If the file is broken; names it and the record.
    """
    from .notify import inform

    annotations = read_annotations(Path(path))
    if annotations.told:
        inform(annotations.told)
    sheets = _sheets(annotations)
    name = Path(path).stem
    return [
        (
            sheet.pixels,
            {
                "name": name if len(sheets) == 1 else f"{name} {number}",
                "features": _features(sheet),
                "metadata": {"vocabulary": list(annotations.labels)},
            },
            "labels",
        )
        for number, sheet in enumerate(sheets, 1)
    ]


@dataclass(slots=True)
class _Sheet:
    pixels: Any
    items: list[tuple[int, Annotation]] = field(default_factory=list)


def _sheets(annotations: Annotations) -> list[_Sheet]:
    """Draw regions on as few label images as keep every pixel of each."""
    axes = list(dict.fromkeys(axis for item in annotations.items for axis, _ in item.position))
    sizes = [
        1 + max(dict(item.position).get(axis, 0) for item in annotations.items) for axis in axes
    ]
    shape = (*sizes, *annotations.shape)
    if math.prod(shape) > _MOST_PIXELS:
        size = " x ".join(map(str, shape))
        raise InputError(
            f"A label image of {size} px is too large to be opened here; use the command line."
        )
    ids = [item.region.id for item in annotations.items]
    keep = all(0 < value < 2**31 for value in ids) and len(set(ids)) == len(ids)
    sheets: list[_Sheet] = []
    for number, item in enumerate(annotations.items, 1):
        value = item.region.id if keep else number
        key = _key(item, axes)
        mask = solid(item.region)
        sheet = next((one for one in sheets if not one.pixels[key][mask].any()), None)
        if sheet is None:
            sheet = _Sheet(np.zeros(shape, np.int32))
            sheets.append(sheet)
        sheet.pixels[key][mask] = value
        sheet.items.append((value, item))
    return sheets


def _key(item: Annotation, axes: Sequence[str]) -> tuple[Any, ...]:
    y0, x0, y1, x1 = item.region.bbox
    places = dict(item.position)
    return (*(places.get(axis, 0) for axis in axes), slice(y0, y1), slice(x0, x1))


def _features(sheet: _Sheet) -> pd.DataFrame:
    import pandas as pd

    # `index` holds the label's value; row 0 is the background.
    rows = [{"index": 0, "label": "", "score": math.nan}]
    rows += [
        {
            "index": value,
            "label": item.label,
            "score": math.nan if item.score is None else item.score,
        }
        for value, item in sheet.items
    ]
    return pd.DataFrame(rows)


def write_coco_layer(path: str, data: Any, about: dict[str, Any]) -> list[str]:
    """Save a Labels layer as COCO JSON."""
    from ..formats.coco import write_coco

    return _write(path, ".json", data, about, write_coco)


def write_geojson_layer(path: str, data: Any, about: dict[str, Any]) -> list[str]:
    """Save a Labels layer as GeoJSON in pixels."""
    from ..formats.geojson import write_geojson

    return _write(path, ".geojson", data, about, write_geojson)


def _write(
    path: str,
    suffix: str,
    data: Any,
    about: dict[str, Any],
    write: Callable[[Annotations, Path], None],
) -> list[str]:
    place = Path(path)
    if place.suffix.lower() not in SUFFIXES:
        place = place.with_name(place.name + suffix)
        if place.exists():  # the dialog asked about the name as it was typed
            raise InputError(f"{place} exists already; save under its full name to replace it.")
    write(annotations_of_layer(data, about), place)
    return [str(place)]


def annotations_of_layer(data: Any, about: dict[str, Any]) -> Annotations:
    """Take the regions of a Labels layer, with the names in its features.

    Parameters
    ----------
    data : array-like, or a list of them from fine to coarse
    about : dict
        The layer's attributes, as napari hands them to writers.

    Raises
    ------
    InputError
        If it has no region.
    """
    from ..images.labels import regions_by_plane

    labels = data if hasattr(data, "shape") else data[0]
    others = len(labels.shape) - 2
    names = ("t", "z")[-others:] if 0 < others <= 2 else tuple(f"axis{i}" for i in range(others))
    planes = regions_by_plane(labels, names=(*names, "y", "x"), mode="each")
    said = _names(about.get("features"))
    items = [
        Annotation(region=region, label=said.get(region.id, ""), position=_whole(plane.position))
        for plane in planes
        for region in plane.regions
    ]
    shape = (int(labels.shape[-2]), int(labels.shape[-1]))
    return Annotations(shape=shape, items=tuple(items), image=str(about.get("name", "")))


def _whole(position: Position) -> Position:
    return tuple((axis, int(at)) for axis, at in position)


def _names(features: Any) -> dict[int, str]:
    """Name of each label value, from the first column that holds names."""
    if features is None or not len(features):
        return {}
    column = next((name for name in _NAMES if name in features), None)
    if column is None:
        return {}
    values = features.get("index", features.index)
    pairs = zip(values, features[column], strict=True)
    return {int(value): name for value, name in pairs if isinstance(name, str)}
