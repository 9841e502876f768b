"""Files written by version 0.1 open today with the same contents.

``tests/reference/version_0_1`` holds what version 0.1 wrote for sample_data/everyday-1.png with the
labels cat, dog, frog (by default, which was estimated, and with ``query_stride=1``), the decisions
of reviews, and results of planes with captions and no labels, of merged regions and soft masks.
"""

import csv
import io
import math
import shutil
from pathlib import Path

import numpy as np
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


def _reasons(status):
    return status.partition(": ")[2].split(", ") if ": " in status else [status]


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
            if column == "status":  # what was "unsure" is doubtful, or does not fit
                assert sorted(_reasons(row[column])) == sorted(_reasons(value))
            elif column == "suggestion" or column.startswith("label_"):
                assert row[column] == value
            else:
                assert float(row[column]) == pytest.approx(float(value), rel=1e-6)


@pytest.mark.parametrize("name", ["results", "results_exact", "captions"])
def test_the_embeddings_of_an_archive_are_those_as_optimised(name):
    results = open_archive(EARLIER / f"{name}.npz").results
    with np.load(EARLIER / f"{name}.npz") as file:
        np.testing.assert_array_equal(results.raw_embeddings, file["embeddings"])
    lengths = np.linalg.norm(results.raw_embeddings, axis=1, keepdims=True)
    assert (abs(lengths - 1) > 0.01).all()
    np.testing.assert_allclose(results.embeddings, results.raw_embeddings / lengths, atol=1e-6)
    with pytest.warns(DeprecationWarning, match="use embeddings"):
        np.testing.assert_array_equal(results.unit_embeddings, results.embeddings)


def test_planes_captions_and_soft_masks_come_back():
    bundle = open_archive(EARLIER / "captions.npz")
    table = io.StringIO(bundle.results.to_frame().to_csv(index=False))
    then, now = rows(EARLIER / "captions.csv"), list(csv.DictReader(table))
    for row in then:
        assert row.pop("status") == "ok"  # now "": no word was judged
    assert [{name: row[name] for name in then[0]} for row in now] == then
    info, last = bundle.results.info, bundle.results.regions[1]
    assert (info.method.name, info.axes) == ("masked-crop+sclip", ("t", "z"))
    assert info.captions.bank.source == "captions.txt"
    assert (last.captions.rows, last.members, last.cut_out) == ((2, 0), (7, 9), False)
    mask = bundle.masks[last.position, last.id].unpack()
    assert (mask.mask.dtype, mask.mask[0, 0], mask.mask[1, 1]) == (np.float32, 1, 0.5)
    assert mask.members == (7, 9)


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


def test_undone_steps_suggestions_and_other_images_come_back(tmp_path):
    file = tmp_path / "steps.png"
    shutil.copy(EARLIER / "steps.png.maskinversion.jsonl", tmp_path)
    with Review(image(), regions(), info(), file=file) as review:
        accepted = {k.id: label for k, label in review.decisions.accepted().items()}
        assert accepted == {1: 'größe "µ", 1\n2', 2: "red cell", 3: "white cell", 5: "x", 6: "x"}
        assert (review.decisions.undoable, review.decisions.redoable) == (5, 1)
        typed, taken, learned = (review.decisions[key(n)].suggestion for n in (1, 2, 3))
        assert typed is None
        assert (taken.label, taken.similarity, taken.by) == ("red cell", 0.31, "text")
        assert math.isnan(taken.score)
        assert (learned.rank, learned.score, learned.by) == (2, 0.75, "text and exemplars")
        assert math.isnan(learned.similarity)
        assert review.notes[1] == (
            "The file holds 1 decision made on another image (cells.png, of the same size with "
            "other pixels): not used here, kept in the file."
        )
