"""A project has its images ranked as the screen showed them when they were left."""

import numpy as np
import pandas as pd
import pytest

from napari_maskinversion.batch.finished import differences, is_damaged
from napari_maskinversion.batch.opened import OpenProject
from napari_maskinversion.batch.project_index import ProjectIndex, archive_file, place_in
from napari_maskinversion.results.export.archive import open_archive
from tests._napari.images.conftest import go, on_disk, open_project, review
from tests._napari.review.reviewing import assert_same_bits

NAME, OTHER = "cell-2.png", "cell-1.png"


def stored(folder):
    """The results of the image, as its archive has them."""
    return open_archive(archive_file(OpenProject.read(folder), NAME)).results


def suggestions(results):
    return {region.id: region.suggestion for region in results.regions}


def in_index(folder):
    """The suggestions of the image, as gallery and search of the project read them."""
    project = OpenProject.read(folder)
    rows = ProjectIndex.fresh(project).library.rows()
    rows = rows[rows["image"] == place_in(project, NAME).path]
    return dict(zip(rows["region"].tolist(), rows["suggestion"].tolist(), strict=True))


def ranked(qtbot, panel):
    qtbot.waitUntil(lambda: not panel.review.learning.busy)


def leave(qtbot, panel):
    go(qtbot, panel, OTHER)
    on_disk(qtbot, panel)


def test_the_project_keeps_how_decisions_ranked_an_image_and_a_batch_keeps_it_too(
    qtbot, panel, computed
):
    before = stored(computed)
    go(qtbot, panel, NAME)
    panel.review.part.form.set_values({"order": "given", "learn": True})
    state = review(qtbot, panel)
    for row, word in ((0, "wolf"), (1, "dog")):
        panel.session.select(row)
        panel.review.actions.accept_typed(word)
    ranked(qtbot, panel)
    shown = suggestions(panel.session.run.results)
    assert shown != suggestions(before)
    assert suggestions(stored(computed)) == suggestions(before)  # not after each decision
    leave(qtbot, panel)
    assert suggestions(stored(computed)) == shown == in_index(computed)
    task = OpenProject.read(computed).task(NAME)
    part = pd.read_parquet(task.part)
    assert dict(zip(part["region"], part["suggestion"], strict=True)) == shown
    assert set(part["classifier"]) == {"unsaved (2 decisions)"}
    assert differences(task) == []  # so a batch computes nothing
    assert not is_damaged(task)

    go(qtbot, panel, NAME)
    qtbot.waitUntil(lambda: panel.session.reviewed not in (None, state))
    ranked(qtbot, panel)
    assert suggestions(panel.session.run.results) == shown
    panel.review.part.form["learn"].setChecked(False)
    ranked(qtbot, panel)
    leave(qtbot, panel)
    assert_same_bits(stored(computed), before)
    assert in_index(computed) == suggestions(before)
    np.testing.assert_array_equal(stored(computed).raw_embeddings, before.raw_embeddings)


def move_threshold(panel):
    panel.vocabulary.threshold.setValue(0.25)
    panel.vocabulary.none.setChecked(True)


def move_limit(panel):
    run = panel.session.run
    run.settings = run.settings.changed({"unsure.tokens": 0.5})


def limits(results):
    return results.info.vocabulary.threshold, results.info.settings.unsure


def decided_run(qtbot, panel, project, *, learn):
    """Run the image of a project, and decide about two regions."""
    open_project(qtbot, panel, project)
    go(qtbot, panel, NAME)
    panel.start()
    qtbot.waitUntil(lambda: bool(panel.session.run.results))
    qtbot.waitUntil(lambda: not panel.session.run.progress.running)
    on_disk(qtbot, panel)
    panel.review.part.form.set_values({"order": "given", "learn": learn})
    review(qtbot, panel)
    for row, word in ((0, "wolf"), (1, "dog")):
        panel.session.select(row)
        panel.review.actions.accept_typed(word)
    ranked(qtbot, panel)
    return panel.session.run.results


def limits_changed(qtbot, panel, before):
    qtbot.waitUntil(lambda: limits(panel.session.run.results) != limits(before))
    return panel.session.run.results


@pytest.mark.parametrize("learn", [True, False])
@pytest.mark.parametrize("move", [move_threshold, move_limit])
def test_the_project_keeps_results_with_a_limit_that_was_changed_after_the_run(
    qtbot, panel, project, move, learn
):
    before = decided_run(qtbot, panel, project, learn=learn)
    move(panel)
    limits_changed(qtbot, panel, before)
    ranked(qtbot, panel)
    shown = panel.session.run.results
    assert shown.has_decisions == learn
    leave(qtbot, panel)
    task = OpenProject.read(project).task(NAME)
    assert differences(task) == []  # so a batch computes nothing, and Accept all takes it
    assert not is_damaged(task)
    assert limits(stored(project)) == (task.vocabulary.threshold, task.settings.unsure)
    assert_same_bits(stored(project), shown)
    assert stored(project).without_decisions().info.vocabulary == task.vocabulary


def test_a_learned_ranking_is_kept_also_if_the_image_is_left_before_it_is_learned_again(
    qtbot, panel, project, monkeypatch
):
    before = decided_run(qtbot, panel, project, learn=True)
    monkeypatch.setattr(panel.review.learning, "ask", lambda: None)  # too slow an answer
    move_threshold(panel)
    shown = limits_changed(qtbot, panel, before)
    assert shown.has_decisions
    leave(qtbot, panel)
    assert_same_bits(stored(project), shown)
