"""A run in its thread: progress, cancel, failure of every kind, and windows that go away."""

import threading
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from qtpy.QtCore import Qt, QThreadPool

from napari_maskinversion._napari.plugin.annotation_files import read_layers
from napari_maskinversion.app.requests.run_task import RunTask
from napari_maskinversion.base.errors import InputError
from napari_maskinversion.base.regions import Regions
from napari_maskinversion.regions.annotations.annotation import Annotation, Annotations
from napari_maskinversion.regions.annotations.coco_writing import write_coco
from tests._napari.running import texts_of


def press(qtbot, button):
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)


def ended(qtbot, widget):
    qtbot.waitUntil(lambda: not widget.runner.busy)


def no_worker_left(qtbot):
    qtbot.waitUntil(lambda: QThreadPool.globalInstance().activeThreadCount() == 0)


def test_a_run_fills_the_table_chunk_by_chunk(qtbot, widget, slow, monkeypatch):
    clock = SimpleNamespace(monotonic=lambda: 10 * len(slow.reached))  # ten seconds a step
    for module in ("work.driver", "requests.run_task"):
        monkeypatch.setattr(f"napari_maskinversion.app.{module}.time", clock)
    widget.start()
    assert not widget.foot.button.isEnabled()
    assert widget.foot.cancel.isEnabled()
    texts, rows = texts_of(widget.runner), []
    widget.runner.changed.connect(lambda: rows.append(widget.results.model.rowCount()))
    slow.go.release(100)
    ended(qtbot, widget)
    rows.append(widget.results.model.rowCount())
    assert list(dict.fromkeys(rows)) == [0, 16, 32, 48, 50]
    assert any("Regions 17-32 of 50, step 1 of 3" in text for text in texts)
    assert widget.foot.button.isEnabled()
    assert not widget.foot.cancel.isEnabled()


def test_names_of_a_file_come_through_a_run_and_are_compared(
    widget, slow, run_to_end, messages, tmp_path
):
    labels = widget._viewer.layers["cells"]
    regions = Regions.from_labels(labels.data).only([1, 2, 3])
    items = tuple(
        Annotation(region=region, label=name, values={"called": name.title()})
        for region, name in zip(regions, ("cat", "DOG", "bird"), strict=True)
    )
    write_coco(Annotations(shape=(160, 200), items=items, image="photo"), tmp_path / "a.json")
    ((pixels, about, _),) = read_layers(tmp_path / "a.json")
    layer = widget._viewer.add_labels(pixels, **about)
    widget.session.choose(regions=layer)
    slow.free = True
    run_to_end(widget)
    results = widget.session.run.results
    assert [(one.source_label, one.source_id) for one in results.regions] == [
        ("cat", "1"),
        ("DOG", "2"),
        ("bird", "3"),
    ]
    assert results.to_frame()["called"].tolist() == ["Cat", "Dog", "Bird"]
    # An export to COCO keeps the numbers of the categories.
    numbers = widget.session.run.record.source["category_ids"]
    assert numbers == {"cat": 1, "DOG": 2, "bird": 3}
    # The stand-in suggests dog, cat, dog.
    said = " ".join(messages)
    assert "0 of 2 suggestions (0 %) are the names in the file of the regions." in said


def test_cancel_keeps_the_chunks_that_are_finished(qtbot, widget, slow):
    widget.start()
    slow.go.release(4 + 3 + 3 + 1)  # the encoding, two chunks, one step of the third
    qtbot.waitUntil(lambda: len(slow.reached) == 12)
    press(qtbot, widget.foot.cancel)
    slow.go.release()
    ended(qtbot, widget)
    assert widget.results.model.frame["region"].tolist() == list(range(1, 33))
    assert widget.session.run.progress.phase == "cancelled"
    assert widget.foot.status.text().startswith("32 of 50 regions done.")
    assert slow.closed.is_set()  # memory is given back at once, not when somebody collects it
    assert len(slow.reached) == 12  # not a step more


