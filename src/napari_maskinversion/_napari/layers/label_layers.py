"""Annotations as label images and as rows of features, as few as keep every pixel. No Qt."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...base.errors import InputError
from ...regions.annotations.annotation import Annotation, Annotations, binary_mask
from .placing import REGIONS_OPACITY

if TYPE_CHECKING:
    import pandas as pd

_MOST_PIXELS: Final = 2_000_000_000
VALUES: Final = "attributes"
"""Where a layer's metadata has the attributes that regions have in their file, by label."""


@dataclass(frozen=True, slots=True)
class LabelLayer:
    """A label image, and which value is which region."""

    pixels: Any
    items: list[tuple[int, Annotation]] = field(default_factory=list)


def draw_label_layers(
    items: Sequence[Annotation],
    shape: tuple[int, ...],
    place: Callable[[Annotation], tuple[Any, ...]],
) -> list[LabelLayer]:
    """Draw regions, on several label images if they overlap."""
    if math.prod(shape) > _MOST_PIXELS:
        size = " x ".join(map(str, shape))
        raise InputError(
            f"A label image of {size} px is too large for the viewer; use the command line."
        )
    values = _values(items)
    label_layers: list[LabelLayer] = []
    for value, item in zip(values, items, strict=True):
        key, mask = place(item), binary_mask(item.region)
        label_layer = next((one for one in label_layers if not one.pixels[key][mask].any()), None)
        if label_layer is None:
            label_layer = LabelLayer(np.zeros(shape, np.int32))
            label_layers.append(label_layer)
        label_layer.pixels[key][mask] = value
        label_layer.items.append((value, item))
    return label_layers


def _values(items: Sequence[Annotation]) -> list[int]:
    """Ids if they are valid labels; the same id on several planes is one object."""
    ids = [item.region.id for item in items]
    here = {(item.position, item.region.id) for item in items}
    if all(0 < value < 2**31 for value in ids) and len(here) == len(ids):
        return ids
    return list(range(1, len(ids) + 1))


def features_of(label_layer: LabelLayer) -> pd.DataFrame:
    """Names, scores and ids of a label_layer's regions, as a Labels layer has them."""
    import pandas as pd

    # `index` holds the label's value; row 0 is the background.
    rows: dict[int, dict[str, Any]] = {
        0: {"index": 0, "label": "", "score": math.nan, "source_id": ""}
    }
    for value, item in label_layer.items:
        score = math.nan if item.score is None else item.score
        known = rows.get(value)
        if known is None or (item.label and not known["label"]):
            rows[value] = {
                "index": value,
                "label": item.label,
                "score": score,
                "source_id": item.source_id,
            }
    return pd.DataFrame(list(rows.values()))


def layers_of(
    annotations: Annotations,
    shape: tuple[int, ...],
    place: Callable[[Annotation], tuple[Any, ...]],
    name: str,
) -> tuple[list[tuple[Any, dict[str, Any]]], int]:
    """Return data of Labels layers and what else to give them, and how many are in the first.

    Their features hold names and scores; their metadata the file's words and numbers, and the
    attributes of regions.
    """
    drawn = draw_label_layers(annotations.items, shape, place)
    metadata = {"vocabulary": list(annotations.labels), **annotations.coco_numbers}
    values = [{value: dict(item.values) for value, item in one.items} for one in drawn]
    names = [name] if len(drawn) == 1 else [f"{name} {n + 1}" for n in range(len(drawn))]
    layers = [
        (
            one.pixels,
            {
                "name": called,
                "features": features_of(one),
                "metadata": {**metadata, VALUES: own},
                "opacity": REGIONS_OPACITY,
            },
        )
        for called, one, own in zip(names, drawn, values, strict=True)
    ]
    return layers, len(drawn[0].items) if drawn else 0


def source_facts(features: Any, metadata: Mapping[str, Any]) -> dict[int, dict[str, Any]]:
    """Return fields of `Region` by label: what the file of the regions says; else nothing."""
    if features is None or not {"index", "label", "source_id"} <= set(features):
        return {}
    rows = zip(*(features[name] for name in ("index", "label", "source_id")), strict=True)
    values = metadata.get(VALUES) or {}
    return {
        label: {
            "name": name if isinstance(name, str) else "",
            "source_id": own if isinstance(own, str) else "",
            "values": values.get(label, {}),
        }
        for index, name, own in rows
        if (label := whole(index))
    }


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
    own = frame.drop(columns="index").reset_index(drop=True)
    kinds = {name: _can_be_empty(str(kind)) for name, kind in own.dtypes.items()}
    own = own.astype({name: kind for name, kind in kinds.items() if kind})
    padded = own.reindex(range(len(numbers)))
    padded.insert(list(frame.columns).index("index"), "index", numbers)
    return padded


def whole(value: Any) -> int | None:
    """Return a value as a whole number; None for text, fractions and missing values."""
    if isinstance(value, bool) or not isinstance(value, Real):
        return None
    # Large integers are not exact as float.
    if isinstance(value, Integral):
        return int(value)
    return int(float(value)) if float(value).is_integer() else None


def _can_be_empty(kind: str) -> str:
    """Return pandas' nullable type for the same values; empty if the type is nullable."""
    if kind == "bool":
        return "boolean"
    match = re.fullmatch(r"(u?)int(\d+)", kind)
    return f"{match[1].upper()}Int{match[2]}" if match else ""
