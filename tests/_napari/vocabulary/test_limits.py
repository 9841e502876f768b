"""Limits in the panel (none of these, unsure) count for the results that are shown already."""

import json

import pandas as pd
import pytest
from qtpy.QtCore import Qt
from skimage.io import imsave

from napari_maskinversion.language.labels.vocabulary import NONE_OF_THESE


@pytest.fixture
def panel(viewer, dock, scene, slow, tmp_path):
    """The panel with an image file, 50 regions and two labels; of each region the best is 0.5."""
    slow.free, slow.calibration = True, None
    imsave(tmp_path / "cells.png", scene[0])
    viewer.open(str(tmp_path / "cells.png"), plugin="napari")
    viewer.add_labels(scene[1], name="marks")
    return dock()


def type_into(qtbot, box, text):
    box.setFocus()
    box.selectAll()
    qtbot.keyClicks(box, text)
    qtbot.keyClick(box, Qt.Key.Key_Return)


def threshold(qtbot, panel, text):
    """Switch "none of these" on and type where it begins."""
    if not panel.vocabulary.none.isChecked():
        panel.vocabulary.none.click()
    type_into(qtbot, panel.vocabulary.threshold, text)
    settle(qtbot, panel)


def settle(qtbot, panel):
    qtbot.waitUntil(lambda: not panel.rerank.job.busy)


def said(panel, column="suggestion"):
    return set(panel.results.model.frame[column])


def test_limits_that_change_count_at_once_in_table_and_files(
    qtbot, panel, slow, run_to_end, tmp_path, export
):
    run_to_end(panel)
    panel.results.table.selectRow(7)
    steps = len(slow.reached)
    assert said(panel) == {"cat", "dog"}
    threshold(qtbot, panel, "0.6")
    assert said(panel) == {NONE_OF_THESE}
    assert panel.results.row == 7
    assert panel.results.bars.toolTip().startswith(
        "cat 50%, dog 50%"
    )  # what comes nearest all the same
    assert any("below threshold 0.50" in text for text in said(panel, "status"))
    export(panel, tmp_path, "csv", "json")
    assert set(pd.read_csv(tmp_path / "regions.csv")["suggestion"]) == {NONE_OF_THESE}
    record = json.loads((tmp_path / "result.json").read_text())
    assert record["vocabulary"]["threshold"] == 0.6
    threshold(qtbot, panel, "0.4")
    assert said(panel) == {"cat", "dog"}
    panel.vocabulary.none.click()
    settle(qtbot, panel)
    assert panel.results.results.info.vocabulary.threshold is None
    # Both labels are as probable: doubtful, unless nobody asks.
    assert any("low margin" in text for text in said(panel, "status"))
    limits = panel.vocabulary.uncertainty
    limits.set_values({"unsure.margin": 0.5, "unsure.overlap": 0})  # no longer automatic
    type_into(qtbot, limits["unsure.margin"], "0")
    settle(qtbot, panel)
    assert not any("low margin" in text for text in said(panel, "status"))
    type_into(qtbot, limits["unsure.overlap"], "0.7")
    settle(qtbot, panel)
    assert all("low overlap 0.50" in text for text in said(panel, "status") - {"low resolution"})
    assert len(slow.reached) == steps  # nothing was run


def test_a_run_under_way_takes_limits_that_change(qtbot, panel, slow):
    panel.model.form.set_values({"chunk_size": 10})
    slow.free = False
    panel.start()
    for _ in range(12):
        slow.go.release()
        qtbot.wait(30)
    qtbot.waitUntil(lambda: panel.results.model.rowCount() > 0)
    threshold(qtbot, panel, "0.6")
    assert said(panel) == {NONE_OF_THESE}
    assert panel.runner.busy
    slow.free = True
    slow.go.release(100)
    qtbot.waitUntil(lambda: not panel.runner.busy)
    settle(qtbot, panel)
    assert panel.results.model.rowCount() == 50
    assert said(panel) == {NONE_OF_THESE}


@pytest.fixture
def reviewing(qtbot, panel, run_to_end):
    """A review with region 1 accepted."""
    run_to_end(panel)
    qtbot.mouseClick(panel.review.part.switch, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: panel.review.state is not None)
    qtbot.keyClick(panel.review.part.switch, Qt.Key.Key_A)
    return panel


def keys(qtbot, panel, *names):
    for name in names:
        qtbot.keyClick(panel.review.part.switch, getattr(Qt.Key, f"Key_{name}"))


def lines(tmp_path, kind):
    text = (tmp_path / "cells.png.maskinversion.jsonl").read_text()
    return [line for line in map(json.loads, text.splitlines()) if line["kind"] == kind]


def test_the_review_goes_on_with_other_limits(qtbot, reviewing, tmp_path, messages):
    part = reviewing.review.part
    assert part.place.text() == "Region 2: 2 of 50"
    threshold(qtbot, reviewing, "0.6")
    assert part.place.text() == "Region 2: 2 of 50"
    keys(qtbot, reviewing, "A")
    assert "suggested to be none of these" in reviewing.foot.status.text()
    keys(qtbot, reviewing, "2")
    decided = {line["region"]: line.get("label") for line in lines(tmp_path, "decision")}
    assert decided == {1: "dog", 2: "dog"}
    limits = [run["vocabulary"]["threshold"] for run in lines(tmp_path, "run")]
    assert limits == [None, 0.6]  # each decision stands under what it was made with
    # The queue knows what is suggested now: of one label all that is left.
    state = reviewing.review.state
    assert [state.queue.label(row) for row in range(3)] == ["dog", "dog", NONE_OF_THESE]
    threshold(qtbot, reviewing, "0.3")
    assert state.queue.label(2) == "dog"
    keys(qtbot, reviewing, "A")
    assert part.counts.text().startswith("3 accepted")
    assert len(messages) == 1


def test_what_was_learned_is_judged_by_other_limits_too(qtbot, reviewing):
    import torch  # noqa: F401 - its import is no part of what is waited for

    part, control = reviewing.review.part, reviewing.review
    part.form["learn"].click()
    qtbot.waitUntil(lambda: not control.learning.busy)
    assert control.state.suggestion(3) == "cat"
    threshold(qtbot, reviewing, "0.6")
    qtbot.waitUntil(lambda: not control.learning.busy)
    assert control.state.suggestion(3) == NONE_OF_THESE
