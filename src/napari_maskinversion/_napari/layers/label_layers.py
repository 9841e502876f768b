"""Annotations as label images: as few as keep every pixel of each region. No Qt."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...base.errors import InputError
from ...regions.annotations.annotation import Annotation, Annotations, binary_mask
from .feature_rows import whole

if TYPE_CHECKING:
    import pandas as pd

_MOST_PIXELS: Final = 2_000_000_000


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


def words_of(annotations: Annotations) -> dict[str, Any]:
    """Names in a file and their numbers, as the metadata of a Labels layer has them."""
    return {"vocabulary": list(annotations.labels), **annotations.coco_numbers}


def source_names(features: Any) -> dict[int, tuple[str, str]]:
    """Return name and id by label, for features of regions that come from a file; else nothing."""
    if features is None or not {"index", "label", "source_id"} <= set(features):
        return {}
    rows = zip(*(features[name] for name in ("index", "label", "source_id")), strict=True)
    return {
        label: (name if isinstance(name, str) else "", own if isinstance(own, str) else "")
        for index, name, own in rows
        if (label := whole(index))
    }
