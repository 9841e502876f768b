"""Checksums of what an index says of each image, so that a bit that a disk flips is noticed.

A change to an image forgets its checksum, whoever makes it: the database does that itself, by
triggers. Before the change is committed, `renew` computes those that are lacking.
"""

from __future__ import annotations

import marshal
import sqlite3
import zlib
from collections.abc import Iterator, Mapping
from typing import Final

from ..library.region_fields import REGION_FIELDS
from ..library.store import Store

# A region's place among the vectors is left out: `Library.compact` changes it, and the vector,
# which is part of the checksum, stays the same.
_COLUMNS: Final = ", ".join(
    field.name for field in REGION_FIELDS if field.sql and field.name != "row"
)
_FORMAT: Final = 2  # of `marshal`: the same bytes for the same values, in every version of Python


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
    images = [row["image"] for row in rows]
    if not images:
        return
    database.executemany(
        f"UPDATE {table} SET checksum = ? WHERE image = ?",
        [(checksum, image) for image, checksum in _checksums(store, database, table, images)],
    )


def are_right(store: Store, database: sqlite3.Connection, table: str) -> bool:
    """Return whether all images are as they were written."""
    rows = database.execute(
        f"SELECT image, checksum FROM {table} WHERE checksum IS NOT NULL ORDER BY image"
    )
    kept: Mapping[int, int] = {row["image"]: row["checksum"] for row in rows}
    checksums = _checksums(store, database, table, list(kept))
    return all(checksum == kept[image] for image, checksum in checksums)


def _checksums(
    store: Store, database: sqlite3.Connection, table: str, images: list[int]
) -> Iterator[tuple[int, int]]:
    """Yield the number of an image, and the checksum of all that is known of it."""
    vectors = {space.id: store.vectors(space) for space in store.spaces(database)}
    for image in images:
        about = database.execute(
            f"SELECT {table}.name, {table}.content, stamp, about, path, series, images.name,"
            f" images.content FROM {table} JOIN images ON images.id = {table}.image"
            " WHERE image = ?",
            (image,),
        )
        regions = database.execute(
            f"SELECT row, space, {_COLUMNS} FROM regions WHERE image = ? ORDER BY id", (image,)
        ).fetchall()
        rows_by_space: dict[int, list[int]] = {}
        for region in regions:
            rows_by_space.setdefault(region["space"], []).append(region["row"])
        values = [tuple(row) for row in about] + [tuple(region)[1:] for region in regions]
        checksum = zlib.crc32(marshal.dumps(values, _FORMAT))
        for space, rows in rows_by_space.items():
            checksum = zlib.crc32(vectors[space][rows].tobytes(), checksum)
        yield image, checksum
