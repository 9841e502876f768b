"""Progress and finished regions of a running pipeline."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from ..base import progress_words as words
from ..base.progress import Tick
from ..images.windows import FloatBox
from ..results.region_result import RegionResult
from ..results.results import Results

Stage = Literal["encoding", "labels", "inverting"]
# Encoding a window takes about as long as inverting this many regions.
ENCODING: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress(Tick):
    """How many regions of a run are finished, and what is done now; `share` counts all of it."""

    stage: Stage
    first: int = 0  # The present chunk of regions, counted from 1; 0 while encoding
    last: int = 0
    # Finished and all updates of the chunk; blocks of the model while encoding; labels while
    # embedding them
    step: int
    steps: int
    # Computes the chunk's current token maps (regions, grid_h, grid_w)
    maps: Callable[[], npt.NDArray[np.float32]] | None = None
    window: int = 1  # The present window, counted from 1, and the number of windows
    windows: int = 1
    together: int = 1  # Windows encoded together: the present one is the last of them
    input_size: tuple[int, int] = (0, 0)  # Pixels (H, W) of the input that the maps are of
    box: FloatBox = (0.0, 0.0, 0.0, 0.0)  # The first region's window in plane pixels
    position: tuple[tuple[str, int], ...] = ()  # Its plane
    # Indices of the chunk's regions in the input; empty while encoding
    indices: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """One line for users."""
        if self.stage == "encoding":
            first = self.window - self.together + 1
            if self.together == 1:
                parts = f"part {first}"
            else:
                parts = f"parts {first}-{self.window}"
            if self.windows == 1:
                part = "the image"
            else:
                part = f"{parts} of {self.windows}"
            return words.encoding(self.step, self.steps, part)
        if self.stage == "labels":
            return words.counted("Labels", self.step, self.steps)
        if not self.first:
            return self.note
        return words.regions_at_step(self.first, self.last, self.total, self.step, self.steps)

    def with_share(self) -> Progress:
        """Return it with its share; encoding a window counts as much as two regions."""
        part = self.step / max(self.steps, 1)
        finished = self.done + ENCODING * self.window
        if self.stage == "encoding":
            finished += ENCODING * self.together * (part - 1)
        elif self.first:
            finished += part * (self.last - self.first + 1)
        return replace(self, share=finished / max(self.total + ENCODING * self.windows, 1))


@dataclass(frozen=True, slots=True)
class RegionChunk:
    """Newly finished regions of one window, and all results so far in the order of finishing."""

    results: tuple[RegionResult, ...]
    so_far: Results
