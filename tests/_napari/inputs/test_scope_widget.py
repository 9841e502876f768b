"""Which regions and planes are run on, and in which units."""

import dask.array as da
import numpy as np
import pytest
import zarr
from napari.components import ViewerModel
from qtpy.QtCore import Qt

from napari_maskinversion._napari.inputs.input_widget import InputWidget
from napari_maskinversion.app.requests.preparing import parse_ids, prepare, units_of
from napari_maskinversion.app.session import Session
from napari_maskinversion.base.errors import InputError
from tests.app.layer_input.test_coordinates import run_input

SQUARE = np.array([(4, 4), (4, 9), (9, 9), (9, 4)], dtype=float)


# -- selected only, merged --------------------------------------------------------------------


def test_numbers_are_typed_singly_or_as_ranges():
    assert parse_ids("3, 7-9 12;-4") == {3, 7, 8, 9, 12, -4}
    assert parse_ids("7 - 9") == {7, 8, 9}
    for wrong in ("cat", "3,", "9-7", "1.5", "1-999999999"):
        with pytest.raises(InputError, match="number"):
            parse_ids(wrong)


@pytest.fixture
def part(qtbot, scene):
    """The choice of image and regions, of a viewer without a window."""
    viewer = ViewerModel()
    viewer.add_image(scene[0], name="photo")
    viewer.add_labels(scene[1], name="cells")
    made = InputWidget(viewer, Session())
    qtbot.addWidget(made)
    made.follow()
    yield made
    made.stop()


def regions_to_run(part):
    """Return the regions that a run would take."""
    return [
        region for task in prepare(part._viewer, part._session).tasks() for region in task.regions
    ]


def ids_to_run(part):
    return [region.id for region in regions_to_run(part)]


def test_only_the_label_picked_or_numbers_that_are_typed_are_run_on(part):
    part._viewer.layers["cells"].selected_label = 17
    part.scope.use.setCurrentIndex(1)
    assert ids_to_run(part) == [17]
    part.scope.ids.setText("3, 7-9")
    assert ids_to_run(part) == [3, 7, 8, 9]


def test_only_shapes_that_are_selected_are_run_on(part):
    layer = part._viewer.add_shapes([SQUARE, SQUARE + 20, SQUARE + 40], name="drawn")
    part.scope.use.setCurrentIndex(1)
    with pytest.raises(InputError, match="No shape is selected"):
        ids_to_run(part)
    layer.selected_data = {0, 2}
    assert ids_to_run(part) == [0, 2]


@pytest.mark.parametrize(
    ("typed", "says"), [("999", "no label 999"), ("x", "by number"), ("", "background")]
)
def test_regions_that_are_not_there_are_refused_by_number(part, typed, says):
    part._viewer.layers["cells"].selected_label = 0
    part.scope.use.setCurrentIndex(1)
    part.scope.ids.setText(typed)
    with pytest.raises(InputError, match=says):
        ids_to_run(part)


def test_several_regions_become_one_query(part):
    part.scope.use.setCurrentIndex(1)
    part.scope.ids.setText("4, 2, 9")
    part.scope.merge.setChecked(True)
    (region,) = regions_to_run(part)
    assert (region.members, region.area) == ((2, 4, 9), 300)
    part.scope.ids.setText("4")
    with pytest.raises(InputError, match="two regions or more"):
        ids_to_run(part)
    # For all regions there is no merging: the box is off, whatever it says.
    part.scope.use.setCurrentIndex(0)
    assert len(ids_to_run(part)) == 50


def test_rows_of_the_table_are_picked_for_the_next_run(qtbot, opened, run_to_end):
    widget = opened()
    table, model = widget.results.table, widget.results.model
    for row, key in ((1, Qt.KeyboardModifier.NoModifier), (4, Qt.KeyboardModifier.ControlModifier)):
        place = table.visualRect(model.index(row, 1)).center()
        qtbot.mouseClick(table.viewport(), Qt.MouseButton.LeftButton, key, place)
    qtbot.mouseClick(widget.results.pick, Qt.MouseButton.LeftButton)
    run_to_end(widget)
    assert widget.results.results.ids == [2, 5]


# -- planes -------------------------------------------------------------------------------------


