"""Label images: which region, and which name, each pixel belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ...base.atomic_files import FileSet, atomic_path, together
from ...base.errors import InputError
from .annotation import Annotation, Annotations, Position, color_of
from .json_files import as_score, plain, read_json, write_json
from .label_tiles import write_tiles


def write_label_maps(annotations: Annotations, instances: Path) -> None:
    """Write which region each pixel belongs to, which label, and a list of both.

    These are ``NAME.tif``, ``NAME_classes.tif`` and ``NAME.json``. Where regions overlap the
    smaller one lies above. Planes are pages, in the list's order. Both images are tiled and made
    tile by tile.

    Raises
    ------
    InputError
        If they cannot be written; what was there before stays.
    """
    classes, sidecar = map_files(instances)[1:]
    values = instance_values(annotations.items)
    labels = {label: number for number, label in enumerate(annotations.labels, 1)}
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
                **plain(item.values),
            }
            for value, item in zip(values, annotations.items, strict=True)
        ],
        **annotations.about,
    }
    with together() as files:
        _write_map(annotations, values, instances, {**about, "names": names}, files)
        _write_map(annotations, kinds, classes, {**about, "names": named}, files)
        write_json(record, sidecar, files=files)


def map_files(instances: Path) -> tuple[Path, Path, Path]:
    """Files that `write_label_maps` writes."""
    classes = instances.with_name(f"{instances.stem}_classes{instances.suffix}")
    return instances, classes, instances.with_suffix(".json")


@dataclass(frozen=True, slots=True)
class Named:
    """What the list beside a label image says.

    Attributes
    ----------
    planes : tuple of Position
        Of its pages.
    said : mapping
        Label and score of each region, by plane and value.
    """

    planes: tuple[Position, ...] = ()
    said: Mapping[tuple[Position, int], tuple[str, float | None]] = field(default_factory=dict)


def read_names(instances: Path) -> Named:
    """Read the list beside a label image; nothing where there is none of ours."""
    sidecar = map_files(instances)[2]
    if not sidecar.is_file():
        return Named()
    try:
        record = read_json(sidecar)
        if record["instances"] != instances.name:
            return Named()
        planes = tuple(_position(place) for place in record["planes"])
        said = {
            (_position(one["plane"]), int(one["value"])): (
                str(one["label"] or ""),
                as_score(one["score"]),
            )
            for one in record["regions"]
        }
    except (InputError, KeyError, TypeError, ValueError, AttributeError):
        return Named()
    return Named(planes, said)


def _position(place: Mapping[str, Any]) -> Position:
    return tuple((str(axis), int(at)) for axis, at in place.items())


def instance_values(items: Sequence[Annotation]) -> list[int]:
    """Value of each region: its id where all are whole numbers above 0, else counted from 1.

    On several planes an id may be there several times: it is the same object.
    """
    seen = {(item.position, item.region.id) for item in items}
    if len(seen) == len(items) and all(0 < item.region.id < 2**32 for item in items):
        return [item.region.id for item in items]
    return list(range(1, len(items) + 1))


def _write_map(
    annotations: Annotations,
    values: Sequence[int],
    path: Path,
    metadata: dict[str, Any],
    files: FileSet,
) -> None:
    top = max(values, default=0)
    size = 1 if top < 2**8 else 2 if top < 2**16 else 4
    pairs = list(zip(values, annotations.items, strict=True))
    pages = [
        [(value, item.region) for value, item in pairs if item.position == position]
        for position in annotations.planes
    ]
    with atomic_path(path, files) as part:
        write_tiles(part, pages, annotations.shape, np.dtype(f"<u{size}"), metadata)
