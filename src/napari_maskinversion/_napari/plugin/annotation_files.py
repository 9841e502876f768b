"""Files of regions of other programs, as napari opens and saves them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ...app.layer_input.label_layers import COCO, COVERED, layer_of, source_facts, uncovered, whole
from ...base.errors import InputError
from ...regions.annotations.annotation import Annotation, Annotations, CocoFacts
from ...regions.annotations.annotation_reading import may_hold_annotations, read_annotations
from ..layers.placing import REGIONS_OPACITY

if TYPE_CHECKING:
    import pandas as pd

    from ...images.lazy_plane import ArrayLike


LayerData = tuple[Any, dict[str, Any], str]
# Pixels of a Labels layer, or those of the levels of its pyramid
LayerPixels: TypeAlias = "ArrayLike | list[ArrayLike]"
_NAMES: Final = ("accepted_label", "label", "suggestion", "name", "class", "category")


def get_reader(path: str | Sequence[str]) -> Callable[[str], list[LayerData]] | None:
    """Return the reader of an annotation file; None for any other file."""
    if not isinstance(path, str):
        return None
    return read_layers if may_hold_annotations(Path(path)) else None


def read_layers(path: str) -> list[LayerData]:
    """Read annotations as a Labels layer, with names and scores in its features."""
    from ..workers.notify import inform

    annotations = read_annotations(Path(path))
    if annotations.notes_text:
        inform(annotations.notes_text)
    # Arrays of the size of the file's planes.
    axes = list(dict.fromkeys(axis for item in annotations.items for axis, _ in item.position))
    places = [dict(item.position) for item in annotations.items]
    sizes = [1 + max(place.get(axis, 0) for place in places) for axis in axes]
    shape, count = (*sizes, *annotations.shape), len(axes)
    numbers = {axis: number for number, axis in enumerate(axes)}
    pixels, about = layer_of(annotations, shape, numbers, (count, count + 1), Path(path).stem)
    return [(pixels, about | {"opacity": REGIONS_OPACITY}, "labels")]


def write_coco_layer(path: str, data: LayerPixels, about: dict[str, Any]) -> list[str]:
    """Save a Labels layer as COCO JSON."""
    from ...regions.annotations.coco_writing import write_coco

    return _write(path, ".json", data, about, write_coco)


def write_geojson_layer(path: str, data: LayerPixels, about: dict[str, Any]) -> list[str]:
    """Save a Labels layer as GeoJSON in pixels."""
    from ...regions.annotations.geojson import write_geojson

    return _write(path, ".geojson", data, about, write_geojson)


def _write(
    path: str,
    suffix: str,
    data: LayerPixels,
    about: dict[str, Any],
    write: Callable[[Annotations, Path], None],
) -> list[str]:
    place = Path(path)
    if place.suffix.lower() not in (".json", ".geojson"):
        place = place.with_name(place.name + suffix)
        if place.exists():  # the dialog asked about the name as it was typed
            raise InputError(f"{place} already exists; save under its full name to replace it.")
    write(annotations_of_layer(data, about), place)
    return [str(place)]


def annotations_of_layer(data: LayerPixels, about: dict[str, Any]) -> Annotations:
    """Return the regions of a Labels layer, named by its features."""
    from ...regions.label_images import regions_by_plane

    labels = data[0] if isinstance(data, list) else data
    names = _axis_names(len(labels.shape) - 2)
    texts, metadata = _names(about.get("features")), about.get("metadata") or {}
    facts = source_facts(about.get("features"), metadata)
    covered = metadata.get(COVERED) or {}
    items = []
    for plane in regions_by_plane(labels, names=(*names, "y", "x"), mode="each"):
        position = tuple((axis, int(index)) for axis, index in plane.position)
        indices = tuple(index for _, index in position)
        for region in uncovered(plane.regions, covered.get(indices, {})):
            facts_of_region = facts.get(region.id, {})
            items.append(
                Annotation(
                    region=region,
                    label=texts.get(region.id, ""),
                    position=position,
                    source_id=facts_of_region.get("source_id", ""),
                    values=facts_of_region.get("values", {}),
                )
            )
    shape = (int(labels.shape[-2]), int(labels.shape[-1]))
    # Numbers of categories are those of the layer's list of words, used or not.
    words = metadata.get("vocabulary") or ()
    return Annotations(
        shape=shape,
        items=tuple(items),
        image=str(about.get("name", "")),
        colors={str(word): "" for word in words},
        coco=metadata.get(COCO) or CocoFacts(),
    )


def _axis_names(count: int) -> tuple[str, ...]:
    """Return names for so many axes before rows and columns, whose names no layer tells."""
    if count == 1:
        return ("z",)
    if count == 2:
        return ("t", "z")
    return tuple(f"axis{number}" for number in range(count))


def _names(features: pd.DataFrame | None) -> dict[int, str]:
    """Name of each label value, from the first column that holds names."""
    if features is None or not len(features):
        return {}
    column = next((name for name in _NAMES if name in features), None)
    if column is None:
        return {}
    values = features.get("index", features.index)
    pairs = zip(values, features[column], strict=True)
    names: dict[int, str] = {}
    for value, name in pairs:
        label = whole(value)
        if label is not None and isinstance(name, str):
            names[label] = name
    return names
