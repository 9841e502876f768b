"""Where a region is: on the image shown, or on another one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

from ...base.identity import ImagePlace, RegionKey

Box = tuple[int, int, int, int]


@dataclass(frozen=True, slots=True)
class RegionPlace:
    """A region of this or another image, and where the image is."""

    image: str  # "" for the one shown; else its name in the project, or its path
    key: RegionKey
    file: ImagePlace = field(compare=False)
    box: Box | None = field(default=None, compare=False)  # None: whichever region has the key

    @classmethod
    def of(cls, file: ImagePlace, key: RegionKey, box: Box | None = None) -> Self:
        """Return the place of a region of an image that is called by its path."""
        return cls(file.title, key, file, box)
