"""What users do to a plugin: a clear message, nothing lost, and the panel usable afterwards."""

import numpy as np
import pytest
from napari.components import ViewerModel

from napari_maskinversion._napari.panel.widget import MaskInversionWidget


def ended(qtbot, widget):
    qtbot.waitUntil(lambda: not widget.runner.busy)


def at_first_step(qtbot, slow):
    qtbot.waitUntil(lambda: len(slow.reached) >= 1)


def test_bad_layers_are_refused_and_the_next_run_works(ran, messages, run_to_end):
    before, cells = ran.results.results, ran._viewer.layers["cells"]
    cells.translate = (1000, 1000)
    run_to_end(ran)
    (message,) = messages
    assert "50 regions lie outside the image" in message
    assert ran.results.results is before
    assert ran.foot.button.isEnabled()
    cells.translate = (0, 0)
    messages.clear()
    run_to_end(ran)
    assert not messages
    assert ran.results.results is not before
    assert ran.results.model.rowCount() == 50


def test_regions_outside_the_image_are_counted_before_the_run(widget, slow, qtbot):
    slow.free = True
    cells, status = widget._viewer.layers["cells"], widget.foot.status
    cells.translate = (100, 0)  # the last row of squares lies below the image
    widget.estimator.later()
    qtbot.waitUntil(lambda: "outside" in status.text())
    assert "10 regions lie outside the image and are left out." in status.text()
    cells.translate = (1000, 0)
    widget.estimator.later()
    qtbot.waitUntil(
        lambda: status.text().startswith("50 regions lie outside the image; move the layer")
    )


def test_a_layer_renamed_meanwhile_is_still_the_layer(qtbot, widget, slow, messages):
    photo = widget._viewer.layers["photo"]
    widget.start()
    at_first_step(qtbot, slow)
    photo.name = "other name"
    slow.free = True
    slow.go.release()
    ended(qtbot, widget)
    assert not messages
    assert widget.results.model.rowCount() == 50
    assert widget.canvas.heatmap.layer is not None
    assert widget.session.run.record.source["image_layer"] == "photo"  # as it was called then


@pytest.mark.parametrize("shape", [(40, 50, 3), (3, 160, 200)])
def test_data_replaced_meanwhile_do_not_mix_with_the_results(
    qtbot, widget, slow, messages, run_to_end, shape
):
    viewer = widget._viewer
    widget.start()
    at_first_step(qtbot, slow)
    if len(shape) == 3 and shape[-1] == 3:
        viewer.layers["photo"].data = np.zeros(shape, np.uint8)
    else:
        viewer.layers["cells"].data = np.zeros(shape, int)
    slow.free = True
    slow.go.release()
    ended(qtbot, widget)
    assert widget.results.model.rowCount() == 50  # of the data there were when Run was pressed
    if shape[-1] == 3:
        assert len(messages) == 1
        assert "another size" in messages[0]
        assert widget.canvas.heatmap.layer is None
        widget.results.table.selectRow(4)  # said once, not at every row
        assert len(messages) == 1
    else:
        assert not messages


def test_two_viewers_keep_out_of_each_others_way(
    qtbot, widget, dock, slow, messages, run_to_end, scene
):
    other = ViewerModel()
    other.add_image(scene[0], name="photo")
    other.add_labels(scene[1], name="cells")
    second = dock(other, words="owl")
    widget.start()
    second.start()
    at_first_step(qtbot, slow)
    slow.free = True
    slow.go.release(1000)
    for one in (widget, second):
        ended(qtbot, one)
    assert not messages
    assert set(widget.results.results.to_frame()["suggestion"]) == {"cat", "dog"}
    assert set(second.results.results.to_frame()["suggestion"]) == {"owl"}
    heat = widget.canvas.heatmap.layer
    assert heat is not second.canvas.heatmap.layer
    second.shut_down()
    assert heat in widget._viewer.layers
    run_to_end(widget)
    assert widget.results.model.rowCount() == 50


def test_a_second_panel_of_a_viewer_starts_and_ends_no_run_beside_the_first(
    qtbot, widget, slow, messages
):
    widget.start()
    at_first_step(qtbot, slow)
    second = MaskInversionWidget(widget._viewer)
    begun = widget.session.run.progress.snapshot
    second.start()
    assert widget.session.run.progress.snapshot is begun
    second.shut_down()
    assert widget.session.run.progress.running
    slow.free = True
    slow.go.release(1000)
    ended(qtbot, widget)
    assert not messages
    assert widget.results.model.rowCount() == 50
