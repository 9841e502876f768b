"""What to try next where memory ran out. Knows no torch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

_HALVINGS: Final = 2  # of the input: below a quarter of its side a model sees next to nothing
_FEWEST: Final = 4  # tokens along a side of the smallest input


@dataclass(frozen=True, slots=True)
class Attempt:
    """How much is asked of the memory.

    Attributes
    ----------
    at_once : int
        Regions inverted together.
    resolution : int
        Side in pixels of the model's input, as `MaskInverter.set_image` takes it.
    device : str
    """

    at_once: int
    resolution: int
    device: str


class OomFallback:
    """Fewer regions at once, then a smaller input, then the CPU.

    A smaller input leaves room for all regions of a chunk again, and the CPU for the whole input.

    Parameters
    ----------
    top : Attempt
        Where a run begins.
    patch : int
        Side of the model's patches; inputs stay multiples of it.
    fewest_tokens : int
        Least tokens along a side of the input.

    Attributes
    ----------
    now : Attempt
    """

    def __init__(self, top: Attempt, *, patch: int, fewest_tokens: int = _FEWEST) -> None:
        self._top, self._patch = top, patch
        self._fewest = max(fewest_tokens, _FEWEST)
        self._halved = 0
        self.now = top

    def down(self, attempted: int) -> str | None:
        """Take the next rung.

        Parameters
        ----------
        attempted : int
            How many regions did not fit; 0 where the image itself did not.

        Returns
        -------
        str or None
            What to tell the user; None where nothing is left to try.
        """
        fewer = min(attempted, self.now.at_once) // 2
        smaller = self._patch * int(self.now.resolution / 2 / self._patch)
        if fewer:
            self.now = replace(self.now, at_once=fewer)
            return f"Not enough memory: {fewer} region{'s' * (fewer != 1)} at once"
        if self._halved < _HALVINGS and smaller >= self._fewest * self._patch:
            self._halved += 1
            self.now = replace(self._top, resolution=smaller, device=self.now.device)
            return f"Not enough memory: input of {smaller} px instead of {self._top.resolution}"
        if self.now.device != "cpu":
            before, self._halved = self.now.device, 0
            self.now = replace(self._top, device="cpu")
            return f"Not enough memory on {before}: going on on the CPU"
        return None