def stack():
    """Labels on (4, 30, 40): 1 on planes 0 and 1, larger on 1; 2 on plane 3 only."""
    labels = np.zeros((4, 30, 40), np.int32)
    labels[0, 2:6, 2:6] = 1
    labels[1, 2:9, 2:9] = 1
    labels[3, 20:25, 30:36] = 2
    return labels


def kinds(data):
    yield data
    yield da.from_array(data, chunks=(1, 16, 16))
    store = zarr.create_array(store={}, shape=data.shape, chunks=(1, 16, 16), dtype=data.dtype)
    store[:] = data
    yield store


def test_all_planes_each_region_where_it_is_largest_or_plane_by_plane():
    for labels in kinds(stack()):
        viewer = ViewerModel()
        image = viewer.add_image(np.random.rand(4, 30, 40), contrast_limits=(0, 1))
        layer = viewer.add_labels(labels)
        viewer.dims.axis_labels = ("z", "y", "x")
        tasks = run_input(viewer, image, layer, planes="largest").tasks()
        assert [(task.position, task.regions.ids) for task in tasks] == [
            ((("z", 1),), [1]),
            ((("z", 3),), [2]),
        ]
        tasks = run_input(viewer, image, layer, planes="each").tasks()
        assert [(task.position, task.regions.ids) for task in tasks] == [
            ((("z", 0),), [1]),
            ((("z", 1),), [1]),
            ((("z", 3),), [2]),
        ]
        for task in tasks:  # each with the pixels of its own plane
            z = dict(task.position)["z"]
            np.testing.assert_allclose(
                task.source.read(0, (0, 0, 30, 40)), image.data[z], rtol=1e-6
            )
        assert run_input(viewer, image, layer, planes="each", only=frozenset({2})).tasks()[
            0
        ].position == (("z", 3),)


def test_planes_are_found_through_the_world():
    """Labels of twice the image's distance between planes, shifted, and of coarser pixels."""
    viewer = ViewerModel()
    image = viewer.add_image(np.random.rand(9, 60, 80), scale=(1, 1, 1), contrast_limits=(0, 1))
    layer = viewer.add_labels(stack(), scale=(2, 2, 2), translate=(1, 0.5, 0.5))
    source = run_input(viewer, image, layer, planes="largest")
    one, two = source.tasks()
    assert source.finder.plane(one.position).cut.index[0] == 3  # 2 * 1 + 1
    assert source.finder.plane(two.position).cut.index[0] == 7
    np.testing.assert_allclose(one.source.read(0, (0, 0, 60, 80)), image.data[3], rtol=1e-6)
    assert one.regions[0].bbox == (4, 4, 18, 18)
    far = viewer.add_labels(stack(), translate=(7, 0, 0))
    with pytest.raises(InputError, match="outside the image"):
        run_input(viewer, image, far, planes="each").tasks()


def test_shapes_are_taken_of_the_plane_shown_only(part):
    viewer = part._viewer
    viewer.add_image(np.random.rand(4, 30, 40), name="stack")
    viewer.add_labels(stack(), name="cells 3d")
    assert part.scope.planes.isEnabled()
    viewer.add_shapes([np.insert(SQUARE, 0, z, axis=1) for z in (1, 3)], name="drawn")
    assert not part.scope.planes.isEnabled()
    viewer.dims.set_point(0, 3)
    assert ids_to_run(part) == [1]


def test_a_row_of_another_plane_turns_to_it(opened, run_to_end, messages):
    widget = opened()
    viewer = widget._viewer
    viewer.layers.clear()
    image = viewer.add_image(np.random.rand(4, 30, 40), scale=(5, 1, 1), name="stack")
    viewer.add_labels(stack(), scale=(5, 1, 1))
    viewer.dims.axis_labels = ("z", "y", "x")
    widget.input.scope.planes.setCurrentIndex(1)
    run_to_end(widget)
    assert not messages
    assert widget.results.results.to_frame()["z"].tolist() == [1, 3]
    heat = widget.canvas.heatmap.layer
    for row, z in ((1, 3), (0, 1)):
        widget.results.table.selectRow(row)
        assert viewer.dims.point[0] == 5 * z
        height, width = heat.data.shape[1:]
        first = (30 / height - 1) / 2, (40 / width - 1) / 2  # the centre of its first pixel
        np.testing.assert_allclose(
            heat.data_to_world((0, 0, 0)), image.data_to_world((z, *first)), rtol=0, atol=1e-9
        )
        assert f"z {z}" in widget.results.sizes.text()