@pytest.mark.parametrize("chunks", [0, 1])
def test_a_failure_of_any_kind_is_told_in_one_line_and_ends_the_run(
    qtbot, widget, slow, messages, chunks
):
    slow.free, slow.fail_after_chunks = True, chunks
    for error, says in (
        (RuntimeError("a kernel failed"), "The run broke off"),
        (StopIteration("odd"), "The run broke off"),
        (KeyboardInterrupt(), "The run broke off"),
        (RuntimeError("CUDA out of memory. Tried to allocate"), "fewer regions at once"),
        (InputError("Region 7 covers no pixel."), "Region 7 covers no pixel."),
    ):
        messages.clear()
        slow.error = error
        widget.start()
        ended(qtbot, widget)
        (message,) = messages
        assert says in message
        assert "\n" not in message
        assert widget.foot.button.isEnabled()
        assert widget.results.model.rowCount() == 16 * chunks
    # Usable as before.
    slow.error = None
    widget.start()
    ended(qtbot, widget)
    assert widget.results.model.rowCount() == 50
    assert len(messages) == 1  # nothing more of a run that goes well


def test_deleting_the_layers_meanwhile_loses_the_heatmap_and_nothing_else(
    qtbot, widget, slow, messages
):
    widget.start()
    slow.go.release(5)
    qtbot.waitUntil(lambda: len(slow.reached) == 6)
    widget._viewer.layers.clear()
    slow.free = True
    slow.go.release()
    ended(qtbot, widget)
    assert widget.results.model.rowCount() == 50
    assert len(widget._viewer.layers) == 0
    widget.results.table.selectRow(3)
    assert not messages


def test_closing_the_dock_stops_the_run_and_lets_go(window, qtbot, widget, slow):
    viewer = widget._viewer
    widget.start()
    qtbot.waitUntil(lambda: len(slow.reached) == 1)
    viewer.window.remove_dock_widget(widget)
    slow.go.release()
    no_worker_left(qtbot)
    assert len(slow.reached) == 1  # stopped at the step it was in
    qtbot.waitUntil(slow.closed.is_set)
    assert widget.canvas.image is None
    viewer.add_labels(np.zeros((160, 200), int), name="later")  # nobody listens any more
    assert "later" not in [widget.input.regions.itemText(i) for i in range(9)]


def test_the_work_is_done_in_another_thread_and_the_model_is_kept(
    qtbot, widget, slow, monkeypatch, run_to_end
):
    from napari_maskinversion.engine.compute.devices import choose_device
    from napari_maskinversion.engine.models import loading

    loads = []

    def load_model(name, *, device):
        loads.append((name, device, threading.current_thread() is threading.main_thread()))
        return object()

    monkeypatch.undo()
    monkeypatch.setattr(loading, "load_model", load_model)
    monkeypatch.setattr("napari_maskinversion.pipeline.run.run_planes", slow)
    slow.free = True
    run_to_end(widget)
    run_to_end(widget)
    assert loads == [("demo", str(choose_device("auto")), False)]


def test_after_the_first_run_of_an_uncalibrated_model_it_is_said_once_that_fit_is_not_flagged(
    widget, slow, messages, run_to_end
):
    slow.free, slow.calibration = True, None
    run_to_end(widget)
    assert widget.foot.status.text().startswith("Whether heatmaps fit is not flagged")
    assert "'napari-maskinversion models calibrate fake results.npz'" in messages[-1]
    widget.session.say("")
    run_to_end(widget)
    assert len(messages) == 1


def test_cancel_works_while_the_planes_of_a_stack_are_read(qtbot, viewer, dock, messages):
    stack = np.zeros((30, 40, 40), np.int32)
    stack[:, 5:15, 5:15] = 1
    reading, read = threading.Event(), []

    class Slow:
        shape, dtype, ndim = stack.shape, stack.dtype, 3

        def __getitem__(self, key):
            if threading.current_thread() is not threading.main_thread():
                read.append(key)
                reading.wait(10)
            return stack[key]

    viewer.add_image(np.zeros((30, 40, 40), np.uint8), name="photo")
    viewer.add_labels(stack, name="cells")
    panel = dock()
    panel.input.scope.planes.setCurrentIndex(panel.input.scope.planes.findData("largest"))
    request = panel.run_controller.request()
    regions = replace(request.input.regions, data=Slow(), pinned=False)
    request = replace(request, input=replace(request.input, regions=regions))
    panel.runner.start(RunTask(request, panel.store).work)
    panel.session.begin_run(panel.session.run.snapshot())
    qtbot.waitUntil(lambda: len(read) == 1)
    qtbot.mouseClick(panel.foot.cancel, Qt.MouseButton.LeftButton)
    reading.set()
    qtbot.waitUntil(lambda: not panel.runner.busy)
    assert len(read) == 1  # not a plane more
    assert panel.foot.button.isEnabled()
    assert not messages
