"""Disk cache of label embeddings: one SQLite file per model, one row per label."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ...base.cache_folder import make_folder

FloatArray = npt.NDArray[np.float32]
Prompts = Sequence[str]

_TABLE = (
    "CREATE TABLE IF NOT EXISTS embeddings"
    " (prompts BLOB PRIMARY KEY, vector BLOB NOT NULL) WITHOUT ROWID"
)
# Below SQLite's limit of variables in one statement.
_QUERY_SIZE = 500
# Seconds to wait while another program writes.
_TIMEOUT = 5.0


class TextCache:
    """Embeddings of one model, by prompts.

    If the file cannot be read or written, embeddings are computed again. A file that is not a
    database is replaced.
    """

    def __init__(self, path: Path, embed_dim: int) -> None:
        self._path = path
        self._embed_dim = embed_dim

    def read(self, prompts: Sequence[Prompts]) -> dict[int, FloatArray]:
        """Return cached vectors (e,), float32, by their index in ``prompts``."""
        places = {_key(group): place for place, group in enumerate(prompts)}
        keys, vectors = list(places), {}
        with suppress(OSError, sqlite3.Error), self._open(create=False) as database:
            for start in range(0, len(keys), _QUERY_SIZE):
                queried = keys[start : start + _QUERY_SIZE]
                marks = ",".join("?" * len(queried))
                for key, data in database.execute(
                    f"SELECT prompts, vector FROM embeddings WHERE prompts IN ({marks})", queried
                ):
                    vector = read_vector(data, self._embed_dim)
                    if vector is not None:
                        vectors[places[key]] = vector
        return vectors

    def write(self, vectors: Mapping[int, FloatArray], prompts: Sequence[Prompts]) -> None:
        """Store vectors, by the index of their prompts, in one transaction."""
        rows = [(_key(prompts[i]), vector.astype("<f4").tobytes()) for i, vector in vectors.items()]
        with suppress(OSError, sqlite3.Error), self._open(create=True) as database, database:
            database.executemany("INSERT OR REPLACE INTO embeddings VALUES (?, ?)", rows)

    @contextmanager
    def _open(self, *, create: bool) -> Iterator[sqlite3.Connection]:
        if create:
            make_folder(self._path.parent)
        elif not self._path.exists():
            raise FileNotFoundError(self._path)
        try:
            with closing(sqlite3.connect(self._path, timeout=_TIMEOUT)) as database:
                database.execute(_TABLE)
                yield database
        except sqlite3.DatabaseError as error:
            # This class means "not a database" or "damaged"; subclasses mean, e.g., a lock.
            if type(error) is not sqlite3.DatabaseError:
                raise
            self._path.unlink(missing_ok=True)
            raise


def read_vector(data: object, length: int) -> FloatArray | None:
    """Return a float32 vector of a database, or None if it has another length or is not finite."""
    if not isinstance(data, bytes) or len(data) != 4 * length:
        return None
    vector = np.frombuffer(data, dtype="<f4").astype(np.float32)
    return vector if np.isfinite(vector).all() else None


def _key(prompts: Prompts) -> bytes:
    return hashlib.sha256(repr(list(prompts)).encode()).digest()
