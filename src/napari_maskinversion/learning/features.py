"""What a classifier may learn from besides embeddings: size and shape of regions, if asked to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from ..base.errors import InputError

NAMES: Final = ("area", "height", "width", "fill")


class HasShape(Protocol):
    """A region of a file, a run or results."""

    @property
    def area(self) -> float:
        """Covered pixels."""

    @property
    def bbox(self) -> tuple[int, int, int, int]:
        """``(y0, x0, y1, x1)`` in pixels, end exclusive."""


def features_of(regions: Iterable[HasShape]) -> npt.NDArray[np.float64]:
    """Return `NAMES` (N, 4): logarithms of pixels, and the share of the box that is covered."""
    rows = [(one.area, one.bbox[2] - one.bbox[0], one.bbox[3] - one.bbox[1]) for one in regions]
    sizes = np.maximum(np.array(rows, np.float64).reshape(-1, 3), 1)
    return np.column_stack([np.log(sizes), sizes[:, 0] / (sizes[:, 1] * sizes[:, 2])])


def check_features(names: Iterable[str], where: object) -> None:
    """Refuse a classifier that takes what this version cannot compute."""
    if (names := tuple(names)) and names != NAMES:
        raise InputError(
            f"{where} learned from {', '.join(names)}; this version computes "
            f"{', '.join(NAMES)}. Update the plugin."
        )
