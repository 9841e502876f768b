"""Windows in the panel: what is asked of the engine, and where its answers are shown."""

import numpy as np
import pytest
from napari.components import ViewerModel
from qtpy.QtCore import Qt

from napari_maskinversion._napari.layers.heatmap import HeatmapLayer
from napari_maskinversion._napari.layers.overlays import RegionBorder
from napari_maskinversion.app.layer_input.coordinates import Grid, ViewPoint, plane_of
from napari_maskinversion.app.layer_input.layer_facts import is_ours
from napari_maskinversion.images.windows import WindowConfig
from tests._napari.made import strongest_token

AFFINE = np.array([[1.2, 0.1, 5], [-0.2, 0.9, -3], [0, 0, 1]])
PLACE = {"scale": (0.5, 2), "translate": (3, -7), "rotate": 25, "shear": [0.3], "affine": AFFINE}


def plane_shown(viewer, image):
    view = ViewPoint.of(viewer)
    return plane_of(Grid.of(image, view), view)


def test_windows_are_automatic_unless_chosen_otherwise(widget):
    scope = widget.input.scope
    assert widget.run_controller.request().settings.window == WindowConfig(mode="auto", context=2.0)
    scope.windows.setCurrentIndex(1)
    assert widget.run_controller.request().settings.window.mode == "whole"
    assert not scope.form["window.context"].isEnabled()
    scope.windows.setCurrentIndex(2)
    scope.side.setValue(300)
    scope.form["window.context"].setValue(3)
    assert widget.run_controller.request().settings.window == WindowConfig(
        mode="fixed", side=300, context=3
    )


def test_another_window_moves_the_layer_and_makes_no_new_one():
    viewer = ViewerModel()
    image = viewer.add_image(np.random.rand(5, 200, 300), scale=(4, 2, 0.5))
    heat = HeatmapLayer(viewer)
    seen = []
    for z, box, grid in ((1, (0, 0, 40, 40), (4, 4)), (3, (100, 40, 120, 90), (5, 10))):
        viewer.dims.set_point(0, 4 * z)
        heat.show(np.random.rand(*grid), image, plane_shown(viewer, image), box)
        seen.append(heat.layer)
        for token in ((0, 0), (grid[0] - 1, grid[1] - 1)):
            sides = (box[2] - box[0]) / grid[0], (box[3] - box[1]) / grid[1]
            y, x = (box[k] - 0.5 + sides[k] * (token[k] + 0.5) for k in (0, 1))
            np.testing.assert_allclose(
                heat.layer.data_to_world((0, *token)),
                image.data_to_world((z, y, x)),
                rtol=0,
                atol=1e-9,
            )
    assert seen[0] is seen[1]
    assert len(viewer.layers) == 2


def test_the_layer_moves_above_another_image_with_its_place_and_the_users_choices():
    viewer = ViewerModel()
    first = viewer.add_image(np.random.rand(200, 300), name="first")
    second = viewer.add_image(np.random.rand(100, 60), name="second", units=("um", "um"), **PLACE)
    own = viewer.add_labels(np.zeros((100, 60), int), name="own")
    heat = HeatmapLayer(viewer)
    heat.show(np.random.rand(4, 5), first, plane_shown(viewer, first))
    layer = heat.layer
    layer.gamma, layer.visible = 0.5, False
    viewer.layers.selection.active = own
    heat.show(np.random.rand(4, 5), second, plane_shown(viewer, second), (40.0, 20.0, 80.0, 60.0))
    assert heat.layer is layer
    assert list(viewer.layers) == [first, second, layer, own]
    assert (layer.name, layer.units, layer.gamma) == ("heatmap: second", second.units, 0.5)
    assert not layer.visible
    assert viewer.layers.selection.active is own
    middle = 40 - 0.5 + 10 * 0.5, 20 - 0.5 + 8 * 0.5
    np.testing.assert_allclose(
        layer.data_to_world((0, 0)), second.data_to_world(middle), rtol=0, atol=1e-9
    )


def test_an_image_of_another_number_of_dimensions_gets_a_layer_of_its_own():
    viewer = ViewerModel()
    flat = viewer.add_image(np.random.rand(20, 30), name="flat")
    stack = viewer.add_image(np.random.rand(5, 20, 30), name="stack")
    heat = HeatmapLayer(viewer)
    heat.show(np.random.rand(4, 5), flat, plane_shown(viewer, flat))
    before = heat.layer
    heat.show(np.random.rand(4, 5), stack, plane_shown(viewer, stack))
    assert heat.layer is not before
    assert list(viewer.layers) == [flat, stack, heat.layer]


def test_a_heatmap_of_a_transposed_view_is_transposed_like_it():
    viewer = ViewerModel()
    image = viewer.add_image(np.random.rand(40, 60))
    viewer.dims.order = (1, 0)
    plane = plane_shown(viewer, image)
    assert plane.shape == (60, 40)
    heat, values = HeatmapLayer(viewer), np.zeros((6, 4))
    values[5, 0] = 1  # at the bottom left of what is seen: last column, first row of the array
    heat.show(values, image, plane)
    assert heat.layer.data.shape == (4, 6)
    assert heat.layer.data[0, 5] == 1
    np.testing.assert_allclose(
        heat.layer.data_to_world((0, 5)), image.data_to_world((4.5, 54.5)), rtol=0, atol=1e-9
    )


