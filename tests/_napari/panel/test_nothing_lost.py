"""What was found stays until there is something new, and nothing holds the window up."""

import numpy as np
import pytest
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QFileDialog

from napari_maskinversion._napari.results.results_model import ResultsModel
from napari_maskinversion.app.session import Session
from napari_maskinversion.results.export.catalogue import FORMATS


@pytest.mark.parametrize("refused_by", ["the worker", "cancel"])
def test_a_run_that_gives_nothing_leaves_the_results_before_it(
    qtbot, ran, slow, run_to_end, messages, refused_by
):
    before, source = ran.results.results, ran.session.run.record.source
    row = ran.results.row
    heat = ran.canvas.heatmap.layer.data.copy()
    if refused_by == "the worker":
        ran._viewer.layers["photo"].data[:] = 7
        run_to_end(ran)
        assert "same value" in messages[-1]
    else:
        slow.free = False
        ran.start()
        qtbot.waitUntil(lambda: slow.reached[-1] == "encoding")
        qtbot.mouseClick(ran.foot.cancel, Qt.MouseButton.LeftButton)
        slow.go.release()
        qtbot.waitUntil(lambda: not ran.runner.busy)
    assert ran.results.results is before
    assert ran.session.run.record.source == source
    assert ran.results.row == row
    assert np.array_equal(ran.canvas.heatmap.layer.data, heat)
    assert ran.results.model.rowCount() == 50


def test_rows_that_are_added_leave_the_others_alone(qtbot, ran):
    frame = ran.results.results.to_frame()
    model = ResultsModel(Session())
    model.set_frame(frame[:20])
    changed = []
    model.dataChanged.connect(lambda *cells: changed.append(cells))
    with qtbot.waitSignal(model.rowsInserted):
        model.set_frame(frame)
    assert changed == []
    other = frame.assign(suggestion="other")
    model.set_frame(other)
    assert changed
    assert model.index(3, 1).data() == "other"


@pytest.mark.parametrize(
    ("typed", "written"), [("run_v1.2", "run_v1.2.npy"), ("run.npy", "run.npy")]
)
def test_a_dot_in_a_chosen_name_is_kept(qtbot, ran, tmp_path, monkeypatch, typed, written):
    chosen = (str(tmp_path / typed), "")
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *a, **k: chosen)
    ran.exports.ask(FORMATS["npy"])
    qtbot.waitUntil(lambda: not ran.exports.saving.busy)
    assert (tmp_path / written).exists()


def test_the_region_selected_stays_selected_when_rows_change_places(ran):
    ran.results.table.selectRow(7)
    results = ran.results.results
    # As at the end of a run in windows, which finish in an order of their own.
    turned = type(results)(results.info, results.regions[::-1])
    ran.session.show(ran.session.run.record.changed(results=turned, table=None))
    assert ran.results.row == 42
    assert turned.regions[42].id == results.regions[7].id
