"""Label embeddings kept on disk: one small database a model, one row a label."""

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
# Fewer than the variables that any build of SQLite allows in one statement.
_AT_ONCE = 500
# Seconds to wait for another program that writes.
_WAIT = 5.0


class TextCache:
    """Embeddings of one model by the prompts they were made of.

    A file that cannot be read or written costs time, never the result; one that is no database
    is made again.

    Parameters
    ----------
    path : Path
        The database; made with its folder on the first write.
    embed_dim : int
        Numbers of a vector; rows of another length, or that are not finite, count as missing.
    """

    def __init__(self, path: Path, embed_dim: int) -> None:
        self._path = path
        self._embed_dim = embed_dim

    def read(self, wanted: Sequence[Prompts]) -> dict[int, FloatArray]:
        """Give the vectors (e,) that are kept, float32, by their place in ``wanted``."""
        places = {_key(prompts): place for place, prompts in enumerate(wanted)}
        keys, found = list(places), {}
        with suppress(OSError, sqlite3.Error), self._open(make=False) as database:
            for start in range(0, len(keys), _AT_ONCE):
                some = keys[start : start + _AT_ONCE]
                marks = ",".join("?" * len(some))
                for key, data in database.execute(
                    f"SELECT prompts, vector FROM embeddings WHERE prompts IN ({marks})", some
                ):
                    vector = self._vector(data)
                    if vector is not None:
                        found[places[key]] = vector
        return found

    def write(self, vectors: Mapping[int, FloatArray], prompts: Sequence[Prompts]) -> None:
        """Keep vectors by the place of their prompts, all or none of them."""
        rows = [(_key(prompts[i]), vector.astype("<f4").tobytes()) for i, vector in vectors.items()]
        with suppress(OSError, sqlite3.Error), self._open(make=True) as database, database:
            database.executemany("INSERT OR REPLACE INTO embeddings VALUES (?, ?)", rows)

    @contextmanager
    def _open(self, *, make: bool) -> Iterator[sqlite3.Connection]:
        if make:
            make_folder(self._path.parent)
        elif not self._path.exists():
            raise FileNotFoundError(self._path)
        try:
            with closing(sqlite3.connect(self._path, timeout=_WAIT)) as database:
                database.execute(_TABLE)
                yield database
        except sqlite3.DatabaseError as error:
            # The class itself means "no database" or "damaged"; a lock, say, is a subclass.
            if type(error) is not sqlite3.DatabaseError:
                raise
            self._path.unlink(missing_ok=True)
            raise

    def _vector(self, data: object) -> FloatArray | None:
        if not isinstance(data, bytes) or len(data) != 4 * self._embed_dim:
            return None
        vector = np.frombuffer(data, dtype="<f4").astype(np.float32)
        return vector if np.isfinite(vector).all() else None


def _key(prompts: Prompts) -> bytes:
    return hashlib.sha256(repr(list(prompts)).encode()).digest()
