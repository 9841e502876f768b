"""Label images of regions and of classes, with a list of names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...base.atomic_files import atomic_path, together
from ...base.errors import InputError
from ...base.identity import Position
from ...images.tiff import PROGRAM
from .annotation import Annotation, Annotations, color_of
from .json_files import as_score, read_json, to_json_types, write_json
from .label_tiles import write_tiles


def write_label_maps(annotations: Annotations, instances: Path) -> None:
    """Write a label image of regions, one of classes, and a JSON file that describes both.

    The files are ``NAME.tif``, ``NAME_classes.tif`` and ``NAME.json``. Where regions overlap, the
    smaller one is on top. Planes are pages, in the order of the JSON file. Both images are tiled
    and made tile by tile.
    """
    classes, sidecar = map_files(instances)[1:]
    values = instance_values(annotations.items)
    labels = annotations.class_ids
    kinds = [labels.get(item.label, 0) for item in annotations.items]
    names = {
        str(value): f"{item.region.id} {item.label}".strip()
        for value, item in zip(values, annotations.items, strict=True)
    }
    about = {"coordinates": "pixels", "value 0": "no region"}
    named = {str(number): label for label, number in labels.items()}
    record = {
        "instances": instances.name,
        "classes": classes.name,
        "image": annotations.image,
        "height": annotations.shape[0],
        "width": annotations.shape[1],
        "planes": [dict(position) for position in annotations.planes],
        "labels": [
            {"value": number, "name": label, "color": list(color_of(annotations, label))}
            for label, number in labels.items()
        ],
        "regions": [
            {
                "value": value,
                "region": item.region.id,
                "plane": dict(item.position),
                "label": item.label,
                "score": item.score,
                **to_json_types(item.values),
            }
            for value, item in zip(values, annotations.items, strict=True)
        ],
        **annotations.about,
    }
    with together(instances.parent):
        _write_map(annotations, values, instances, {**about, "names": names})
        _write_map(annotations, kinds, classes, {**about, "names": named})
        write_json(record, sidecar)


def map_files(instances: Path) -> tuple[Path, Path, Path]:
    """Return the files that `write_label_maps` writes."""
    classes = instances.with_name(f"{instances.stem}_classes{instances.suffix}")
    return instances, classes, instances.with_suffix(".json")


@dataclass(frozen=True, slots=True)
class LabelNames:
    """Content of the JSON file next to a label image."""

    planes: tuple[Position, ...] = ()  # Planes of the pages
    # Label and score of each region, by plane and value
    regions: Mapping[tuple[Position, int], tuple[str, float | None]] = field(default_factory=dict)


def read_names(instances: Path) -> LabelNames:
    """Read the JSON file next to a label image; empty if we did not write one."""
    sidecar = map_files(instances)[2]
    if not sidecar.is_file():
        return LabelNames()
    try:
        record = read_json(sidecar)
        if record["instances"] != instances.name:
            return LabelNames()
        planes = tuple(_position(place) for place in record["planes"])
        regions = {
            (_position(one["plane"]), int(one["value"])): (
                str(one["label"] or ""),
                as_score(one["score"]),
            )
            for one in record["regions"]
        }
    except (InputError, KeyError, TypeError, ValueError, AttributeError):
        return LabelNames()
    return LabelNames(planes, regions)


def _position(place: Mapping[str, Any]) -> Position:
    return tuple((str(axis), int(at)) for axis, at in place.items())


def instance_values(items: Sequence[Annotation]) -> list[int]:
    """Return pixel values of regions: their ids if unique and positive, else 1, 2, ...

    The same id on several planes is the same object.
    """
    seen = {(item.position, item.region.id) for item in items}
    if len(seen) == len(items) and all(0 < item.region.id < 2**32 for item in items):
        return [item.region.id for item in items]
    return list(range(1, len(items) + 1))


def label_type(values: Iterable[int]) -> np.dtype[Any]:
    """Return the smallest type of unsigned numbers that holds pixel values."""
    top = max(values, default=0)
    return np.dtype(f"<u{1 if top < 2**8 else 2 if top < 2**16 else 4}")


def _write_map(
    annotations: Annotations,
    values: Sequence[int],
    path: Path,
    metadata: dict[str, Any],
) -> None:
    pairs = list(zip(values, annotations.items, strict=True))
    pages = [
        [(value, item.region) for value, item in pairs if item.position == position]
        for position in annotations.planes
    ]
    with atomic_path(path) as part:
        write_tiles(part, pages, annotations.shape, label_type(values), metadata, PROGRAM)
