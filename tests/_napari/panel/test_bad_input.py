"""What users do to a plugin: a clear message, nothing lost, and the panel usable afterwards."""

from contextlib import suppress

import numpy as np
import pytest

from napari_maskinversion._napari.panel.widget import MaskInversionWidget
from napari_maskinversion._napari.workers.preload import warm_up
from napari_maskinversion.base.errors import InputError

SQUARE = np.array([(4, 4), (4, 9), (9, 9), (9, 4)], dtype=float)


def press(qtbot, widget):
    widget.start()


def ended(qtbot, widget):
    qtbot.waitUntil(lambda: not widget.runner.busy, timeout=60_000)


def at_first_step(qtbot, slow):
    qtbot.waitUntil(lambda: len(slow.reached) >= 1, timeout=60_000)


def empty_shapes(viewer):
    return [viewer.add_shapes(None, ndim=2, name="empty")]


def no_pixels(viewer):
    with suppress(ValueError):  # the viewer's own thumbnail cannot be made; the layer has the data
        viewer.layers["photo"].data = np.zeros((0, 200, 3), np.uint8)


def shapes_of_other_planes(viewer):
    stack = viewer.add_image(np.random.rand(5, 160, 200), name="stack")
    deep = viewer.add_shapes([np.insert(SQUARE, 0, 1, axis=1)], name="deep")
    viewer.dims.set_point(0, 3)
    return [stack, deep]


def shapes_across_planes(viewer):
    stack = viewer.add_image(np.random.rand(5, 160, 200), name="stack")
    tilted = viewer.add_shapes([np.column_stack([[0, 1, 2, 3], SQUARE])], name="tilted")
    viewer.dims.set_point(0, 1)
    return [stack, tilted]


def flat_regions_of_a_stack_seen_from_the_side(viewer):
    stack = viewer.add_image(np.random.rand(5, 160, 200), name="stack")
    viewer.layers.move(viewer.layers.index("cells"), 3)
    viewer.dims.order = (1, 0, 2)
    return [stack]


def regions_wholly_outside(viewer):
    viewer.layers["cells"].translate = (1000, 1000)


def shapes_wholly_outside(viewer):
    return [viewer.add_shapes([SQUARE, SQUARE + 1000], name="far")]


def a_stack_of_labels_shorter_than_the_image(viewer):
    stack = viewer.add_image(np.random.rand(5, 160, 200), name="stack")
    short = viewer.add_labels(np.ones((2, 160, 200), int), name="short")
    viewer.dims.set_point(0, 4)
    return [stack, short]


def singular_affine(viewer):
    # Nor can the viewer draw it, or give its sliders a range.
    with suppress(np.linalg.LinAlgError, OverflowError):
        viewer.layers["cells"].affine = np.array([[1, 2, 0], [2, 4, 0], [0, 0, 1.0]])


BAD = [
    (empty_shapes, "no regions"),
    (no_pixels, "no pixels"),
    (shapes_of_other_planes, "no regions"),
    (shapes_across_planes, "no regions"),
    (flat_regions_of_a_stack_seen_from_the_side, "no extent along a displayed axis"),
    (regions_wholly_outside, "50 regions lie outside the image"),
    (shapes_wholly_outside, "1 region lies outside the image (shape 1)"),
    (a_stack_of_labels_shorter_than_the_image, "lies outside the layer 'short'"),
    (singular_affine, "singular affine"),
]


@pytest.mark.parametrize(("spoil", "says"), BAD, ids=[spoil.__name__ for spoil, _ in BAD])
def test_bad_layers_are_refused_in_words_and_the_next_run_works(
    qtbot, widget, slow, messages, run_to_end, scene, spoil, says
):
    slow.free = True
    run_to_end(widget)
    before = widget.results.results
    # The layers of the last run stay chosen until the user chooses others.
    for layer in spoil(widget._viewer) or ():
        widget.preselect(layer)
    shown = widget.results.results
    messages.clear()
    run_to_end(widget)
    assert len(messages) == 1, messages
    assert says in messages[0]
    assert "\n" not in messages[0]
    assert widget.results.results is shown
    assert widget.foot.button.isEnabled()
    viewer = widget._viewer
    viewer.layers["cells"].affine = np.eye(3)
    viewer.layers["photo"].data = scene[0]
    viewer.dims.order = tuple(range(viewer.dims.ndim))
    viewer.layers.clear()
    viewer.add_image(scene[0], name="photo")
    viewer.add_labels(scene[1], name="cells")
    messages.clear()
    run_to_end(widget)
    assert not messages
    assert widget.results.results is not before
    assert widget.results.model.rowCount() == 50


