"""How everything in an image is looked for. No torch."""

from __future__ import annotations

from dataclasses import dataclass

from ...base.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class AutomaticConfig:
    """How everything in an image is looked for.

    Parameters
    ----------
    points_per_side : int
        Points of the grid along each side.
    score : float
        Masks with a lower score are dropped.
    stability : float
        So are those that change more than this when the threshold moves (IoU of the two).
    overlap : float
        And those whose box overlaps that of a better one more (IoU).
    min_area : int
        And those of fewer pixels of the plane.
    batch : int
        Points asked about at once.

    Raises
    ------
    ConfigError
        If a value cannot work.
    """

    points_per_side: int = 32
    score: float = 0.88
    stability: float = 0.95
    overlap: float = 0.7
    min_area: int = 0
    batch: int = 16

    def __post_init__(self) -> None:
        if self.points_per_side < 1 or self.batch < 1:
            raise ConfigError(
                "Points per side and points at once must be at least 1; got "
                f"{self.points_per_side} and {self.batch}."
            )
        for name in ("score", "stability", "overlap"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"{name} must be in 0..1; got {getattr(self, name):g}.")
        if self.min_area < 0:
            raise ConfigError(f"An area cannot be negative; got {self.min_area}.")
