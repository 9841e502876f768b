"""Rows for labels in a Labels layer's features; the user's columns stay."""

from __future__ import annotations

import re
from collections.abc import Iterable
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


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
