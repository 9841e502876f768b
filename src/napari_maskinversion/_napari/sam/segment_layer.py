"""Data and features of the Labels layer that SAM's masks go to. No Qt here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..layers.coordinates import Plane
from ..layers.label_layers import whole, with_index, with_labels
from .segment_task import Painted, SegmentedObject

if TYPE_CHECKING:
    import pandas as pd


def on_axes(labels: Any, plane: Plane) -> Any:
    """Return a plane's labels with the axes of the image."""
    rows, columns = plane.cut.axes
    shape = [1] * len(plane.cut.index)
    shape[rows], shape[columns] = plane.shape
    return (labels if rows < columns else labels.T).reshape(shape)


def off_axes(data: Any, plane: Plane) -> Any:
    """Undo `on_axes`; an array of another size is returned as it is."""
    rows, columns = plane.cut.axes
    height, width = plane.shape
    if np.size(data) != height * width:
        return data
    flat = np.asarray(data).reshape((height, width) if rows < columns else (width, height))
    return flat if rows < columns else flat.T


def features_of(
    painted: Painted, objects: Sequence[SegmentedObject], chosen: Mapping[int, int]
) -> pd.DataFrame:
    """Return the scores of the painted masks, by label."""
    import pandas as pd

    scores = {one.id: score_of(one, chosen) for one in objects}
    ids = sorted(painted.ids)
    values = [scores[name] for name in ids]
    return pd.DataFrame(
        {"index": ids, "score": [np.nan if value is None else value for value in values]}
    )


def renewed_features(before: pd.DataFrame, made: pd.DataFrame) -> pd.DataFrame:
    """Return features with the scores of other masks; the user's columns and rows stay."""
    frame = with_labels(with_index(before), made["index"])
    scores = dict(zip(made["index"], made["score"], strict=True))
    frame["score"] = [scores.get(whole(label), np.nan) for label in frame["index"]]
    return frame


def score_of(one: SegmentedObject, chosen: Mapping[int, int]) -> float | None:
    """Return the score of an object's chosen mask; None for a drawn shape."""
    return one.scores[chosen.get(one.id, 0)] if one.scores else None
