"""What was found stays until there is something new, and nothing holds the window up."""

import threading
import time

import numpy as np
import pytest
from qtpy.QtCore import Qt
from qtpy.QtWidgets import QFileDialog

from napari_maskinversion._napari.results.results_model import ResultsModel
from napari_maskinversion._napari.session import Session
from napari_maskinversion._napari.workers.model_store import ModelStore
from napari_maskinversion.engine.models import loading as backbone
from napari_maskinversion.results.export.catalogue import FORMATS


@pytest.mark.parametrize("refused_by", ["the worker", "cancel"])
def test_a_run_that_gives_nothing_leaves_the_results_before_it(
    qtbot, widget, slow, run_to_end, messages, refused_by
):
    slow.free = True
    run_to_end(widget)
    before, source = widget.results.results, widget.session.record.source
    row = widget.results.row
    heat = widget.canvas.heatmap.layer.data.copy()
    if refused_by == "the worker":
        widget._viewer.layers["photo"].data[:] = 7
        run_to_end(widget)
        assert "same value" in messages[-1]
    else:
        slow.free = False
        widget.start()
        qtbot.waitUntil(lambda: slow.reached[-1] == "encoding")
        qtbot.mouseClick(widget.foot.cancel, Qt.MouseButton.LeftButton)
        slow.go.release()
        qtbot.waitUntil(lambda: not widget.runner.busy)
    assert widget.results.results is before
    assert widget.session.record.source == source
    assert widget.results.row == row
    assert np.array_equal(widget.canvas.heatmap.layer.data, heat)
    assert widget.results.model.rowCount() == 50


class ToldLock:
    """A lock that says when two have asked for it."""

    def __init__(self):
        self._lock, self._asked, self.both = threading.Lock(), 0, threading.Event()
        self.acquire, self.release = self._lock.acquire, self._lock.release

    def __enter__(self):
        self._asked += 1
        if self._asked == 2:
            self.both.set()
        self.acquire()

    def __exit__(self, *_):
        self.release()


def test_a_forgotten_model_stays_away_though_another_task_waits_for_it(monkeypatch):
    started, go = threading.Event(), threading.Event()

    def load(name, device):
        started.set()
        go.wait(20)
        return object()

    monkeypatch.setattr(backbone, "load_model", load)
    lock = ToldLock()
    store = ModelStore(_lock=lock)
    tasks = [threading.Thread(target=store.get, args=("demo", "cpu")) for _ in range(2)]
    tasks[0].start()
    assert started.wait(20)
    tasks[1].start()
    assert lock.both.wait(20)
    begun = time.perf_counter()
    store.clear()  # without waiting for the loading
    assert time.perf_counter() - begun < 5
    go.set()
    for task in tasks:
        task.join(20)
    assert not store.has("demo", "cpu")


def test_a_closed_panel_forgets_the_model_after_everything_that_could_load_it(widget, monkeypatch):
    followers = []

    def clear(store):
        if store is widget.store:
            events = widget.session.events
            followers.extend(name for name in ("image", "vocabulary", "record") if events[name])

    monkeypatch.setattr(ModelStore, "clear", clear)
    widget.shut_down()
    assert followers == []


def test_rows_that_are_added_leave_the_others_alone(qtbot, widget, slow, run_to_end):
    slow.free = True
    run_to_end(widget)
    frame = widget.results.results.to_frame()
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
def test_a_dot_in_a_chosen_name_is_kept(
    qtbot, widget, slow, run_to_end, tmp_path, monkeypatch, typed, written
):
    slow.free = True
    run_to_end(widget)
    chosen = (str(tmp_path / typed), "")
    monkeypatch.setattr(QFileDialog, "getSaveFileName", lambda *a, **k: chosen)
    widget.exports.ask(FORMATS["npy"])
    qtbot.waitUntil(lambda: not widget.exports.saving.busy, timeout=30_000)
    assert (tmp_path / written).exists()


def test_the_region_selected_stays_selected_when_rows_change_places(widget, slow, run_to_end):
    slow.free = True
    run_to_end(widget)
    widget.results.table.selectRow(7)
    results = widget.results.results
    # As at the end of a run in windows, which finish in an order of their own.
    turned = type(results)(results.info, results.regions[::-1])
    widget.session.show(widget.session.record.changed(results=turned, table=None))
    assert widget.results.row == 42
    assert turned.regions[42].id == results.regions[7].id
