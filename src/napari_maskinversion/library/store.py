"""The folder of a library: ``rows.db``, and a file of vectors for each space.

A write appends vectors and syncs them before it commits their rows to SQLite. So what a killed
process leaves are vectors without rows: those at the end of a file are cut by the next write, and
the file of a `compact` that was not committed is deleted. SQLite keeps a rollback journal, which
also works on network drives, and syncs everything at each commit (``synchronous=EXTRA``), since
`compact` deletes the old file then.
"""

from __future__ import annotations

import json
import os
import sqlite3
import warnings
from collections.abc import (
    Callable,
    Collection,
    Generator,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import RLock
from time import monotonic
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt

from ..base.atomic_files import sync_folder
from ..base.errors import InputError
from ..base.identity import ImageIdentity, ImagePlace
from ..base.locks import Lock
from ..base.progress import BEAT, wait
from ..base.reading import check_version, is_address, of_development_version
from ..results.spaces import Space
from .region_fields import (
    IMAGE_FIELDS,
    REGION_FIELDS,
    add_lacking_columns,
    added_names,
    brought_fields,
    columns_in_sql,
    with_lacking_values,
)

FloatArray = npt.NDArray[np.float32]
HalfArray = npt.NDArray[np.float16]
StoredArray = HalfArray | FloatArray  # In half precision in files, in single precision in memory
VERSION: Final = 1
ROWS: Final = "rows.db"
LOCK: Final = ".lock"
_VECTORS: Final = "vectors-*-*.f16"
_PATIENCE: Final = 60.0  # seconds to wait for a commit of another program
HALF: Final = np.dtype("<f2")
_APPLICATION: Final = 0x4D494C62  # "MILb": tells our databases from others
_COPIED: Final = 131_072  # vectors at once
_MAKE_ANOTHER: Final = "make another library and add its images to it"
_SCHEMA: Final = f"""
PRAGMA application_id = {_APPLICATION};
PRAGMA user_version = {VERSION};
CREATE TABLE changes (count INTEGER NOT NULL);
INSERT INTO changes VALUES (0);
CREATE TABLE spaces (
  id INTEGER PRIMARY KEY AUTOINCREMENT, about TEXT NOT NULL UNIQUE, width INTEGER NOT NULL,
  file TEXT NOT NULL, count INTEGER NOT NULL);
CREATE TABLE images (
  id INTEGER PRIMARY KEY AUTOINCREMENT, {columns_in_sql(IMAGE_FIELDS)});
CREATE INDEX by_path ON images (path, series);
CREATE TABLE regions (
  {columns_in_sql(REGION_FIELDS)},
  UNIQUE (image, plane, region, space), UNIQUE (space, row));
CREATE INDEX by_label ON regions (label, decision);
CREATE TABLE thumbnails (
  id INTEGER PRIMARY KEY REFERENCES regions ON DELETE CASCADE, picture BLOB NOT NULL);
"""
# Columns of a region that the caller of `write` brings.
FACTS: Final = tuple(field.name for field in brought_fields())
_KEYS: Final = tuple(field.name for field in brought_fields() if field.is_key)
_COLUMNS: Final = ("image", "space", "row", *FACTS)
_UPSERT: Final = (
    f"INSERT INTO regions ({', '.join(_COLUMNS)}) VALUES ({', '.join(f':{c}' for c in _COLUMNS)})"
    " ON CONFLICT (image, plane, region, space) DO UPDATE SET "
    + ", ".join(f"{c} = excluded.{c}" for c in ("row", *FACTS) if c not in _KEYS)
)

# Its own suggestion stays: the results may have been ranked by other words, or by none.
_WORD: Final = "CASE WHEN :decision IN ('undecided', 'skipped') THEN suggestion ELSE :label END"
_DECIDE: Final = (
    f"UPDATE regions SET label = {_WORD}, decision = :decision, date = :date WHERE plane = :plane"
    " AND region = :region AND (y0, x0, y1, x1) = (:y0, :x0, :y1, :x1)"
    " AND image IN (SELECT value FROM json_each(:images))"
    " AND NOT (decision = 'undecided' AND :decision = 'undecided')"
    f" AND (label, decision, date) <> ({_WORD}, :decision, :date)"
)


class DamagedError(InputError):
    """A library whose files were changed or cut off."""


class OtherFormatError(InputError):
    """A database of another program, or of a newer version of this one."""


class Store:
    """A folder that is there; each call opens the database for itself, so threads may share it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def create(cls, folder: Path) -> Store:
        """Make an empty library in a folder that is new or empty."""
        store = cls(folder)
        if folder.exists() and not folder.is_dir():
            raise InputError(f"{folder} is a file; choose a new folder for the library.")
        with store._errors_for_users("made"):
            folder.mkdir(parents=True, exist_ok=True)
            with store._locked():
                if (folder / ROWS).exists():
                    raise InputError(f"{folder} is a library already; choose another folder.")
                if any(not file.name.startswith(".") for file in folder.iterdir()):
                    raise InputError(f"{folder} has other files; choose a new folder.")
                part = folder / f".{ROWS}.part"  # until it is whole
                part.unlink(missing_ok=True)
                with closing(sqlite3.connect(part)) as database:
                    database.executescript(_SCHEMA)
                part.replace(folder / ROWS)
                sync_folder(folder)
        return store

    def files(self) -> list[Path]:
        """Return the files that hold regions."""
        return [self.folder / ROWS, *self.folder.glob(_VECTORS)]

    def size(self) -> int:
        """Return how many bytes the folder has."""
        return sum(file.stat().st_size for file in self.folder.iterdir())

    def check(self) -> None:
        """Refuse what is no library, or one of another version."""
        with self.reading():
            pass

    @contextmanager
    def reading(self) -> Generator[sqlite3.Connection, None, None]:
        """Let a block read the database as it is at one time."""
        with self._errors_for_users("read"), self._connected() as database:
            database.execute("BEGIN")
            self._when_free(database, "SELECT count FROM changes")  # from here on nobody commits
            yield database

    @contextmanager
    def writing(self, done: str = "changed") -> Generator[sqlite3.Connection, None, None]:
        """Let a block change the library, all of it or nothing; one program at a time."""
        self.check()  # a lock would make the folder of one that is gone
        with self._errors_for_users(done), self._locked(), self._connected() as database:
            self._when_free(database, "BEGIN IMMEDIATE")
            try:
                self._tidy(database)
                add_lacking_columns(database)
                yield database
                database.execute("UPDATE changes SET count = count + 1")
                self._when_free(database, "COMMIT")
            except BaseException:
                with suppress(sqlite3.Error):  # SQLite may have done it
                    database.execute("ROLLBACK")
                raise

    def _locked(self) -> AbstractContextManager[object]:
        """Take the right to change the library; wait for other programs, and say so."""
        lock = Lock(self.folder / LOCK)
        lock.wait(f"The library {self.folder}", partial(warnings.warn, stacklevel=6))
        return lock

    @contextmanager
    def _connected(self) -> Generator[sqlite3.Connection, None, None]:
        file = self.folder / ROWS
        if not file.is_file():
            if self.folder.is_file():
                raise InputError(f"{self.folder} is a file; name the folder of a library.")
            what = "holds no library" if self.folder.is_dir() else "does not exist"
            raise InputError(f"{self.folder} {what}; 'library new {self.folder}' makes one.")
        if not file.stat().st_size:
            raise sqlite3.DatabaseError("it is empty")
        address = f"{file.resolve().as_uri()}?mode=rw"
        with closing(sqlite3.connect(address, BEAT, isolation_level=None, uri=True)) as base:
            base.row_factory = sqlite3.Row
            application, version = (
                self._when_free(base, f"PRAGMA {name}").fetchone()[0]
                for name in ("application_id", "user_version")
            )
            if application != _APPLICATION:
                raise OtherFormatError(
                    f"{file} is a database of another program; choose another folder."
                )
            self._check_format(base, version)
            base.executescript("PRAGMA synchronous = EXTRA; PRAGMA foreign_keys = ON;")
            yield base

    def _check_format(self, database: sqlite3.Connection, version: int) -> None:
        """Refuse a library of a newer version, or one of a development version before 0.1."""
        name = f"The library {self.folder}"
        rows = self._when_free(database, "PRAGMA table_info(regions)")
        columns = {row["name"] for row in rows}
        if not columns:
            raise sqlite3.DatabaseError("no such table: regions")
        try:
            check_version(version, VERSION, name, _MAKE_ANOTHER)
            if not columns.issuperset(set(_COLUMNS) - added_names()):
                raise of_development_version(name, _MAKE_ANOTHER)
        except InputError as error:
            raise OtherFormatError(str(error)) from None

    def _when_free(self, database: sqlite3.Connection, statement: str) -> sqlite3.Cursor:
        """Execute a statement that other programs may hold up; wait for them, and tick."""
        end = monotonic() + _PATIENCE
        while True:
            try:
                return database.execute(statement)
            except sqlite3.OperationalError as error:
                if not _is_busy(error) or monotonic() >= end:
                    raise
            wait(BEAT, f"The library {self.folder} is in use by another program; waiting for it.")

    @contextmanager
    def _errors_for_users(self, done: str) -> Generator[None, None, None]:
        """Turn errors of disk and database into a line."""
        name = f"The library {self.folder}"
        try:
            yield
        except (OSError, sqlite3.DatabaseError) as error:  # full, read-only, locked, gone
            if _is_damage(error):
                raise DamagedError(
                    f"{name} is damaged ({ROWS}: {error}); take it from a copy, or add its images "
                    "to a new library."
                ) from error
            if _is_busy(error):
                raise InputError(
                    f"{name} is in use by another program; repeat it later."
                ) from error
            reason = getattr(error, "strerror", None) or error
            raise InputError(
                f"{name} could not be {done} ({reason}); nothing in it was lost. "
                "Make room, or check the disk, and repeat."
            ) from error

    # -- vectors ---------------------------------------------------------------------------------

    def spaces(self, database: sqlite3.Connection) -> list[Space]:
        """Return the spaces, those with most vectors first."""
        rows = database.execute("SELECT * FROM spaces ORDER BY count DESC, id")
        return [Space(**row) for row in rows]

    def vectors(self, space: Space, start: int = 0, end: int | None = None) -> StoredArray:
        """Return vectors of a space (count, width) without reading them.

        Copy-on-write: torch takes no arrays that cannot be written to.
        """
        self._check_length(space)
        shape = ((space.count if end is None else end) - start, space.width)
        if not shape[0]:
            return np.zeros(shape, HALF)
        offset = start * space.width * HALF.itemsize
        return np.memmap(self.folder / space.file, HALF, "c", offset, shape)

    def parts(self, space: Space) -> Iterator[StoredArray]:
        """Yield all vectors of a space, some at once: only these take memory."""
        for start in range(0, space.count, _COPIED):
            yield self.vectors(space, start, min(start + _COPIED, space.count))

    def _check_length(self, space: Space) -> None:
        file = self.folder / space.file
        size = file.stat().st_size if file.exists() else 0
        if size < _bytes(space):
            raise DamagedError(
                f"The library {self.folder} is damaged: {file.name} has {size:,} bytes of "
                f"{_bytes(space):,}; take it from a copy, or add its images to a new library."
            )

    def _append(self, space: Space, vectors: StoredArray, *, sync: bool = True) -> None:
        """Write vectors behind those that have rows, and wait until the disk has them."""
        file = self.folder / space.file
        is_new = not file.exists()
        with file.open("wb" if is_new else "r+b") as opened:
            opened.seek(_bytes(space))
            opened.write(vectors.tobytes())
            opened.flush()
            if sync:
                os.fsync(opened.fileno())
        if is_new and sync:
            sync_folder(self.folder)

    def _stored(self, vectors: FloatArray, image_name: str) -> StoredArray:
        """Return unit vectors as they are stored; others are refused."""
        return unit_halves(vectors, image_name)

    def sync_vectors(self) -> None:
        """Wait until the disk has all vectors."""
        for file in self.folder.glob(_VECTORS):
            with file.open("r+b") as opened:
                os.fsync(opened.fileno())
        sync_folder(self.folder)

    def _tidy(self, database: sqlite3.Connection) -> None:
        """Cut vectors without rows, and delete files of vectors that no space has."""
        spaces = {space.file: space for space in self.spaces(database)}
        for file in self.folder.glob(_VECTORS):
            with suppress(OSError):  # Windows, while another program reads it
                if file.name not in spaces:
                    file.unlink()
                elif file.stat().st_size > _bytes(spaces[file.name]):
                    os.truncate(file, _bytes(spaces[file.name]))

    # -- changes ---------------------------------------------------------------------------------

    def write(
        self,
        space: Space,
        place: ImagePlace,
        image: ImageIdentity,
        rows: Sequence[Mapping[str, Any]],
        vectors: FloatArray,
        picture: Callable[[int], bytes | None] = lambda _: None,
        *,
        is_part: bool = True,
        unreached: Collection[tuple[str, int]] = (),
    ) -> int:
        """Add regions of an image; those that it has already in this space are replaced.

        ``rows`` have the columns `FACTS`; ``picture`` returns the thumbnail of one of them, if it
        needs a new one. Unless ``is_part``, other regions of their planes go, but for those that a
        run did not reach before it was stopped (plane and number). If the image has changed, its
        regions of other pixels go, and a warning says so. Returns how many rows there were.
        Shapes: vectors (rows, width), of length 1.
        """
        with self.writing("added to") as database:
            number, gone = self._image(database, place, image)
            self.put(
                database,
                space,
                number,
                rows,
                self._stored(vectors, image.name),
                picture,
                replaces="nothing" if is_part else "planes",
                unreached=unreached,
            )
        if gone:
            warnings.warn(
                f"{image.name} has changed: {gone} regions of its earlier pixels were removed.",
                stacklevel=4,
            )
        return len(rows)

    def put(
        self,
        database: sqlite3.Connection,
        space: Space,
        image: int,
        rows: Sequence[Mapping[str, Any]],
        vectors: StoredArray,
        picture: Callable[[int], bytes | None] = lambda _: None,
        *,
        replaces: Literal["nothing", "planes", "image"],
        unreached: Collection[tuple[str, int]] = (),
        sync: bool = True,
    ) -> None:
        """Add regions to an image while `writing`; see `write`.

        Regions that are not among the rows go: none, those of the same planes and space, or all of
        the image. Without ``sync`` the caller calls `sync_vectors` before the block ends.
        """
        space = self._space(database, space)
        known = {
            (plane, region): (row, has_picture)
            for plane, region, row, has_picture in database.execute(
                "SELECT plane, region, row, thumbnails.id IS NOT NULL FROM regions LEFT JOIN"
                " thumbnails USING (id) WHERE image = ? AND +space = ?",  # + : not by space
                (image, space.id),
            )
        }
        if replaces != "nothing":
            new = {(row["plane"], row["region"]) for row in rows}
            planes = {plane for plane, _ in new}
            database.executemany(
                "DELETE FROM regions WHERE (image, space, plane, region) = (?, ?, ?, ?)",
                (
                    (image, space.id, *key)
                    for key in known.keys() - new - set(unreached)
                    if replaces == "image" or key[0] in planes
                ),
            )
        if replaces == "image":
            database.execute(
                "DELETE FROM regions WHERE image = ? AND +space <> ?", (image, space.id)
            )
        stored = self.vectors(space)
        places: list[int] = []
        fresh: list[int] = []
        pictures: list[tuple[bytes, int, int]] = []
        for place, row in enumerate(rows):
            at, has_picture = known.get((row["plane"], row["region"]), (-1, False))
            if at < 0 or stored[at].tobytes() != vectors[place].tobytes():
                at, has_picture = space.count + len(fresh), False
                fresh.append(place)
            places.append(at)
            if not has_picture and (made := picture(place)):
                pictures.append((made, space.id, at))
        del stored
        if fresh:
            self._append(space, vectors[fresh], sync=sync)
        whose = {"image": image, "space": space.id}
        database.executemany(
            _UPSERT,
            (
                with_lacking_values({**row, **whose, "row": at})
                for row, at in zip(rows, places, strict=True)
            ),
        )
        database.executemany(
            "INSERT OR REPLACE INTO thumbnails SELECT id, ? FROM regions WHERE space = ?"
            " AND row = ?",
            pictures,
        )
        database.execute(
            "UPDATE spaces SET count = ? WHERE id = ?", (space.count + len(fresh), space.id)
        )

    def _space(self, database: sqlite3.Connection, space: Space) -> Space:
        """Return a space as it is here, with its file; it is added if it is new."""
        query = "SELECT * FROM spaces WHERE about = ?"
        if (row := database.execute(query, (space.about,)).fetchone()) is None:
            database.execute(
                "INSERT INTO spaces (about, width, file, count) VALUES (?, ?, '', 0)",
                (space.about, space.width),
            )
            database.execute(
                "UPDATE spaces SET file = printf('vectors-%d-1.f16', id) WHERE file = ''"
            )
            row = database.execute(query, (space.about,)).fetchone()
        return Space(**row)

    def _image(
        self, database: sqlite3.Connection, place: ImagePlace, image: ImageIdentity
    ) -> tuple[int, int]:
        """Return the number of an image, and how many of its regions went with other pixels.

        One whose path is not known, or that was moved, is the one of the same name and pixels.
        """
        query = "SELECT id, path, content FROM images WHERE series = :series AND "
        about = {
            "path": place.path,
            "series": place.series,
            "name": image.name,
            "content": image.content,
        }
        here = database.execute(f"{query} path = :path AND path <> ''", about).fetchone()
        if here is None and image.content:
            moved = bool(place.path) and Path(place.path).exists()
            for row in database.execute(f"{query} name = :name AND content = :content", about):
                path = row["path"]
                is_gone = moved and not is_address(path) and not Path(path).exists()
                if is_gone or not (place.path and path):
                    here = row
                    break
        if here is None:
            cursor = database.execute(
                "INSERT INTO images (path, series, name, content)"
                " VALUES (:path, :series, :name, :content)",
                about,
            )
            return int(cursor.lastrowid or 0), 0
        gone = 0
        if here["content"] and image.content and here["content"] != image.content:
            gone = database.execute("DELETE FROM regions WHERE image = ?", (here["id"],)).rowcount
        database.execute(
            "UPDATE images SET path = ?, content = ? WHERE id = ?",
            (place.path or here["path"], image.content or here["content"], here["id"]),
        )
        return int(here["id"]), gone

    def update(self, decided: Mapping[str, Sequence[Mapping[str, Any]]]) -> int:
        """Set what was decided about regions, by the hash of their image; return how many changed.

        Images that are not here are left out; without any, nothing is written.
        """
        with self.reading() as database:
            if not _images_with(database, decided):
                return 0
        changed = 0
        with self.writing() as database:
            for content, images in _images_with(database, decided).items():
                changed += self.decide(database, images, decided[content])
        return changed

    def decide(
        self,
        database: sqlite3.Connection,
        images: Sequence[int],
        rows: Sequence[Mapping[str, Any]],
    ) -> int:
        """Set what was decided about regions of images while `writing`; return how many changed."""
        named = {"images": json.dumps(list(images))}
        changed = database.executemany(_DECIDE, ({**row, **named} for row in rows))
        return int(changed.rowcount)

    def remove(self, condition: str, values: Mapping[str, Any]) -> int:
        """Remove regions by a condition about regions and images; return how many."""
        with self.writing("removed from") as database:
            database.execute(
                "CREATE TEMP TABLE gone AS SELECT regions.id FROM regions JOIN images"
                f" ON images.id = regions.image WHERE {condition}",
                values,
            )
            count = database.execute(
                "DELETE FROM regions WHERE id IN (SELECT id FROM gone)"
            ).rowcount
            database.execute("DELETE FROM images WHERE id NOT IN (SELECT image FROM regions)")
        return int(count)

    def compact(self) -> int:
        """Rewrite files of vectors without those of regions that are gone; return how many went."""
        dropped, old = 0, []
        with self.writing("compacted") as database:
            for space in self.spaces(database):
                at = [
                    row
                    for (row,) in database.execute(
                        "SELECT row FROM regions WHERE space = ? ORDER BY row", (space.id,)
                    )
                ]
                if len(at) == space.count:
                    continue
                old.append(space.file)
                new = replace(space, file=_next_file(space.file), count=0)
                stored = self.vectors(space)
                for start in range(0, len(at), _COPIED):
                    part = stored[at[start : start + _COPIED]]
                    self._append(new, part)
                    new = replace(new, count=new.count + len(part))
                dropped += space.count - len(at)
                del stored
                # In ascending order: the new place of a row is free, or its own.
                database.executemany(
                    "UPDATE regions SET row = ? WHERE space = ? AND row = ?",
                    ((to, space.id, was) for to, was in enumerate(at) if to != was),
                )
                if at:
                    database.execute(
                        "UPDATE spaces SET file = ?, count = ? WHERE id = ?",
                        (new.file, new.count, space.id),
                    )
                else:
                    database.execute("DELETE FROM spaces WHERE id = ?", (space.id,))
        for file in (self.folder / name for name in old):
            with suppress(OSError):  # Windows, while another program reads it: the next write does
                file.unlink()
        # The vectors are gone by now; what fails, such as on a full disk, the next one does.
        with suppress(sqlite3.Error, OSError), self._connected() as database:
            database.execute("VACUUM")
        return dropped

    def problems(self) -> Iterable[str]:
        """Yield what is wrong with the files, one line each."""
        with self.reading() as database:
            for (text,) in database.execute("PRAGMA quick_check"):
                if text != "ok":
                    yield f"{ROWS}: {text}"
            for space in self.spaces(database):
                query = "SELECT count(*) FROM regions WHERE space = ? AND row >= ?"
                (beyond,) = database.execute(query, (space.id, space.count)).fetchone()
                if beyond:
                    yield f"{beyond} regions have no vector in {space.file}."
                bad = 0
                try:
                    for part in self.parts(space):
                        lengths = np.linalg.norm(part.astype(np.float32), axis=1)
                        bad += int((~(np.abs(lengths - 1) < 0.01)).sum())  # NaN is none
                except InputError as error:
                    yield str(error)
                if bad:
                    yield f"{bad} vectors of {space.file} do not have length 1: they were changed."


class MemoryStore(Store):
    """A library that lies in no folder: it ends with its object. One thread at a time uses it."""

    def __init__(self) -> None:
        super().__init__(Path("in memory"))  # as messages name it
        self._database = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._database.row_factory = sqlite3.Row
        self._database.executescript(f"{_SCHEMA} PRAGMA foreign_keys = ON;")
        self._vectors: dict[str, StoredArray] = {}  # By the name that their file would have
        self._busy = RLock()

    def files(self) -> list[Path]:
        """Return no files."""
        return []

    def size(self) -> int:
        """Return the bytes of the vectors."""
        return sum(vectors.nbytes for vectors in self._vectors.values())

    @contextmanager
    def _connected(self) -> Generator[sqlite3.Connection, None, None]:
        with self._busy:
            try:
                yield self._database
            finally:
                if self._database.in_transaction:  # the end of a `reading`
                    self._database.execute("ROLLBACK")

    def _locked(self) -> AbstractContextManager[object]:
        return self._busy

    def vectors(self, space: Space, start: int = 0, end: int | None = None) -> StoredArray:
        """Return vectors of a space (count, width)."""
        stored = self._vectors.get(space.file)
        if stored is None:
            return np.zeros((0, space.width), np.float32)
        return stored[start : space.count if end is None else end]

    def _stored(self, vectors: FloatArray, image_name: str) -> StoredArray:
        check_unit(vectors, image_name)
        return np.ascontiguousarray(vectors, np.float32)

    def _append(self, space: Space, vectors: StoredArray, *, sync: bool = True) -> None:
        stored = self.vectors(space)
        self._vectors[space.file] = np.concatenate([stored, vectors])

    def sync_vectors(self) -> None:
        """Do nothing: there is no disk."""

    def _tidy(self, database: sqlite3.Connection) -> None:
        files = {space.file for space in self.spaces(database)}
        for name in self._vectors.keys() - files:
            del self._vectors[name]


def _is_damage(error: OSError | sqlite3.DatabaseError) -> bool:
    """Return whether the content of a database caused an error: not the disk, nor its users."""
    if not isinstance(error, sqlite3.OperationalError):
        return isinstance(error, sqlite3.DatabaseError)
    # Tables that are gone; texts that are none have no code.
    return getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR) == sqlite3.SQLITE_ERROR


def unit_halves(vectors: FloatArray, image_name: str) -> HalfArray:
    """Return unit vectors (n, e) in half precision; others are refused."""
    check_unit(vectors, image_name)
    return np.ascontiguousarray(vectors, HALF)


def check_unit(vectors: FloatArray, image_name: str) -> None:
    """Refuse what is not of length 1."""
    if not (np.abs(np.linalg.norm(vectors, axis=1) - 1) < 0.01).all():  # NaN is none
        raise InputError(
            f"Embeddings of {image_name} are not finite numbers of length 1, so they cannot be "
            "found; compute it again."
        )


def _is_busy(error: Exception) -> bool:
    """Return whether another program has the database."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY


def _bytes(space: Space) -> int:
    """Return the size of the vectors that have rows."""
    return space.count * space.width * HALF.itemsize


def _next_file(name: str) -> str:
    head, number = name.removesuffix(".f16").rsplit("-", 1)
    return f"{head}-{int(number) + 1}.f16"


def _images_with(database: sqlite3.Connection, contents: Iterable[str]) -> dict[str, list[int]]:
    """Return the numbers of images by the hash of their pixels, of those that are here."""
    query = (
        "SELECT id, content FROM images"
        " WHERE content <> '' AND content IN (SELECT value FROM json_each(?))"
    )
    numbers: dict[str, list[int]] = {}
    for row in database.execute(query, (json.dumps(list(contents)),)):
        numbers.setdefault(row["content"], []).append(row["id"])
    return numbers
