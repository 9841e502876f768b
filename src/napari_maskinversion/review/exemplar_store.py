"""Accepted regions of all images, on the disk: one small database per model and method."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..base.cache_folder import cache_folder, make_folder
from ..base.identity import RegionKey
from ..base.reading import parse_json
from ..language.text import FloatArray, read_vector

if TYPE_CHECKING:
    from ..results.results import Results

ExemplarKey = tuple[str, RegionKey]  # hash of the image, region
LabelledEmbedding = tuple[FloatArray, str]  # unit embedding, label

# All of them teach: learning from many more would be slow.
MAX_EXEMPLARS: Final = 5000
FOLDER: Final = "exemplars"
_TIMEOUT: Final = 5.0  # seconds to wait while another program writes
_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS exemplars (image TEXT, region TEXT, label TEXT NOT NULL,"
    " vector BLOB NOT NULL, made INTEGER NOT NULL, PRIMARY KEY (image, region)) WITHOUT ROWID"
)
_REMOVE_OLDEST: Final = (
    "DELETE FROM exemplars WHERE made <= (SELECT made FROM exemplars ORDER BY made DESC"
    " LIMIT 1 OFFSET ?)"
)


def places(results: Results, image: str) -> set[ExemplarKey]:
    """Return where the regions of results are: other planes of the image are elsewhere."""
    return {(image, region.key) for region in results.regions}


@dataclass(frozen=True, slots=True)
class StoredExemplars:
    """Contents of the store."""

    regions: dict[ExemplarKey, LabelledEmbedding]  # Unit embedding and label by image and region
    note: str = ""  # Why the store could not be read; "" if it could


class ExemplarStore:
    """Accepted regions of one model and method, in the cache folder. Use it in a worker thread.

    Trouble with the file is a note instead of an error. Above `MAX_EXEMPLARS` regions, those
    accepted first are removed.
    """

    def __init__(self, space: str, embed_dim: int) -> None:
        name = hashlib.sha256(space.encode()).hexdigest()[:16]
        self.path: Path = cache_folder() / FOLDER / f"{name}.sqlite"
        self._embed_dim = embed_dim

    def read(self) -> StoredExemplars:
        """Read all regions."""
        if not self.path.exists():
            return StoredExemplars({})
        try:
            with self._open() as database:
                rows = database.execute(
                    "SELECT image, region, label, vector FROM exemplars ORDER BY made"
                ).fetchall()
        except (OSError, sqlite3.Error) as error:
            return StoredExemplars({}, self._note(error))
        regions: dict[ExemplarKey, LabelledEmbedding] = {}
        for image, region, label, data in rows:
            number, position = parse_json(region, "key")
            vector = read_vector(data, self._embed_dim)
            if vector is not None:
                key = RegionKey(number, tuple((axis, at) for axis, at in position))
                regions[image, key] = (vector, label)
        return StoredExemplars(regions)

    def write(self, changes: Mapping[ExemplarKey, LabelledEmbedding | None]) -> str:
        """Write regions and remove those that are None, all or nothing; return a note."""
        texts = {at: (at[0], json.dumps([at[1].id, at[1].position])) for at in changes}
        removed = [texts[at] for at, value in changes.items() if value is None]
        added = [(texts[at], value) for at, value in changes.items() if value is not None]
        if not added and not self.path.exists():
            return ""
        try:
            make_folder(self.path.parent)
            with self._open() as database, database:
                database.executemany(
                    "DELETE FROM exemplars WHERE (image, region) = (?, ?)", removed
                )
                (last,) = database.execute("SELECT max(made) FROM exemplars").fetchone()
                rows = (
                    (*at, label, vector.astype("<f4").tobytes(), made)
                    for made, (at, (vector, label)) in enumerate(added, (last or 0) + 1)
                )
                database.executemany(
                    "INSERT OR REPLACE INTO exemplars VALUES (?, ?, ?, ?, ?)", rows
                )
                database.execute(_REMOVE_OLDEST, (MAX_EXEMPLARS,))
        except (OSError, sqlite3.Error) as error:
            return self._note(error)
        return ""

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, timeout=_TIMEOUT)) as database:
            database.execute(_TABLE)
            yield database

    def _note(self, error: Exception) -> str:
        return (
            f"Accepted regions of other images could not be read or saved ({self.path}: {error}). "
            "If you delete a damaged file, they count again when you open the reviews of their "
            "images."
        )
