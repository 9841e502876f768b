"""Colours of the points on the map, and their legend. No Qt."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from ...language.labels.label import colors_of

if TYPE_CHECKING:
    import pandas as pd

WORD: Final = "word"
DECISION: Final = "decision"
DECISIONS: Final = {"accepted": "#3fb950", "rejected": "#f85149", "skipped": "#d29922"}
NOTHING: Final = "#8c8c8c"  # of empty cells
_MOST_GROUPS: Final = 20  # more different texts are names, not groups
_LISTED: Final = 12  # of a legend
_STEPS: Final = 7
_NAMES: Final = ("region", "id", "position", "box")  # of regions, whatever their values
_ENDS: Final = (2, 98)  # percent; a few outliers do not take all colours


@dataclass(frozen=True, slots=True, eq=False)
class Colored:
    """Colours of points."""

    rgba: npt.NDArray[np.float32]  # (N, 4)
    legend: Sequence[tuple[str, str]]  # Colour and text; numbers go on from the first to the last


def groups(values: Iterable[Any], colors: Mapping[str, str]) -> Colored:
    """Colour texts, each as it is given, or grey; the legend counts them."""
    import pandas as pd
    from napari.utils.colormaps.standardize_color import transform_color

    at, names = pd.factorize(np.asarray(list(values), object), sort=True)
    shown, counts = [colors.get(name) or NOTHING for name in names], np.bincount(at)
    order = np.argsort(-counts, kind="stable")
    legend = [(shown[i], f"{names[i] or 'none'} {counts[i]:,}") for i in order[:_LISTED]]
    if len(order) > _LISTED:
        legend.append((NOTHING, f"and {len(order) - _LISTED:,} more"))
    return Colored(np.asarray(transform_color(shown), np.float32)[at], legend)


def numbers(values: npt.NDArray[np.float64]) -> Colored:
    """Colour numbers from dark to bright; what is missing is grey."""
    from napari.utils.colormaps import ensure_colormap
    from napari.utils.colormaps.standardize_color import transform_color

    there = np.isfinite(values)
    low, high = np.percentile(values[there], _ENDS) if there.any() else (0.0, 1.0)
    share = np.clip((np.where(there, values, low) - low) / (high - low or 1), 0, 1)
    scale = ensure_colormap("viridis")
    rgba = np.where(there[:, None], scale.map(share), transform_color(NOTHING)[0])
    steps = (255 * scale.map(np.linspace(0, 1, _STEPS))).astype(int)
    legend = [(f"#{r:02x}{g:02x}{b:02x}", "") for r, g, b, _ in steps]
    legend[0], legend[-1] = (legend[0][0], f"{low:.4g}"), (legend[-1][0], f"{high:.4g}")
    return Colored(rgba.astype(np.float32), legend)


def columns_of(frame: pd.DataFrame) -> list[str]:
    """Return the columns that can colour points: numbers that differ, and a few texts."""
    from pandas.api.types import is_numeric_dtype

    return [
        str(name)
        for name in frame
        if name not in _NAMES
        and frame[name].nunique() > 1
        and (is_numeric_dtype(frame[name]) or frame[name].nunique() <= _MOST_GROUPS)
    ]


def by_column(column: pd.Series[Any]) -> Colored:
    """Colour points by a column of a table."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    if is_numeric_dtype(column) and not is_bool_dtype(column):
        return numbers(column.to_numpy(np.float64, na_value=np.nan))
    texts = column.astype(object).where(column.notna(), "").astype(str)
    return groups(texts.tolist(), colors_of(sorted(set(texts) - {""}), []))
