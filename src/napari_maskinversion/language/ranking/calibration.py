"""Choose a model's limits of margin and overlap on regions whose names are known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from ...base.errors import InputError

KEEP: Final = 0.85
"""Least share of right answers without a flag."""
LEAST_MISFITS: Final = 0.01
"""Least share of right answers whose heatmap counts as not fitting."""
LEAST_RIGHT: Final = 20
"""Right answers that a calibration needs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """Limits of a model, and how they did on the regions they were chosen on."""

    margin: float | None  # Least margin of a sure word; None if no region has one
    overlap: float | None  # Least overlap of a heatmap that fits; None if no region has one
    right: int  # Regions whose suggestion was right, and wrong
    wrong: int
    right_kept: float  # Share of the right ones without a flag
    wrong_flagged: float | None  # Share of the wrong ones with a flag; None if there are none
    source: str = ""  # Where the regions come from


def calibrate(
    margins: npt.ArrayLike,
    overlaps: npt.ArrayLike,
    right: npt.ArrayLike,
    *,
    keep: float = KEEP,
    source: str = "",
) -> Calibration:
    """Choose both limits together: flag most wrong answers, and at most 15 % of the right ones.

    One free choice is how the 15 % (``1 - keep``) are divided between the two limits; the division
    that flags most wrong answers is taken, the one with the lower limit of overlap among equals. At
    least 1 % of the right answers lie below the limit of overlap, so that a heatmap beside its
    region is seen where overlaps say nothing about words.

    Shapes: margins, overlaps (N,); right (N,), bool.
    """
    # What there is none of is never below a limit.
    margin, overlap = (
        np.nan_to_num(np.asarray(values, np.float64), nan=math.inf)
        for values in (margins, overlaps)
    )
    correct = np.asarray(right, bool)
    count = int(correct.sum())
    if count < LEAST_RIGHT:
        raise InputError(
            f"A calibration needs {LEAST_RIGHT} regions whose suggestion was right; there are "
            f"{count}. Review more regions."
        )
    spare = int((1 - keep) * count + 1e-9)
    ordered = np.sort(overlap[correct])
    best: tuple[float, float, float] | None = None
    for place in range(int(LEAST_MISFITS * count), spare + 1):
        lowest = float(ordered[place])
        fitting = np.sort(margin[correct & (overlap >= lowest)])
        closest = float(fitting[spare - (count - len(fitting))])
        hit = float(((margin < closest) | (overlap < lowest))[~correct].sum())
        if best is None or hit > best[0]:
            best = (hit, closest, lowest)
    assert best is not None  # 1 % is less than 15 %
    _, closest, lowest = best
    flagged = (margin < closest) | (overlap < lowest)
    wrong = len(correct) - count
    return Calibration(
        margin=closest if math.isfinite(closest) else None,
        overlap=lowest if math.isfinite(lowest) else None,
        right=count,
        wrong=wrong,
        right_kept=float((~flagged)[correct].mean()),
        wrong_flagged=float(flagged[~correct].mean()) if wrong else None,
        source=source,
    )
