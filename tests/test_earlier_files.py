"""Files written by version 0.1 open today with the same contents.

``tests/reference/version_0_1`` holds what version 0.1 wrote for sample_data/everyday-1.png with the
labels cat, dog, frog (by default, which was estimated, and with ``query_stride=1``), and the
decisions of a review.
"""

import csv
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from napari_maskinversion.cli.app import app
from napari_maskinversion.results.export.archive import open_archive
from napari_maskinversion.review.review import Review

from .review.decided import image, info, key, regions

EARLIER = Path(__file__).parent / "reference" / "version_0_1"


def rows(path):
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.parametrize("name", ["results", "results_exact"])
def test_an_archive_exports_the_table_it_was_saved_with(tmp_path, name):
    call = [
        "export",
        str(EARLIER / f"{name}.npz"),
        "--format",
        "csv",
        "--out",
        str(tmp_path / "out"),
    ]
    outcome = CliRunner().invoke(app, call)
    assert outcome.exit_code == 0, outcome.output
    then, now = rows(EARLIER / f"{name}.csv"), rows(tmp_path / "out" / "regions.csv")
    assert [row["suggestion"] for row in now] == [row["suggestion"] for row in then]
    for row, earlier in zip(now, then, strict=True):
        assert set(row) >= set(earlier)
        for column, value in earlier.items():
            if column in ("suggestion", "status") or column.startswith("label_"):
                assert row[column] == value
            else:
                assert float(row[column]) == pytest.approx(float(value), rel=1e-6)


@pytest.mark.parametrize(("name", "fast"), [("results", True), ("results_exact", False)])
def test_an_archive_says_whether_it_was_estimated(name, fast):
    assert open_archive(EARLIER / f"{name}.npz").results.info.config.fast is fast


def test_decisions_come_back(tmp_path):
    file = tmp_path / "cells.png"
    shutil.copy(EARLIER / "cells.png.maskinversion.jsonl", tmp_path)
    with Review(image(), regions(), info(), file=file) as review:
        accepted = {k.id: label for k, label in review.decisions.accepted().items()}
        assert accepted == {1: 'größe "µ", 1\n2', 3: "red cell", 6: "x", 7: "x"}
        assert review.decisions.status(key(2)) == "rejected"
        review.undo()
        accepted = {k.id: label for k, label in review.decisions.accepted().items()}
        assert accepted == {1: 'größe "µ", 1\n2', 3: "red cell"}