def test_the_outline_is_the_windows_edge(window, viewer):
    image = viewer.add_image(np.random.rand(3, 200, 300), scale=(1, 0.5, 2), translate=(0, 3, -7))
    viewer.dims.set_point(0, 2)
    outline = RegionBorder(viewer)
    for box in ((40.0, 60.0, 80.0, 160.0), (0.0, 0.0, 200.0, 300.0)):
        outline.show_box(image, plane_shown(viewer, image), box)
        ends = np.asarray(box).reshape(2, 2) - 0.5
        world = [image.data_to_world((2, *end))[1:] for end in ends]
        np.testing.assert_allclose(outline.corners, world, rtol=0, atol=1e-9)
    viewer.dims.set_point(0, 1)
    assert not outline.visible
    outline.remove()


@pytest.fixture
def large(viewer, dock):
    """The widget on an image of 1,500 pixels with three small regions far apart."""
    image = np.random.default_rng(0).integers(0, 255, (1500, 1500, 3), dtype=np.uint8)
    labels = np.zeros((1500, 1500), np.uint16)
    for value, (y, x) in {7: (100, 1200), 300: (1300, 80), 12: (700, 700)}.items():
        labels[y : y + 20, x : x + 20] = value
    viewer.add_image(image, name="photo")
    viewer.add_labels(labels, name="cells")
    made = dock()
    made.model.form.set_values({"inversion.steps": 1})
    return made


def test_small_regions_of_a_large_image_are_seen_in_windows(
    window, qtbot, large, run_to_end, messages
):
    viewer, scope = large._viewer, large.input.scope
    run_to_end(large, seconds=600)
    assert not messages
    results = large.results.results
    assert results.ids == [7, 12, 300]
    assert len(results.windows) == 3
    heat = large.canvas.heatmap.layer
    for row, region in enumerate(results.regions):
        large.results.table.selectRow(row)
        assert large.canvas.heatmap.layer is heat
        y0, x0, y1, x1 = region.window.box
        height, width = region.window.input_size
        sides = (y1 - y0) / height, (x1 - x0) / width
        np.testing.assert_allclose(heat.scale, sides, rtol=0, atol=1e-9)
        assert y1 - y0 < 150
        assert y0 <= region.bbox[0] < region.bbox[2] <= y1

    def corner_of(row):
        return np.array(results.regions[row].window.box[:2]) - 0.5

    outline = large.canvas.outline
    assert not outline.visible
    scope.outline.setChecked(True)
    np.testing.assert_allclose(
        outline.corners[0], np.array(results.regions[2].window.box[:2]) - 0.5, rtol=0, atol=1e-9
    )
    # Rows before the last one keep theirs, and the box unticked takes it away.
    qtbot.keyClick(large.results.table, Qt.Key.Key_Up)
    np.testing.assert_allclose(
        outline.corners[0], np.array(results.regions[1].window.box[:2]) - 0.5, rtol=0, atol=1e-9
    )
    scope.outline.setChecked(False)
    assert not outline.visible
    assert [layer.name for layer in viewer.layers if is_ours(layer)] == ["heatmap: photo"]


def test_the_line_over_the_button_says_what_a_run_would_be(qtbot, large):
    qtbot.waitUntil(lambda: "3 regions in 3 parts of the image" in large.foot.estimate)
    large.input.scope.windows.setCurrentIndex(1)
    qtbot.waitUntil(lambda: "parts" not in large.foot.estimate)
    large._viewer.layers["cells"].data[:] = 0
    large._viewer.layers["cells"].refresh()
    large._viewer.layers["cells"].paint((700, 700), 5)
    qtbot.waitUntil(lambda: large.foot.estimate.startswith("1 region"))


def test_the_line_says_why_a_run_would_be_refused(qtbot, widget):
    widget._viewer.layers["cells"].selected_label = 0
    widget.input.scope.use.setCurrentIndex(1)
    qtbot.waitUntil(lambda: "background" in widget.foot.estimate)


def test_heatmaps_are_shown_while_they_form_if_asked_for(qtbot, widget, slow):
    widget.input.scope.live.setChecked(True)
    slow.steps = 1000
    widget.start()
    heat = widget.canvas.heatmap

    def formed():
        slow.go.release()  # a step, of which ten a second at most are shown
        return heat.layer is not None and strongest_token(heat.layer.data) == (3, 4)

    qtbot.waitUntil(formed)
    assert widget.results.model.rowCount() == 0
    slow.steps, slow.free = 3, True
    slow.go.release(100)
    qtbot.waitUntil(lambda: not widget.runner.busy)
    # Back to the row selected, which is the first one.
    assert strongest_token(heat.layer.data) == (1, 1)
