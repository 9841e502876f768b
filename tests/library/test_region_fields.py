"""The columns of a library: one table of fields, the format that stays, a new column."""

import json
import sqlite3
import subprocess
import sys
from contextlib import closing

import pyarrow.parquet as pq
import pytest

from napari_maskinversion.app.explore.region_sources import library_source
from napari_maskinversion.library.library import Library
from napari_maskinversion.library.region_fields import shown_fields
from napari_maskinversion.library.store import ROWS
from napari_maskinversion.results.export.archive import save_archive

from .made import bundle, write_image

# As libraries of format 1 have them: the name, the type, whether it is never empty, the default.
REGIONS = [
    ("id", "INTEGER", 0, None),
    ("image", "INTEGER", 1, None),
    ("plane", "TEXT", 1, None),
    ("region", "INTEGER", 1, None),
    ("space", "INTEGER", 1, None),
    ("row", "INTEGER", 1, None),
    ("y0", "INTEGER", 1, None),
    ("x0", "INTEGER", 1, None),
    ("y1", "INTEGER", 1, None),
    ("x1", "INTEGER", 1, None),
    ("area", "REAL", 1, None),
    ("label", "TEXT", 1, None),
    ("suggestion", "TEXT", 1, None),
    ("confidence", "REAL", 0, None),
    ("decision", "TEXT", 1, None),
    ("date", "TEXT", 1, None),
    ("measures", "TEXT", 1, "''"),
    ("similarity", "REAL", 0, None),
    ("margin", "REAL", 0, None),
    ("flagged", "INTEGER", 0, None),
    ("mask_hash", "TEXT", 1, "''"),
    ("coverage", "INTEGER", 1, "0"),
    ("mask", "BLOB", 0, None),
]
IMAGES = [
    ("id", "INTEGER", 0, None),
    ("path", "TEXT", 1, None),
    ("series", "INTEGER", 1, None),
    ("name", "TEXT", 1, None),
    ("content", "TEXT", 1, None),
]
EXPORTED = (
    "path: string, series: int64, name: string, content: string, plane: string, region: int64, "
    "y0: int64, x0: int64, y1: int64, x1: int64, area: double, label: string, "
    "suggestion: string, confidence: double, decision: string, date: string, measures: string, "
    "similarity: double, margin: double, flagged: int64, mask_hash: string, coverage: int64, "
    "mask: binary, picture: binary, space: string, embedding: list<element: float>"
)
SHOWN = (
    *("id", "image", "series", "plane", "region", "label", "suggestion", "confidence"),
    *("decision", "date", "area", "y0", "x0", "y1", "x1", "space", "margin", "flagged"),
)


@pytest.fixture
def library(tmp_path):
    """A library of one image with five regions."""
    made = Library.new(tmp_path / "cells")
    made.add(bundle(seed=0), image=write_image(tmp_path, 0))
    return made


def test_the_database_has_the_columns_of_its_format(library):
    with closing(sqlite3.connect(library.folder / ROWS)) as database:
        for table, columns in (("regions", REGIONS), ("images", IMAGES)):
            there = database.execute(f"PRAGMA table_info({table})").fetchall()
            assert [column[1:5] for column in there] == columns
        indexes = database.execute(
            "SELECT group_concat(columns.name) FROM pragma_index_list('regions') AS indexes,"
            " pragma_index_info(indexes.name) AS columns GROUP BY indexes.name"
        )
        keys = {columns for (columns,) in indexes}
        assert keys == {"label,decision", "image,plane,region,space", "space,row"}
        (foreign,) = database.execute("SELECT count(*) FROM pragma_foreign_key_list('regions')")
        assert foreign == (2,)


def test_an_exported_library_has_the_columns_of_its_format(library, tmp_path):
    library.export(tmp_path / "cells.parquet")
    schema = pq.read_schema(tmp_path / "cells.parquet")
    assert ", ".join(f"{field.name}: {field.type}" for field in schema) == EXPORTED


def test_rows_and_the_gallery_have_their_columns(library):
    assert tuple(library.rows()) == SHOWN
    assert tuple(library.search(like=[1])) == (*SHOWN, "similarity")
    assert set(library_source(library).table().frame) == {
        *("image", "region", "position", "suggestion", "confidence", "margin", "doubtful"),
        *("decision", "label", "area", "box", "id", "space"),
    }


def test_rows_are_documented():
    assert all(f"``{field.name}``" in Library.rows.__doc__ for field in shown_fields())


# A program of later, in which regions have one column more.
LATER = """
import json, sys
from pathlib import Path
from napari_maskinversion.library import region_fields as fields

fields.REGION_FIELDS += (
    fields.Field(
        name="texture",
        title="how rough it is",
        sql="TEXT NOT NULL DEFAULT 'it''s unknown'",
        arrow="string",
        place=19,
        in_gallery=True,
        value=lambda decided: f"rough {decided.region.id}",
        added=True,
        before="it's unknown",
    ),
)

from napari_maskinversion.app.explore.region_sources import library_source
from napari_maskinversion.library.library import Library

folder = Path(sys.argv[1])
library = Library.open(folder / "cells")
told = {}

def tell(name, library, column="texture"):
    told[name] = library.rows()[column].tolist()

tell("before", library)
told["found"] = library.search(like=[1], top=1)["texture"].tolist()
library.export(folder / "before.parquet")
library.add(folder / "second.npz")
tell("after", library)
told["gallery"] = library_source(library).table().frame["texture"].tolist()
library.export(folder / "after.parquet")
other = Library.new(folder / "other")
other.add(folder / "after.parquet")
tell("moved", other)
old = Library.new(folder / "old")
old.add(folder / "earlier.parquet")
tell("of an export of before", old)
print(json.dumps(told))
"""


def test_a_column_is_one_entry_and_libraries_of_before_get_it(library, tmp_path):
    library.export(tmp_path / "earlier.parquet")
    save_archive(bundle(2, seed=1), tmp_path / "second.npz")
    command = [sys.executable, "-c", LATER, str(tmp_path)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    unknown, known = ["it's unknown"] * 5, ["rough 1", "rough 2"]
    assert json.loads(answer.stdout) == {
        "before": unknown,
        "found": unknown[:1],
        "after": unknown + known,
        "gallery": unknown + known,
        "moved": unknown + known,
        "of an export of before": unknown,
    }
    # This program goes on with it.
    library.add(bundle(3, seed=2), image=write_image(tmp_path, 2))
    assert len(library.rows()) == 10
    assert tuple(library.rows()) == SHOWN
