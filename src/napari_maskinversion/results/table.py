"""Results as the one table that is shown, printed and exported."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..base.units import Units

if TYPE_CHECKING:
    import pandas as pd

TOP: Final = 5  # labels of a region that the table shows


def to_frame(rows: Sequence[Any], info: Any) -> pd.DataFrame:
    """Make the table of `Results.to_frame` from `RegionResult`s and their `RunInfo`."""
    import pandas as pd

    vocabulary, units = info.vocabulary, info.units
    count = 0 if vocabulary is None else len(vocabulary.labels)
    ranks = [region.ranking for region in rows]
    nan = math.nan
    columns: dict[str, list[Any]] = {
        "region": [region.id for region in rows],
        "suggestion": [region.suggestion for region in rows],
        "similarity": [nan if rank is None else float(rank.similarities[0]) for rank in ranks],
        "probability": [nan if rank is None else float(rank.probabilities[0]) for rank in ranks],
        "margin": [nan if rank is None else rank.margin for rank in ranks],
        "iou": [region.iou for region in rows],
        "area_px": [region.area for region in rows],
        "status": [region.status for region in rows],
        "entropy": [nan if rank is None else rank.entropy for rank in ranks],
    }
    if count:
        # The suggestion may be "none of these"; what comes nearest is told all the same.
        columns["label_1"] = [None if r is None else r.labels[0] for r in ranks]
    for place in range(1, min(TOP, count)):
        columns[f"label_{place + 1}"] = [None if r is None else r.labels[place] for r in ranks]
        columns[f"similarity_{place + 1}"] = [
            nan if r is None else float(r.similarities[place]) for r in ranks
        ]
    columns |= _captions(rows, info)
    positions = [dict(region.position) for region in rows]
    for axis in info.axes:
        columns[axis] = [position.get(axis) for position in positions]
    columns |= {
        "diameter_px": [_diameter(region.area) for region in rows],
        "height_px": [region.bbox[2] - region.bbox[0] for region in rows],
        "width_px": [region.bbox[3] - region.bbox[1] for region in rows],
    }
    if units is not None and units.pixel is not None:
        high, wide = units.pixel
        areas = [region.area * high * wide for region in rows]
        columns |= {
            "area": areas,
            "diameter": [_diameter(area) for area in areas],
            "height": [(region.bbox[2] - region.bbox[0]) * high for region in rows],
            "width": [(region.bbox[3] - region.bbox[1]) * wide for region in rows],
            "unit": [units.unit] * len(rows),
        }
    if units is not None and units.geo is not None:
        world = [units.geo.world(*region.centroid) for region in rows]
        columns |= {"world_x": [x for x, _ in world], "world_y": [y for _, y in world]}
    if any(region.members for region in rows):
        columns["merged"] = [" ".join(map(str, region.members)) for region in rows]
    return pd.DataFrame(columns)


def _captions(rows: Sequence[Any], info: Any) -> dict[str, list[Any]]:
    use = info.captions
    columns: dict[str, list[Any]] = {}
    found = [region.captions for region in rows]
    for place in range(0 if use is None else min(use.top, use.bank.count)):
        rank = "" if place == 0 else f"_{place + 1}"
        columns[f"caption{rank}"] = [
            None if some is None else some.captions[place] for some in found
        ]
        columns[f"caption_similarity{rank}"] = [
            math.nan if some is None else float(some.similarities[place]) for some in found
        ]
    return columns


def measures(region: Any, units: Units | None) -> dict[str, Any]:
    """Sizes and place of one `RegionResult`, as the table has them, for the record."""
    found: dict[str, Any] = {
        "area_px": region.area,
        "diameter_px": _diameter(region.area),
        "centroid_yx": list(region.centroid),
    }
    if units is not None and units.pixel is not None:
        area = region.area * units.pixel[0] * units.pixel[1]
        found |= {"area": area, "diameter": _diameter(area), "unit": units.unit}
    if units is not None and units.geo is not None:
        found["world_xy"] = list(units.geo.world(*region.centroid))
    return found


def _diameter(area: float) -> float:
    """Diameter of the circle of the same area."""
    return 2 * float(np.sqrt(area / np.pi))
