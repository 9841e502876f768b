"""Regions that somebody accepted, of all images: a personal library in the cache folder.

It can be deleted: they count again when the reviews of their images are opened.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from ..base.cache_folder import ACCEPTED, cache_folder, make_folder
from ..base.errors import MaskInversionError
from ..base.identity import RegionKey, plane_of, plane_text
from ..base.wording import one_line
from ..learning.samples import LabelledEmbedding, RegionOfImage
from ..results.spaces import Space
from ..review.decisions import now
from .library import Library
from .store import ROWS, unit_halves

# All of them teach: learning from many more would be slow.
MOST: Final = 5000
_FEW_HOLES: Final = 5000  # vectors of regions that are gone, which may stay
_NOT_KEPT: Final = dict.fromkeys(("y0", "x0", "y1", "x1", "area"), 0)  # what nobody asks for
_OF_IMAGE: Final = "SELECT id FROM images WHERE content = ?"
_REMOVE: Final = (
    f"DELETE FROM regions WHERE image IN ({_OF_IMAGE}) AND (plane, region) = (?, ?)"
    " AND space IN (SELECT id FROM spaces WHERE about = ?)"
)
_REMOVE_OLDEST: Final = (
    "DELETE FROM regions WHERE space IN (SELECT id FROM spaces WHERE about = ?) AND id NOT IN"
    " (SELECT regions.id FROM regions JOIN spaces ON spaces.id = space WHERE about = ?"
    " ORDER BY date DESC, regions.id DESC LIMIT ?)"
)
_SELECT: Final = (
    "SELECT content, plane, region, label, row FROM regions JOIN images ON images.id = image"
    " WHERE space = ? ORDER BY date, regions.id"
)


@dataclass(frozen=True, slots=True)
class StoredRegions:
    """Contents of the personal library."""

    regions: dict[RegionOfImage, LabelledEmbedding]
    note: str = ""  # Why it could not be read; "" if it could


class AcceptedRegions:
    """Accepted regions of one model and method. Use it in a worker thread.

    Trouble with its files is a note instead of an error. Above `MOST` regions, those accepted first
    are removed.
    """

    def __init__(self, space: str, embed_dim: int) -> None:
        self.folder: Path = cache_folder() / ACCEPTED
        # Settings of runs are no part of it: what was accepted teaches runs with others, too.
        about = json.dumps({"architecture": None, "model": "", "space": space})
        self._space = Space(about=about, width=embed_dim)

    def read(self) -> StoredRegions:
        """Read all regions, those accepted first in front."""
        if not (self.folder / ROWS).exists():
            return StoredRegions({})
        regions: dict[RegionOfImage, LabelledEmbedding] = {}
        try:
            library = Library.open(self.folder)
            with library.store.reading() as database:
                for space in library.store.spaces(database):
                    if (space.about, space.width) != (self._space.about, self._space.width):
                        continue
                    halves = library.store.vectors(space)
                    for content, plane, region, label, row in database.execute(
                        _SELECT, (space.id,)
                    ):
                        vector = halves[row].astype(np.float32)
                        vector /= np.linalg.norm(vector)
                        regions[content, RegionKey(region, plane_of(plane))] = vector, label
        except (MaskInversionError, OSError) as error:
            return StoredRegions({}, self._note(error))
        return StoredRegions(regions)

    def write(self, changes: Mapping[RegionOfImage, LabelledEmbedding | None]) -> str:
        """Write regions and remove those that are None, all or nothing; return a note."""
        accepted: dict[str, dict[RegionKey, LabelledEmbedding]] = {}  # by the hash of the image
        for (image_hash, key), value in changes.items():
            if value is not None:
                accepted.setdefault(image_hash, {})[key] = value
        if not accepted and not (self.folder / ROWS).exists():
            return ""
        about = self._space.about
        try:
            make_folder(self.folder)
            library = Library.open(self.folder, create=True)
            with library.store.writing() as database:
                for (content, key), value in changes.items():
                    if value is None:
                        place = (content, plane_text(key.position), key.id, about)
                        database.execute(_REMOVE, place)
                for image_hash, regions_of_image in accepted.items():
                    self._put(database, library, image_hash, regions_of_image)
                database.execute(_REMOVE_OLDEST, (about, about, MOST))
                database.execute("DELETE FROM images WHERE id NOT IN (SELECT image FROM regions)")
            if library.info()["holes"] > _FEW_HOLES:
                library.compact()
        except (MaskInversionError, OSError) as error:
            return self._note(error)
        return ""

    def _put(
        self,
        database: sqlite3.Connection,
        library: Library,
        image_hash: str,
        accepted: Mapping[RegionKey, LabelledEmbedding],
    ) -> None:
        """Write the regions of one image."""
        row = database.execute(_OF_IMAGE, (image_hash,)).fetchone()
        if row is None:
            database.execute(
                "INSERT INTO images (path, series, name, content) VALUES ('', 0, ?, ?)",
                (image_hash, image_hash),
            )
            row = database.execute(_OF_IMAGE, (image_hash,)).fetchone()
        rows: list[dict[str, Any]] = []
        for key, (_, label) in accepted.items():
            place = {"plane": plane_text(key.position), "region": key.id}
            decided = {"decision": "accepted", "label": label, "date": now()}
            more = {"suggestion": "", "confidence": None, "measures": ""}
            rows.append({**place, **decided, **more, **_NOT_KEPT})
        vectors = np.array([vector for vector, _ in accepted.values()], np.float32)
        halves = unit_halves(vectors.reshape(-1, self._space.width), "accepted regions")
        library.store.put(database, self._space, row["id"], rows, halves, replaces="nothing")

    def _note(self, error: Exception) -> str:
        return (
            f"Accepted regions of other images could not be read or saved ({self.folder}: "
            f"{one_line(error)}). If you delete a damaged folder, they count again when you open "
            "the reviews of their images."
        )
