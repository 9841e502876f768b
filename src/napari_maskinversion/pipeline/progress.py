"""What a running pipeline says."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from ..base import progress_words as words
from ..images.windows import FloatBox
from ..results.region_result import RegionResult
from ..results.results import Results

Stage = Literal["encoding", "labels", "inverting"]
# Encoding a window takes about as long as inverting this many regions.
ENCODING: Final = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """Where a run is.

    Attributes
    ----------
    stage : {"encoding", "labels", "inverting"}
    done, total : int
        Regions finished, regions in all.
    first, last : int
        The chunk being worked on, counted from 1; 0 while encoding.
    step, steps : int
        Updates finished of the chunk, updates in all; blocks of the model while encoding;
        labels while these are embedded.
    maps : callable or None
        Makes the chunk's current token maps (regions, grid_h, grid_w).
    window, windows : int
        The window being worked on, counted from 1, and all there are.
    box : tuple of float
        The window in plane pixels.
    position : tuple of (str, int)
        Its plane.
    indices : tuple of int
        Places of the chunk's regions among those given; empty while encoding.
    note : str
        What is done otherwise than asked since memory ran out: "Not enough memory: 8 regions at
        once"; empty where it did not.
    """

    stage: Stage
    done: int
    total: int
    first: int = 0
    last: int = 0
    step: int
    steps: int
    maps: Callable[[], npt.NDArray[np.float32]] | None = None
    window: int = 1
    windows: int = 1
    box: FloatBox = (0.0, 0.0, 0.0, 0.0)
    position: tuple[tuple[str, int], ...] = ()
    indices: tuple[int, ...] = ()
    note: str = ""

    @property
    def text(self) -> str:
        """One line for people."""
        if self.stage == "encoding":
            what = "the image" if self.windows == 1 else f"window {self.window} of {self.windows}"
            return words.encoding(self.step, self.steps, what)
        if self.stage == "labels":
            return words.counted("Labels", self.step, self.steps)
        if not self.first:
            return self.note
        return words.regions_at_step(self.first, self.last, self.total, self.step, self.steps)

    @property
    def fraction(self) -> float:
        """Share of the work that is done, 0..1; encoding a window counts as much as two regions."""
        part = self.step / max(self.steps, 1)
        finished = self.done + ENCODING * self.window
        if self.stage == "encoding":
            finished += ENCODING * (part - 1)
        elif self.first:
            finished += part * (self.last - self.first + 1)
        return finished / max(self.total + ENCODING * self.windows, 1)


@dataclass(frozen=True, slots=True)
class RegionChunk:
    """Regions of one window, just finished, and all results up to now in the order they came."""

    results: tuple[RegionResult, ...]
    so_far: Results
