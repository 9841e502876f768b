"""Files written by version 0.2.0.dev0 open today with the same contents.

``tests/reference/version_0_2_dev0`` holds what it wrote: results of a scene at several sizes of the
input, results of planes with captions, merged regions and soft masks, a project whose batch is
finished, and the decisions of reviews. A setting that is gone does nothing, and a line says so.
"""

import csv
import io
import json
import math
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
import yaml

from napari_maskinversion.batch.project import FORMAT, VERSION, read_project
from napari_maskinversion.results.export.archive import open_archive
from napari_maskinversion.results.settings import without_dropped
from napari_maskinversion.review.review import Review

from .review.decided import image, info, key, regions

EARLIER = Path(__file__).parent / "reference" / "version_0_2_dev0"
GONE = "multi_scale"


def rows(path):
    with path.open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


@pytest.mark.filterwarnings("ignore:These results. the setting multi_scale")
@pytest.mark.parametrize("name", ["results", "captions"])
def test_an_archive_has_the_table_it_was_saved_with(name):
    results = open_archive(EARLIER / f"{name}.npz").results
    now = list(csv.DictReader(io.StringIO(results.to_frame().to_csv(index=False))))
    assert now == rows(EARLIER / f"{name}.csv")
    with np.load(EARLIER / f"{name}.npz") as file:
        np.testing.assert_array_equal(results.raw_embeddings, file["embeddings"])


def test_planes_captions_and_soft_masks_come_back():
    bundle = open_archive(EARLIER / "captions.npz")
    info, last = bundle.results.info, bundle.results.regions[1]
    assert (info.method.name, info.axes) == ("masked-crop+sclip", ("t", "z"))
    assert info.captions.bank.source == "captions.txt"
    assert (last.captions.rows, last.members, last.cut_out) == ((2, 0), (7, 9), False)
    mask = bundle.masks[last.position, last.id].unpack()
    assert (mask.mask.dtype, mask.mask[0, 0], mask.mask[1, 1]) == (np.float32, 1, 0.5)
    assert mask.members == (7, 9)


def test_a_finished_batch_is_done_but_for_the_weights_of_the_demo_model(tmp_path, call):
    project = tmp_path / "project"
    shutil.copytree(EARLIER / "project", project)
    code, shown, said = call("project", "status", project, "--out", project / "out")
    assert code == 0
    assert "computed from other model: scene.png" in shown + said


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


def test_an_archive_opens_and_one_line_says_what_does_nothing():
    with pytest.warns(UserWarning, match=r"multi_scale \(on\) does nothing any more") as warned:
        results = open_archive(EARLIER / "results.npz").results
    assert results.info.settings.inversion.steps == 4
    assert len(warned) == 1


def test_a_limit_that_is_gone_is_named_only_where_it_was_used():
    for odds, lines in ((None, 0), (3, 1)):
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            for values in ({"unsure": {"tokens": 1.0, "odds": odds}}, {"unsure.odds": odds}):
                assert "odds" not in str(without_dropped(values, "It"))
        assert [str(one.message) for one in warned] == 2 * lines * [
            "It: the setting unsure.odds (3) does nothing any more; unsure.margin takes its place."
        ]


@pytest.mark.filterwarnings("ignore:These results. the setting multi_scale")
def test_a_threshold_that_was_never_used_keeps_nothing_from_opening(tmp_path):
    """With captions alone, any was taken and kept."""
    with np.load(EARLIER / "results.npz") as file:
        arrays = dict(file)
    record = json.loads(bytes(arrays["record"]))
    record["info"]["settings"]["threshold"] = 2.0
    arrays["record"] = np.frombuffer(json.dumps(record).encode(), np.uint8)
    np.savez(tmp_path / "results.npz", **arrays)
    with pytest.warns(UserWarning, match=r"threshold \(2.0\) does nothing"):
        assert open_archive(tmp_path / "results.npz").results.info.settings.threshold is None
    content = {"format": FORMAT, "version": VERSION, "settings": {"threshold": -3}}
    (tmp_path / "project.yaml").write_text(yaml.safe_dump(content), "utf-8")
    project = read_project(tmp_path / "project.yaml")
    with pytest.warns(UserWarning, match=r"The project: the setting threshold \(-3\)"):
        settings = project.run_settings(tmp_path)
    assert settings.threshold is None


@pytest.mark.parametrize(("value", "model", "lines"), [("auto", "demo", 1), ("auto", "other", 0)])
def test_what_made_no_difference_is_not_worth_a_line(value, model, lines):
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        assert without_dropped({"model": model, GONE: value}, "It") == {"model": model}
    assert len(warned) == lines


def test_a_project_opens_and_the_command_line_says_it_in_one_line(tmp_path, call):
    file = tmp_path / "project.yaml"
    settings = {"inversion.alpha": 1.0, GONE: "off"}
    content = {"format": FORMAT, "version": VERSION, "settings": settings}
    file.write_text(yaml.safe_dump(content), "utf-8")
    with pytest.warns(UserWarning, match=GONE):
        project = read_project(file)
    assert project.run_settings(tmp_path).inversion.alpha == 1
    _, _, error = call("project", "status", file, "--out", tmp_path / "out")
    (line,) = [line for line in error.splitlines() if GONE in line]
    assert line.startswith("The project: the setting multi_scale (off) does nothing any more")


def test_the_panel_starts_with_its_other_settings():
    from napari_maskinversion._napari.panel.panel_state import PanelState

    with pytest.warns(UserWarning, match=f"The settings of the last time: the setting {GONE}"):
        state = PanelState(settings={"inversion.alpha": 2.0, GONE: "on"})
    assert state.settings.inversion.alpha == 2
