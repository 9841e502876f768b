"""What is kept of a region, in one table: database, exported libraries and shown tables read it.

To add a column, add a `Field` with ``added=True`` to `REGION_FIELDS`, before ``mask``. A library
that was made before gets the column when it is written to; until then, its regions have the value
``before``.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from ..base.identity import identify, plane_text
from ..base.validation import encodable
from ..results.export.bundle import CompressedRegion
from ..results.region_result import RegionResult
from ..review.decisions import class_of


class DecidedRegion(NamedTuple):
    """A region of results, and what was decided about it."""

    region: RegionResult
    decision: str  # A status; "" for none
    accepted_label: str
    date: str  # Of the decision, else of the run
    mask: CompressedRegion | None = None  # None: it is not known

    @property
    def suggestion(self) -> str:
        """The label that the region's image suggests, or that its file gave it."""
        return self.region.suggestion or self.region.source_label

    @property
    def confidence(self) -> float | None:
        """The probability of the suggestion; None without a ranking."""
        ranking = self.region.ranking
        if ranking is None:
            return None
        return float(ranking.probabilities[0])

    @property
    def similarity(self) -> float | None:
        """The similarity of the suggestion; None without a ranking."""
        ranking = self.region.ranking
        if ranking is None:
            return None
        return float(ranking.similarities[0])

    @property
    def mask_hash(self) -> str:
        """The hash of the mask; "" if it is not known."""
        if self.mask is None:
            return ""
        return identify(self.mask.unpack(), self.region.position).mask


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A column of a region or of its image."""

    name: str
    title: str  # What it holds, for people
    sql: str = ""  # Its type in the database, with its default; "" if it is no column there
    arrow: str = ""  # Its type in an exported library; "" if it is no column there
    # Its place among the columns of `Library.rows`, from 1; 0 if it is not shown there
    place: int = 0
    selected: str = ""  # What `Library.rows` selects, if not the column of this name
    in_gallery: bool = False  # Whether gallery and map have it, see `app.explore.region_sources`
    # Returns its value for a region of results; None if the database sets it
    value: Callable[[DecidedRegion], Any] | None = None
    is_key: bool = False  # Whether it tells a region from others of its image
    added: bool = False  # Whether libraries and exports of before may lack it
    before: str | float | None = None  # The value in these


IMAGE_FIELDS: Final = (
    Field(name="path", title="file of the image", sql="TEXT NOT NULL", arrow="string"),
    Field(
        name="series",
        title="its number in a file with several",
        sql="INTEGER NOT NULL",
        arrow="int64",
        place=3,
        selected="series",
    ),
    Field(name="name", title="name of the image", sql="TEXT NOT NULL", arrow="string"),
    Field(name="content", title="hash of its pixels", sql="TEXT NOT NULL", arrow="string"),
)
"""The columns of the table ``images``."""


def _edge(name: str, number: int, title: str, *, place: int) -> Field:
    return Field(
        name=name,
        title=title,
        sql="INTEGER NOT NULL",
        arrow="int64",
        place=place,
        value=lambda decided: decided.region.bbox[number],
    )


REGION_FIELDS: Final = (
    Field(
        name="id",
        title="number in the library",
        sql="INTEGER PRIMARY KEY AUTOINCREMENT",
        place=1,
    ),
    Field(
        name="image",
        title="image",
        sql="INTEGER NOT NULL REFERENCES images",
        place=2,
        selected="CASE path WHEN '' THEN name ELSE path END",
        in_gallery=True,
    ),
    Field(
        name="plane",
        title="plane of a stack",
        sql="TEXT NOT NULL",
        arrow="string",
        place=4,
        value=lambda decided: plane_text(decided.region.position),
        is_key=True,
    ),
    Field(
        name="region",
        title="number of the region in its image",
        sql="INTEGER NOT NULL",
        arrow="int64",
        place=5,
        value=lambda decided: decided.region.id,
        is_key=True,
        in_gallery=True,
    ),
    Field(
        name="space",
        title="number of the embedding space",
        sql="INTEGER NOT NULL REFERENCES spaces",
        place=16,
    ),
    Field(name="row", title="place among the vectors of the space", sql="INTEGER NOT NULL"),
    _edge("y0", 0, "upper edge of the box", place=12),
    _edge("x0", 1, "left edge of the box", place=13),
    _edge("y1", 2, "lower edge of the box, exclusive", place=14),
    _edge("x1", 3, "right edge of the box, exclusive", place=15),
    Field(
        name="area",
        title="pixels that the region covers",
        sql="REAL NOT NULL",
        arrow="double",
        place=11,
        value=lambda decided: decided.region.area,
        in_gallery=True,
    ),
    Field(
        name="label",
        title="accepted label, else the suggestion; empty if rejected",
        sql="TEXT NOT NULL",
        arrow="string",
        place=6,
        value=lambda decided: encodable(
            class_of(decided.decision, decided.accepted_label, decided.suggestion)
        ),
        in_gallery=True,
    ),
    Field(
        name="suggestion",
        title="suggested label",
        sql="TEXT NOT NULL",
        arrow="string",
        place=7,
        value=lambda decided: encodable(decided.suggestion),
        in_gallery=True,
    ),
    Field(
        name="confidence",
        title="probability of the suggestion",
        sql="REAL",
        arrow="double",
        place=8,
        value=lambda decided: decided.confidence,
        in_gallery=True,
    ),
    Field(
        name="decision",
        title="accepted, rejected, skipped or undecided",
        sql="TEXT NOT NULL",
        arrow="string",
        place=9,
        value=lambda decided: decided.decision or "undecided",
        in_gallery=True,
    ),
    Field(
        name="date",
        title="time of the decision, else of the run",
        sql="TEXT NOT NULL",
        arrow="string",
        place=10,
        value=lambda decided: decided.date,
    ),
    Field(
        name="measures",
        title="measures of shape and intensity, as JSON",
        sql="TEXT NOT NULL DEFAULT ''",
        arrow="string",
        value=lambda decided: (
            json.dumps(dict(decided.region.measures)) if decided.region.measures else ""
        ),
    ),
    Field(
        name="similarity",
        title="similarity of the suggestion",
        sql="REAL",
        arrow="double",
        value=lambda decided: decided.similarity,
        added=True,
    ),
    Field(
        name="margin",
        title="lead of the suggestion over the next word",
        sql="REAL",
        arrow="double",
        place=17,
        value=lambda decided: decided.region.margin,
        in_gallery=True,
        added=True,
    ),
    Field(
        name="flagged",
        title="whether the suggestion is doubtful",
        sql="INTEGER",
        arrow="int64",
        place=18,
        value=lambda decided: int(decided.region.flagged),
        added=True,
    ),
    Field(
        name="mask_hash",
        title="hash of the mask",
        sql="TEXT NOT NULL DEFAULT ''",
        arrow="string",
        value=lambda decided: decided.mask_hash,
        added=True,
        before="",
    ),
    Field(
        name="coverage",
        title="whether the mask has shares of pixels",
        sql="INTEGER NOT NULL DEFAULT 0",
        arrow="int64",
        value=lambda decided: 0 if decided.mask is None else int(decided.mask.coverage),
        added=True,
        before=0,
    ),
    # The longest column comes last: SQLite reads past those before it.
    Field(
        name="mask",
        title="compressed mask",
        sql="BLOB",
        arrow="binary",
        value=lambda decided: None if decided.mask is None else decided.mask.data,
        added=True,
    ),
)
"""The columns of the table ``regions``, in their order there."""

GALLERY_FIELDS: Final = (
    Field(name="position", title="plane of a stack, as pairs of axis and index", in_gallery=True),
    Field(name="box", title="edges of the box: y0, x0, y1, x1", in_gallery=True),
    Field(name="doubtful", title="whether the suggestion is flagged", in_gallery=True),
)
"""What gallery and map have besides."""


def added_names() -> set[str]:
    """Return the columns that libraries and exports of before may lack."""
    return {field.name for field in REGION_FIELDS if field.added}


def columns_in_sql(fields: Sequence[Field]) -> str:
    """Return columns as a statement that makes a table lists them."""
    return ", ".join(f"{field.name} {field.sql}" for field in fields)


def brought_fields() -> tuple[Field, ...]:
    """Return the columns that are written with a region; the database sets the others."""
    return tuple(field for field in REGION_FIELDS if field.value is not None)


def exported_fields() -> tuple[Field, ...]:
    """Return the columns of an exported library that are columns of the database, too."""
    return tuple(field for field in (*IMAGE_FIELDS, *REGION_FIELDS) if field.arrow)


def shown_fields() -> tuple[Field, ...]:
    """Return the columns of `Library.rows`."""
    shown = [field for field in (*IMAGE_FIELDS, *REGION_FIELDS) if field.place]
    return tuple(sorted(shown, key=lambda field: field.place))


def gallery_fields() -> tuple[Field, ...]:
    """Return the columns of gallery and map."""
    return tuple(field for field in (*REGION_FIELDS, *GALLERY_FIELDS) if field.in_gallery)


def row_of(region: DecidedRegion) -> dict[str, Any]:
    """Return a region as a row of the database."""
    return {field.name: field.value(region) for field in REGION_FIELDS if field.value is not None}


def selection(database: sqlite3.Connection) -> str:
    """Return what `Library.rows` selects from a library."""
    lacking = lacking_fields(database)
    terms = []
    for field in shown_fields():
        term = field.selected or f"regions.{field.name}"
        terms.append(f"{_literal(field.before)} AS {field.name}" if field in lacking else term)
    return ", ".join(terms)


# -- what was written before a column was added ----------------------------------------------------


def lacking_fields(database: sqlite3.Connection) -> list[Field]:
    """Return the columns that a library does not have yet."""
    names = {row[1] for row in database.execute("PRAGMA table_info(regions)")}
    return [field for field in REGION_FIELDS if field.added and field.name not in names]


def add_lacking_columns(database: sqlite3.Connection) -> None:
    """Add the columns that a library does not have yet."""
    for field in lacking_fields(database):
        database.execute(f"ALTER TABLE regions ADD COLUMN {field.name} {field.sql}")


def with_lacking_values(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of an exported library with the columns that it does not have."""
    return {field.name: field.before for field in REGION_FIELDS if field.added} | dict(row)


def _literal(value: str | float | None) -> str:
    """Return a value as SQL writes it."""
    if value is None:
        return "NULL"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return repr(value)
