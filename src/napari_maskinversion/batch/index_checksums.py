"""Checksums of what an index says of each image, so that a bit that a disk flips is noticed.

A change to an image forgets its checksum, whoever makes it: the database does that itself, by
triggers. Before the change is committed, `renew` computes those that are lacking.
"""

from __future__ import annotations

import marshal
import sqlite3
import zlib
from typing import Final

from ..library.region_fields import REGION_FIELDS
from ..library.store import Store

# A region's place among the vectors is left out: `Library.compact` changes it, and the vector,
# which is part of the checksum, stays the same.
_COLUMNS: Final = ", ".join(
    field.name for field in REGION_FIELDS if field.sql and field.name != "row"
)
_MARSHALLED: Final = 2  # of `marshal`: the same bytes in every version of Python


def follow_changes(database: sqlite3.Connection, table: str) -> None:
    """Let the database forget the checksum of an image that changes.

    ``table`` has a row for each image, with the columns ``image`` and ``checksum``.
    """
    forget = f"BEGIN UPDATE {table} SET checksum = NULL WHERE image = {{}}; END"
    changes = {
        "region_added": ("INSERT ON regions", "NEW.image"),
        "region_changed": (f"UPDATE OF {_COLUMNS} ON regions", "NEW.image"),
        "region_removed": ("DELETE ON regions", "OLD.image"),
        "image_changed": ("UPDATE ON images", "NEW.id"),
        "about_changed": (f"UPDATE OF name, content, stamp, about ON {table}", "NEW.image"),
    }
    for name, (change, image) in changes.items():
        database.execute(
            f"CREATE TRIGGER IF NOT EXISTS {table}_{name} AFTER {change} {forget.format(image)}"
        )


def renew(store: Store, database: sqlite3.Connection, table: str) -> None:
    """Compute the checksums of images that have none."""
    rows = database.execute(f"SELECT image FROM {table} WHERE checksum IS NULL").fetchall()
    for row in rows:
        image = row["image"]
        checksum = _checksum(store, database, table, image)
        database.execute(f"UPDATE {table} SET checksum = ? WHERE image = ?", (checksum, image))


def are_right(store: Store, database: sqlite3.Connection, table: str) -> bool:
    """Return whether all images are as they were written."""
    rows = database.execute(
        f"SELECT image, checksum FROM {table} WHERE checksum IS NOT NULL"
    ).fetchall()
    changed = 0
    for row in rows:
        changed += _checksum(store, database, table, row["image"]) != row["checksum"]
    return not changed


def _checksum(store: Store, database: sqlite3.Connection, table: str, image: int) -> int:
    """Return the checksum of all that is known of an image: rows and vectors."""
    about = database.execute(
        f"SELECT {table}.name, {table}.content, stamp, about, path, series, images.name,"
        f" images.content FROM {table} JOIN images ON images.id = {table}.image WHERE image = ?",
        (image,),
    ).fetchone()
    values = [tuple(about or ())]
    rows_by_space: dict[int, list[int]] = {}
    regions = database.execute(
        f"SELECT row, space, {_COLUMNS} FROM regions WHERE image = ? ORDER BY id", (image,)
    )
    for region in regions:
        rows_by_space.setdefault(region["space"], []).append(region["row"])
        values.append(tuple(region)[1:])
    checksum = zlib.crc32(marshal.dumps(values, _MARSHALLED))
    for space in store.spaces(database):
        if space.id in rows_by_space:
            vectors = store.vectors(space)[rows_by_space[space.id]]
            checksum = zlib.crc32(vectors.tobytes(), checksum)
    return checksum
