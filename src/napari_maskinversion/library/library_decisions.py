"""Decisions about regions of a library: they go to the files of their images, as all decisions do.

The library knows no outlines, only numbers and boxes: a later review matches a decision by these.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..base.errors import InputError, MaskInversionError
from ..base.identity import ImagePlace, RegionKey, identify_image, plane_of
from ..base.reading import is_address
from ..base.wording import one_line
from ..images.opening import open_image
from ..review.review import Review
from ..review.stored_images import DecidedImage, StoredRegion, Summary, rows_by_content

if TYPE_CHECKING:
    import pandas as pd

    from .library import Library


@dataclass(frozen=True, slots=True, eq=False)
class LibraryRegions:
    """Some regions of a library; their images are called by their paths."""

    library: Library
    ids: Sequence[int]

    def open(self, names: Sequence[str]) -> LibraryImages:
        """Read the regions."""
        return LibraryImages(self.library, self.ids)


class LibraryImages:
    """Images of some regions of a library, see `StoredImages`."""

    def __init__(self, library: Library, ids: Sequence[int]) -> None:
        table = library.rows(ids=ids)
        self._library = library
        self._spaces = library.info()["spaces"]
        self._rows: dict[str, list[Any]] = {}
        for name, rows in table.groupby(names_of(table), sort=False):
            self._rows[str(name)] = list(rows.itertuples())

    def regions(self, name: str) -> Sequence[StoredRegion] | None:
        """Return the regions of an image."""
        rows = self._rows.get(name)
        return None if rows is None else [_stored_region(row) for row in rows]

    def review(self, name: str, *, fresh: bool) -> Review:
        """Open the decisions about an image whose pixels are those that the library knows."""
        first = self._rows[name][0]
        place, known_image = self._library.image_of(int(first.id))
        if not place.path or is_address(place.path):
            raise InputError("it is not known where this image is on this computer")
        with open_image(Path(place.path), place.series) as stack:
            image = identify_image(known_image.name, stack.levels[0])
        if image.content != known_image.content:
            raise InputError("the image has changed since its regions were added")
        identities = [_stored_region(row).identity for row in self._rows[name]]
        origin = _SpaceOrigin(self._spaces[first.space])
        return Review(image, identities, origin, file=Path(first.image), sync=False)

    def keep(self, images: Sequence[DecidedImage]) -> Mapping[str, str]:
        """Bring decisions to the library; they are saved with their images, whatever it says."""
        try:
            self._library.store.update(rows_by_content(images))
        except (MaskInversionError, OSError) as error:
            why = f"saved with the image; the library could not take it: {one_line(error)}"
            return {image.name: why for image in images}
        return {}

    def summary(self, name: str) -> Summary | None:
        """Return None: nobody counts the images of a library."""
        return None


@dataclass(frozen=True, slots=True)
class _SpaceOrigin:
    """What a library knows of the run that its regions come from."""

    space: dict[str, Any]

    def provenance(self) -> dict[str, Any]:
        model = {"name": self.space["model"], "fingerprint": self.space["space"].partition("/")[0]}
        return {"software": {}, "model": model, "config": None, "vocabulary": None, "window": None}


def names_of(rows: pd.DataFrame) -> pd.Series[str]:
    """Return what to call the image of each row."""
    names, odd = rows["image"].copy(), (rows["series"] != 0).to_numpy()
    places = map(ImagePlace, names[odd], rows["series"][odd])
    names[odd] = [place.title for place in places]
    return names


def _stored_region(row: Any) -> StoredRegion:
    return StoredRegion(
        key=RegionKey(int(row.region), plane_of(row.plane)),
        mask_hash="",
        box=(row.y0, row.x0, row.y1, row.x1),
        suggestion=row.suggestion,
        confidence=row.confidence,
        similarity=None,
        flagged=row.flagged == 1,
        decision=row.decision,
        label=row.label,
        date=row.date,
    )
