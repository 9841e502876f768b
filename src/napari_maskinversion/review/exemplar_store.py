"""Accepted regions kept for other images and other days: one small database a model and method."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt

from ..base.cache_folder import cache_folder, make_folder
from ..base.identity import RegionKey

FloatArray = npt.NDArray[np.float32]
Place = tuple[str, RegionKey]  # the image's content, the region
Known = tuple[FloatArray, str]  # unit embedding, label

VERSION: Final = 1
# All of them vote on every region: with more, re-ranking thousands would be felt.
MOST: Final = 5000
FOLDER: Final = "exemplars"
ASIDE: Final = ".damaged"
_OURS: Final = 0x4D496578  # in the file's head: whose database it is
_WAIT: Final = 5.0  # seconds to wait for another program that writes
_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS exemplars (image TEXT, region TEXT, label TEXT NOT NULL,"
    " vector BLOB NOT NULL, made INTEGER NOT NULL, PRIMARY KEY (image, region)) WITHOUT ROWID"
)
_OLDEST: Final = (
    "DELETE FROM exemplars WHERE made <= (SELECT made FROM exemplars ORDER BY made DESC"
    " LIMIT 1 OFFSET ?)"
)


class _NewerError(Exception):
    """A file of a newer version of this package."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What a file holds.

    Attributes
    ----------
    regions : dict
        Unit embedding and label by image and region.
    note : str
        Why there is less than there was; empty if all is well.
    """

    regions: dict[Place, Known]
    note: str = ""


class ExemplarStore:
    """Accepted regions embedded by one model and method, in the cache folder. Use it in a worker.

    A file that is damaged is put aside, one of a newer version is left alone, and both are told;
    nothing is raised. Of more than `MOST` regions the ones accepted first are forgotten.

    Parameters
    ----------
    space : str
        `RunInfo.space`: embeddings of another one cannot be compared.
    embed_dim : int
        Numbers of an embedding; rows of another length, or that are not finite, count as missing.
    """

    def __init__(self, space: str, embed_dim: int) -> None:
        name = hashlib.sha256(space.encode()).hexdigest()[:16]
        self.path: Path = cache_folder() / FOLDER / f"{name}.sqlite"
        self._embed_dim = embed_dim

    def read(self) -> Kept:
        """Give what is kept."""
        if not self.path.exists():
            return Kept({})
        found: dict[Place, Known] = {}
        try:
            with self._open() as database:
                rows = database.execute(
                    "SELECT image, region, label, vector FROM exemplars ORDER BY made"
                )
                for image, region, label, data in rows:
                    key, vector = _key_of(region), self._vector(data)
                    if key is not None and vector is not None:
                        found[image, key] = (vector, label)
        except (_NewerError, OSError, sqlite3.Error) as error:
            return Kept({}, self._told(error))
        return Kept(found)

    def write(self, changes: Mapping[Place, Known | None]) -> str:
        """Keep regions, and forget those that are None: all of it or nothing.

        Returns
        -------
        str
            Why it could not be done; empty if it could.
        """
        gone = [(image, _text_of(key)) for (image, key), kept in changes.items() if kept is None]
        kept = [(place, known) for place, known in changes.items() if known is not None]
        if not kept and not self.path.exists():
            return ""
        try:
            make_folder(self.path.parent)
            with self._open() as database, database:
                database.executemany("DELETE FROM exemplars WHERE image = ? AND region = ?", gone)
                (last,) = database.execute("SELECT max(made) FROM exemplars").fetchone()
                rows = (
                    (image, _text_of(key), label, vector.astype("<f4").tobytes(), made)
                    for made, ((image, key), (vector, label)) in enumerate(kept, (last or 0) + 1)
                )
                database.executemany(
                    "INSERT OR REPLACE INTO exemplars VALUES (?, ?, ?, ?, ?)", rows
                )
                database.execute(_OLDEST, (MOST,))
        except (_NewerError, OSError, sqlite3.Error) as error:
            return self._told(error)
        return ""

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self.path, timeout=_WAIT)) as database:
            (whose,) = database.execute("PRAGMA application_id").fetchone()
            (version,) = database.execute("PRAGMA user_version").fetchone()
            (objects,) = database.execute("SELECT count(*) FROM sqlite_master").fetchone()
            if whose != _OURS and objects:
                raise sqlite3.DatabaseError("it is another program's")
            if whose == _OURS and version > VERSION:
                raise _NewerError(str(version))
            if not objects:
                database.execute(f"PRAGMA application_id = {_OURS}")
                database.execute(f"PRAGMA user_version = {VERSION}")
                database.execute(_TABLE)
            yield database

    def _told(self, error: Exception) -> str:
        if isinstance(error, _NewerError):
            return (
                f"Accepted regions of other images are in {self.path}, which a newer version of "
                f"this package has written (version {error}; this one knows {VERSION}): they do "
                "not count here, and none are added."
            )
        # The class itself means "no database" or "damaged"; a lock, say, is a subclass.
        if type(error) is sqlite3.DatabaseError:
            aside = self.path.with_name(self.path.name + ASIDE)
            try:
                self.path.replace(aside)
            except OSError as problem:
                return f"{self.path} is damaged ({error}) and cannot be moved away ({problem})."
            return (
                f"The accepted regions of other images could not be read ({error}); the file was "
                f"put aside as {aside}. They count again once their images' reviews are opened."
            )
        return f"Accepted regions could not be kept for other images: {self.path} ({error})."

    def _vector(self, data: object) -> FloatArray | None:
        if not isinstance(data, bytes) or len(data) != 4 * self._embed_dim:
            return None
        vector = np.frombuffer(data, dtype="<f4").astype(np.float32)
        return vector if np.isfinite(vector).all() else None


def _text_of(key: RegionKey) -> str:
    return json.dumps([key.id, key.position])


def _key_of(text: str) -> RegionKey | None:
    try:
        number, position = json.loads(text)
        return RegionKey(int(number), tuple((str(axis), int(at)) for axis, at in position))
    except (ValueError, TypeError):
        return None
