"""Progress that a worker passes to the GUI thread."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import pandas as pd

    from ...images.windows import FloatBox
    from ...results.results import Results


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Forming:
    """The map of a region being inverted, and where it lies."""

    grid_map: npt.NDArray[np.float32]
    box: FloatBox
    position: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """Progress of a task."""

    text: str  # For the progress bar
    fraction: float | None = None  # 0..1; None if unknown
    results: Results | None = None  # All regions finished so far, if there are new ones
    table: pd.DataFrame | None = None  # ``results.to_frame()``, made in the worker
    forming: Forming | None = None  # Map of the first region at work, if requested
    done: int = 0  # Finished regions, and all of them
    total: int = 0
    note: str = ""  # What was changed because memory ran out; empty if it did not