def test_results_belong_to_their_plane_and_come_back_with_it(opened, run_to_end, qtbot):
    widget = opened()
    viewer, session, foot = widget._viewer, widget.session, widget.foot
    viewer.layers.clear()
    viewer.add_image(np.random.rand(4, 30, 40), name="stack")
    labels = stack()
    labels[3, 2:6, 2:6] = 3
    viewer.add_labels(labels)

    def turn(plane, title):
        viewer.dims.set_point(0, plane)
        qtbot.waitUntil(lambda: foot.button.text() == title)

    turn(1, "Suggest words for 1 region")
    run_to_end(widget)
    first = session.run.results
    assert widget.results.plane.text() == "Regions on plane 1"
    turn(3, "Suggest words for 2 regions")
    assert session.run.results is first
    assert widget.results.plane.text() == "Regions on plane 1; plane 3 is shown"
    assert "The suggestions are for plane 1." in foot.status.text()
    run_to_end(widget)
    assert len(session.run.results) == 2
    turn(2, "Draw regions")
    turn(1, "Review 1 suggestion")
    assert session.run.results is first
    widget.input.scope.planes.setCurrentIndex(1)
    qtbot.waitUntil(lambda: widget.input.line.text() == "3 regions on all planes")
    widget.input.scope.planes.setCurrentIndex(2)
    qtbot.waitUntil(lambda: widget.input.line.text() == "4 regions on all planes")


# -- units --------------------------------------------------------------------------------------


def test_sizes_come_in_the_layers_unit(opened, run_to_end, tmp_path, export):
    widget = opened()
    for layer in widget._viewer.layers:
        layer.scale, layer.units = (0.5, 0.25), ("um", "um")
    run_to_end(widget)
    frame = widget.results.results.to_frame()
    assert frame["area_px"][0] == 100
    assert frame["area"][0] == pytest.approx(12.5)
    assert (frame["height"][0], frame["width"][0]) == (5, 2.5)
    assert set(frame["unit"]) == {"\N{MICRO SIGN}m"}
    assert "12.5 \N{MICRO SIGN}m\N{SUPERSCRIPT TWO}" in widget.results.sizes.text()
    export(widget, tmp_path, "csv")
    assert "area,diameter" in (tmp_path / "regions.csv").read_text("utf-8")


def test_the_pixel_size_is_that_in_the_world():
    viewer = ViewerModel()
    plain = viewer.add_image(np.zeros((4, 4)))
    assert units_of(plain, (0, 1)) is None
    turned = viewer.add_image(np.zeros((4, 4)), scale=(2, 3), rotate=30, units=("nm", "nm"))
    assert units_of(turned, (0, 1)).pixel == pytest.approx((2, 3))
    doubled = viewer.add_image(np.zeros((4, 4)), affine=np.diag([2, 2, 1]), units=("nm", "nm"))
    assert units_of(doubled, (0, 1)).pixel == pytest.approx((2, 2))
    sheared = viewer.add_image(np.zeros((4, 4)), scale=(2, 3), shear=[0.5], units=("nm", "nm"))
    assert np.prod(units_of(sheared, (0, 1)).pixel) == pytest.approx(6)
    deep = viewer.add_image(np.zeros((4, 4, 4)), scale=(9, 2, 3), units=("s", "nm", "nm"))
    assert units_of(deep, (1, 2)).pixel == pytest.approx((2, 3))
    assert units_of(deep, (0, 2)) is None  # seconds by nanometres


def test_layers_of_different_units_meet_in_the_world():
    viewer = ViewerModel()
    image = viewer.add_image(np.random.rand(5, 30, 30), scale=(1, 1, 1), units=("um",) * 3)
    labels = np.zeros((5, 30, 30), int)
    labels[3, 4:9, 10:20] = 6
    layer = viewer.add_labels(labels, scale=(1000,) * 3, units=("nm",) * 3)
    viewer.dims.set_point(0, 3000)  # the world is in the smaller unit
    (task,) = run_input(viewer, image, layer).tasks()
    assert task.position[0][1] == 3
    assert task.regions.ids == [6]
    assert task.regions[0].bbox == (4, 10, 9, 20)
