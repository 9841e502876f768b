"""Updates that a worker passes to the GUI thread."""

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
    """The map of a region that is being worked on, and where it lies."""

    grid_map: npt.NDArray[np.float32]
    box: FloatBox
    position: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """News from a running job.

    Parameters
    ----------
    text : str
        For the progress bar.
    fraction : float or None
        0..1; None while nobody knows.
    results : Results or None
        All regions finished so far, after a chunk was finished.
    table : DataFrame or None
        ``results.to_frame()``, made here so that the windows need not.
    forming : Forming or None
        Of the first region of those being worked on, where this was asked for.
    note : str
        What is done otherwise than asked, since memory ran out; empty where it did not.
    """

    text: str
    fraction: float | None = None
    results: Results | None = None
    table: pd.DataFrame | None = None
    forming: Forming | None = None
    note: str = ""
