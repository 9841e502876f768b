"""What stands in the Labels layer of what SAM found. No Qt here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from ..layers.coordinates import Plane
from ..layers.feature_rows import whole, with_index, with_labels
from .segment_task import Found, Painted


def on_axes(labels: Any, plane: Plane) -> Any:
    """Give a plane's labels the axes of the image."""
    rows, columns = plane.cut.axes
    shape = [1] * len(plane.cut.index)
    shape[rows], shape[columns] = plane.shape
    return (labels if rows < columns else labels.T).reshape(shape)


def off_axes(data: Any, plane: Plane) -> Any:
    """Do the reverse; an array of another size stays as it is."""
    rows, columns = plane.cut.axes
    height, width = plane.shape
    if np.size(data) != height * width:
        return data
    flat = np.asarray(data).reshape((height, width) if rows < columns else (width, height))
    return flat if rows < columns else flat.T


def features_of(painted: Painted, found: Sequence[Found], taken: Mapping[int, int]) -> pd.DataFrame:
    """Scores of the masks that are painted, by label."""
    scores = {one.id: score_of(one, taken) for one in found}
    ids = sorted(painted.ids)
    values = [scores[name] for name in ids]
    return pd.DataFrame(
        {"index": ids, "score": [np.nan if value is None else value for value in values]}
    )


def renewed_features(before: pd.DataFrame, made: pd.DataFrame) -> pd.DataFrame:
    """Put scores of other masks into features; columns and rows of the user stay."""
    frame = with_labels(with_index(before), made["index"])
    scores = dict(zip(made["index"], made["score"], strict=True))
    frame["score"] = [scores.get(whole(label), np.nan) for label in frame["index"]]
    return frame


def score_of(one: Found, taken: Mapping[int, int]) -> float | None:
    """Score of the mask that is taken of an object; None for a shape as it is."""
    return one.scores[taken.get(one.id, 0)] if one.scores else None
