"""Where a region is: on the image shown, or on another one."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...base.identity import Position


@dataclass(frozen=True, slots=True)
class RegionPlace:
    """Where a region is, on this or another image."""

    image: str  # "" for the one shown; else its name in the project, or its path
    region: int
    position: Position = ()
    path: str = field(default="", compare=False)  # Of its file, as libraries have it; "" if unknown
    series: int = 0  # Of a file with several images
    # None: whichever region has the number
    box: tuple[int, int, int, int] | None = field(default=None, compare=False)

    @property
    def file(self) -> tuple[str, int]:
        """The path of its file, and which image of the file it is on."""
        return self.path or self.image, self.series