def test_regions_outside_the_image_are_counted_before_the_run(widget, slow, qtbot):
    slow.free = True
    cells, status = widget._viewer.layers["cells"], widget.foot.status
    cells.translate = (100, 0)  # the last row of squares lies below the image
    widget.estimator.later()
    qtbot.waitUntil(lambda: "outside" in status.text(), timeout=20_000)
    assert "10 regions lie outside the image and are left out." in status.text()
    cells.translate = (1000, 0)
    widget.estimator.later()
    qtbot.waitUntil(
        lambda: status.text().startswith("50 regions lie outside the image; move the layer"),
        timeout=20_000,
    )


def test_a_shape_without_size_is_the_pixel_it_lies_on(widget, slow, messages, run_to_end):
    slow.free = True
    widget._viewer.add_shapes([np.tile([20.2, 30.4], (4, 1))], name="dot")
    run_to_end(widget)
    assert not messages
    (region,) = widget.results.results.regions
    assert region.bbox == (20, 30, 21, 31)


def test_a_layer_renamed_meanwhile_is_still_the_layer(qtbot, widget, slow, messages):
    photo = widget._viewer.layers["photo"]
    press(qtbot, widget)
    at_first_step(qtbot, slow)
    photo.name = "other name"
    slow.free = True
    slow.go.release()
    ended(qtbot, widget)
    assert not messages
    assert widget.results.model.rowCount() == 50
    assert widget.canvas.heatmap.layer is not None
    assert widget.session.record.source["image_layer"] == "photo"  # as it was called then


@pytest.mark.parametrize("shape", [(40, 50, 3), (3, 160, 200)])
def test_data_replaced_meanwhile_do_not_mix_with_the_results(
    qtbot, widget, slow, messages, run_to_end, shape
):
    viewer = widget._viewer
    press(qtbot, widget)
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


def test_the_labels_deleted_meanwhile_cost_nothing(qtbot, widget, slow, messages):
    press(qtbot, widget)
    at_first_step(qtbot, slow)
    widget._viewer.layers.remove("cells")
    slow.free = True
    slow.go.release()
    ended(qtbot, widget)
    assert not messages
    assert widget.results.model.rowCount() == 50
    assert widget.canvas.heatmap.layer is not None


def test_two_viewers_keep_out_of_each_others_way(
    qtbot, widget, slow, messages, run_to_end, scene, make_napari_viewer
):
    other = make_napari_viewer()
    other.add_image(scene[0], name="photo")
    other.add_labels(scene[1], name="cells")
    second = MaskInversionWidget(other)
    other.window.add_dock_widget(second, name="second")
    second.vocabulary.text.setPlainText("owl")
    press(qtbot, widget)
    press(qtbot, second)
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
    press(qtbot, widget)
    at_first_step(qtbot, slow)
    second = MaskInversionWidget(widget._viewer)
    press(qtbot, second)
    assert not second.runner.busy
    second.shut_down()
    assert widget.session.run.running
    slow.free = True
    slow.go.release(1000)
    ended(qtbot, widget)
    assert not messages
    assert widget.results.model.rowCount() == 50


def test_a_refusal_stands_with_a_device_of_the_user_s_choice_too(qtbot, widget, slow, run_to_end):
    warm_up()  # so that the devices are listed again after the run
    widget.model.choose_device("cpu")
    slow.free, slow.error = True, InputError("Every pixel has the same value.")
    run_to_end(widget)
    assert widget.foot.status.text() == "Every pixel has the same value."
    widget.input.count()
    assert widget.foot.status.text() == "Every pixel has the same value."
