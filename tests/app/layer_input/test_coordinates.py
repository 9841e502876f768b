"""Layers may lie anywhere in the world; regions and heatmaps have to follow them."""

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from napari.components import ViewerModel

from napari_maskinversion._napari.layers.heatmap import HeatmapLayer
from napari_maskinversion._napari.layers.results_on_canvas import bring_into_view
from napari_maskinversion.app.layer_input import layer_facts as layers
from napari_maskinversion.app.layer_input.coordinates import Grid, ViewPoint, plane_of
from napari_maskinversion.app.layer_input.input_pictures import copy_picture
from napari_maskinversion.app.layer_input.label_layers import label_type
from napari_maskinversion.app.layer_input.layer_facts import count_regions
from napari_maskinversion.app.layer_input.run_input import RunInput, copy_regions
from napari_maskinversion.base.errors import EmptyMaskError, InputError

SHAPE = (40, 60)
# A failing placement says enough; looking for a simpler one takes minutes.
NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
placements = st.fixed_dictionaries(
    {
        "scale": st.tuples(st.floats(0.5, 3), st.floats(0.5, 3)),
        "translate": st.tuples(st.floats(-20, 20), st.floats(-20, 20)),
        "rotate": st.floats(-60, 60),
        "shear": st.tuples(st.floats(-0.5, 0.5)),
    }
)
affines = st.sampled_from(
    [np.eye(3), np.array([[1.2, 0.1, 5], [-0.2, 0.9, -3], [0, 0, 1]], dtype=float)]
)


def run_input(viewer, image, layer, **options):
    view = ViewPoint.of(viewer)
    shown_only = options.get("planes", "shown") == "shown"
    return RunInput(
        view=view,
        picture=copy_picture(image, view, shown_only=shown_only),
        regions=copy_regions(layer, view, shown_only=shown_only),
        **options,
    )


def regions_of(viewer, image, layer):
    (task,) = run_input(viewer, image, layer).tasks()
    return task.regions


def plane_shown(viewer, image):
    view = ViewPoint.of(viewer)
    return plane_of(Grid.of(image, view), view)


def pixels_of(viewer, image):
    view = ViewPoint.of(viewer)
    source = copy_picture(image, view).source(plane_shown(viewer, image), view)
    return source.read(0, (0, 0, *source.shape))


def labels_data():
    labels = np.zeros(SHAPE, dtype=np.int32)
    labels[5:20, 8:30] = 3
    labels[25:38, 35:55] = 9
    return labels


@settings(max_examples=15, deadline=None, phases=NO_SHRINKING)
@given(place=placements, other=placements, affine=affines)
def test_labels_of_another_placement_are_found_through_the_world(place, other, affine):
    viewer = ViewerModel()
    image = viewer.add_image(np.random.rand(*SHAPE), affine=affine, **place)
    layer = viewer.add_labels(labels_data(), **other)
    expected = np.zeros(SHAPE, dtype=int)
    for pixel in np.ndindex(SHAPE):  # slow and obvious
        y, x = np.asarray(layer.world_to_data(image.data_to_world(pixel)))
        i, j = int(np.floor(y + 0.5 + 1e-6)), int(np.floor(x + 0.5 + 1e-6))
        if 0 <= i < SHAPE[0] and 0 <= j < SHAPE[1]:
            expected[pixel] = layer.data[i, j]
    regions = regions_of(viewer, image, layer)
    assert set(regions.ids) >= {v for v in (3, 9) if v in expected}
    for k, value in enumerate(regions.ids):
        if value in expected:
            assert np.array_equal(regions.full_mask(k), expected == value)


def test_no_label_is_lost_on_an_image_of_coarser_pixels():
    viewer = ViewerModel()
    image = viewer.add_image(np.random.rand(25, 25), scale=(8, 8), translate=(3.5, 3.5))
    labels = np.zeros((200, 200), dtype=np.int32)
    for number in range(400):
        y, x = divmod(number, 20)
        labels[10 * y : 10 * y + 2, 10 * x : 10 * x + 2] = number + 1
    regions = regions_of(viewer, image, viewer.add_labels(labels))
    assert regions.ids == list(range(1, 401))
    for region in regions:
        y, x = divmod(region.id - 1, 20)
        # On the very image pixel that shows the label's place.
        assert region.bbox[0] <= 10 * y / 8 <= region.bbox[2]
        assert region.bbox[1] <= 10 * x / 8 <= region.bbox[3]


def test_labels_on_the_same_pixels_are_taken_as_they_are():
    viewer = ViewerModel()
    place = {"scale": (0.3, 0.7), "translate": (11, -4), "rotate": 33}
    image = viewer.add_image(np.random.rand(*SHAPE), **place)
    layer = viewer.add_labels(labels_data(), **place)
    regions = regions_of(viewer, image, layer)
    assert np.array_equal(regions.full_mask(1), labels_data() == 9)


@settings(max_examples=25, deadline=None, phases=NO_SHRINKING)
@given(place=placements, affine=affines)
def test_the_heatmap_lies_exactly_on_the_image(place, affine):
    viewer = ViewerModel()
    image = viewer.add_image(np.random.rand(*SHAPE), affine=affine, **place)
    heat = HeatmapLayer(viewer)
    heat.show(np.random.rand(4, 10).astype(np.float32), image, plane_shown(viewer, image))
    # One token is 10 x 6 pixels; token (i, j) is centred on pixel (10 i + 4.5, 6 j + 2.5).
    for i, j in ((0, 0), (3, 9), (2, 5)):
        np.testing.assert_allclose(
            heat.layer.data_to_world((i, j)),
            image.data_to_world((10 * i + 4.5, 6 * j + 2.5)),
            atol=1e-6,
        )
    assert tuple(heat.layer.contrast_limits) == (0, 1)


def test_the_heatmap_of_a_plane_of_a_stack_lies_on_that_plane():
    viewer = ViewerModel()
    image = viewer.add_image(np.random.rand(7, *SHAPE), scale=(4, 2, 0.5), translate=(3, 1, 2))
    viewer.dims.set_point(0, float(image.data_to_world((5, 0, 0))[0]))
    heat = HeatmapLayer(viewer)
    heat.show(np.random.rand(4, 10), image, plane_shown(viewer, image))
    np.testing.assert_allclose(
        heat.layer.data_to_world((0, 1, 2)), image.data_to_world((5, 14.5, 14.5)), rtol=0, atol=1e-9
    )


@settings(max_examples=15, deadline=None, phases=NO_SHRINKING)
@given(place=placements, other=placements)
def test_shapes_of_another_placement_are_found_through_the_world(place, other):
    viewer = ViewerModel()
    image = viewer.add_image(np.random.rand(*SHAPE), **place)
    layer = viewer.add_shapes(None, ndim=2, **other)
    corners = np.array([(10, 12), (10, 40), (30, 40), (30, 12)], dtype=float)
    drawn = [layer.world_to_data(image.data_to_world(corner)) for corner in corners]
    layer.add_polygons(np.array(drawn))
    mask = regions_of(viewer, image, layer).full_mask(0)
    assert mask[11:30, 13:40].all()  # borders may go either way by rounding
    mask[10:31, 12:41] = False
    assert not mask.any()


def test_each_kind_of_shape_covers_its_pixels_and_overlaps_are_kept():
    viewer = ViewerModel()
    image = viewer.add_image(np.random.rand(100, 100))
    layer = viewer.add_shapes(None, ndim=2)
    box = np.array([(20, 20), (20, 59), (69, 59), (69, 20)], dtype=float)
    layer.add_rectangles(box)
    layer.add_ellipses(box)
    layer.add_polygons(np.array([(20, 20), (20, 60), (60, 20)], dtype=float))
    layer.add_lines(np.array([(50, 10), (50, 90)], dtype=float), edge_width=5)
    layer.add_paths(np.array([(10, 10), (10, 50), (30, 50)], dtype=float), edge_width=3)
    rectangle, ellipse, triangle, line, path = (
        regions_of(viewer, image, layer).full_mask(k) for k in range(5)
    )
    assert rectangle.sum() == 50 * 40
    assert ellipse.sum() == pytest.approx(np.pi / 4 * 49 * 39, rel=0.02)
    assert ellipse[45, 40]
    assert not ellipse[22, 22]
    assert triangle.sum() == 41 * 42 / 2
    assert np.flatnonzero(line[:, 50]).tolist() == [48, 49, 50, 51, 52]
    assert path[9:12, 30].all()
    assert path[20, 49:52].all()
    assert not path[20, 30]
    assert (rectangle & ellipse & triangle).any()


def test_shapes_are_clipped_to_the_image_and_refused_by_row_outside_it():
    viewer = ViewerModel()
    image = viewer.add_image(np.random.rand(50, 50))
    layer = viewer.add_shapes([[(-20, -20), (-20, 10), (10, 10), (10, -20)]])
    assert regions_of(viewer, image, layer)[0].bbox == (0, 0, 11, 11)
    layer.add_rectangles(np.array([(60, 60), (60, 70), (70, 70), (70, 60)], dtype=float))
    with pytest.raises(EmptyMaskError, match="shape 1"):
        regions_of(viewer, image, layer)


def test_a_shape_thinner_than_a_pixel_still_leaves_a_trace():
    viewer = ViewerModel()
    image = viewer.add_image(np.random.rand(50, 50))
    layer = viewer.add_shapes([[(10.2, 10), (10.2, 20), (10.4, 20), (10.4, 10)]])
    layer.add_lines(np.array([(20.5, 5), (20.5, 30)], dtype=float), edge_width=0.01)
    assert all(region.area >= 1 for region in regions_of(viewer, image, layer))


def test_only_shapes_of_the_plane_shown_are_regions():
    viewer = ViewerModel()
    image = viewer.add_image(np.random.rand(5, 30, 30))
    square = np.array([(4, 4), (4, 9), (9, 9), (9, 4)])
    layer = viewer.add_shapes([np.insert(square, 0, z, axis=1) for z in (1, 3, 3)])
    viewer.dims.set_point(0, 3)
    assert regions_of(viewer, image, layer).ids == [1, 2]
    assert count_regions(layer, ViewPoint.of(viewer)) == 2
    viewer.dims.set_point(0, 0)
    assert count_regions(layer, ViewPoint.of(viewer)) == 0


def test_regions_of_a_large_plane_are_not_counted_and_none_are_seen_up_to_a_size(monkeypatch):
    monkeypatch.setattr(layers, "_COUNTED_PIXELS", 100)
    monkeypatch.setattr(layers, "_LOOKED_AT", 10_000)
    viewer = ViewerModel()
    drawn = np.zeros((40, 40), np.int32)
    drawn[7, 9] = 1
    arrays = [np.zeros((40, 40), np.int32), drawn, np.zeros((60, 60), np.int32)]
    counts = [count_regions(viewer.add_labels(one), ViewPoint.of(viewer)) for one in arrays]
    assert counts == [0, None, None]


def test_the_plane_is_rounded_half_to_even_and_follows_rolled_dimensions():
    viewer = ViewerModel()
    data = np.arange(6 * 7 * 8, dtype=np.float32).reshape(6, 7, 8)
    image = viewer.add_image(data, contrast_limits=(0, data.max()))
    viewer.dims.point = (2.5, 0, 0)
    np.testing.assert_allclose(pixels_of(viewer, image), data[2] / data.max(), rtol=1e-6)
    viewer.dims.order = (1, 0, 2)
    viewer.dims.point = (0, 4, 0)
    np.testing.assert_allclose(pixels_of(viewer, image), data[:, 4] / data.max(), rtol=1e-6)
    assert plane_shown(viewer, image).position == (("axis 1", 4),)
    # Rolled, as the canvas shows it: the last axis runs down, the first one across.
    viewer.dims.order = (1, 2, 0)
    np.testing.assert_allclose(pixels_of(viewer, image), data[:, 4].T / data.max(), rtol=1e-6)


def test_a_label_plane_serves_every_plane_of_a_stack_and_a_missing_plane_is_refused():
    viewer = ViewerModel()
    image = viewer.add_image(np.random.rand(5, *SHAPE))
    flat = viewer.add_labels(labels_data())
    short = viewer.add_labels(np.stack([labels_data()] * 2))
    viewer.dims.set_point(0, 4)
    assert regions_of(viewer, image, flat).ids == [3, 9]
    with pytest.raises(InputError, match="outside the layer"):
        regions_of(viewer, image, short)


def test_pixels_are_as_shown_contrast_limits_for_grey_and_stretched_colour():
    viewer = ViewerModel()
    grey = viewer.add_image(np.array([[0, 50], [100, 200]], np.uint16), contrast_limits=(50, 150))
    np.testing.assert_allclose(pixels_of(viewer, grey), [[0, 0], [0.5, 1]], atol=1e-6)
    wide = np.linspace(-100, 1761, 9 * 8 * 3, dtype=np.float32).reshape(9, 8, 3)
    colour = viewer.add_image(wide, rgb=True)
    expected = (wide + 100) / 1861
    np.testing.assert_allclose(pixels_of(viewer, colour), expected, atol=0.005)
    planes = viewer.add_image(np.zeros((4, 3, 3)), rgb=False)  # three planes, not a colour
    assert pixels_of(viewer, planes).shape == (3, 3)


def test_a_pyramid_keeps_its_levels_and_regions_lie_in_its_finest_pixels():
    viewer = ViewerModel()
    full = np.random.rand(64, 64).astype(np.float32)
    image = viewer.add_image([full, full[::2, ::2]], multiscale=True, contrast_limits=(0, 1))
    labels = np.zeros((64, 64), int)
    labels[40:50, 3:9] = 5
    (task,) = run_input(viewer, image, viewer.add_labels(labels)).tasks()
    assert [level.shape for level in task.source.levels] == [(64, 64), (32, 32)]
    np.testing.assert_allclose(task.source.read(0, (0, 0, 64, 64)), full, atol=1e-6)
    np.testing.assert_allclose(task.source.read(1, (0, 0, 32, 32)), full[::2, ::2], atol=1e-6)
    assert task.regions[0].bbox == (40, 3, 50, 9)


def test_the_copy_does_not_change_with_the_layer():
    viewer = ViewerModel()
    image = viewer.add_image(np.random.rand(*SHAPE), contrast_limits=(0, 1))
    layer = viewer.add_labels(labels_data())
    source, before = run_input(viewer, image, layer), image.data.copy()
    image.data[:] = 0
    layer.data[:] = 1
    (task,) = source.tasks()
    np.testing.assert_allclose(task.source.read(0, (0, 0, *SHAPE)), before, rtol=1e-6)
    assert task.regions.ids == [3, 9]


def test_regions_of_a_pyramid_of_labels_are_those_of_its_finest_level():
    viewer = ViewerModel()
    image = viewer.add_image(np.random.rand(64, 64))
    labels = np.zeros((64, 64), np.int32)
    labels[41:50, 3:8] = 5
    layer = viewer.add_labels([labels, labels[::2, ::2]], multiscale=True)
    regions = regions_of(viewer, image, layer)
    assert regions[0].bbox == (41, 3, 50, 8)


def test_labels_of_a_large_image_have_16_bits_where_the_ids_of_a_file_leave_room():
    kinds = [label_type((5000, 5000), highest) for highest in (0, 60_000, 65_535)]
    assert kinds == [np.uint16, np.uint16, np.int32]
    assert label_type((100, 100)) == np.int32


def test_a_region_of_a_flat_image_is_not_brought_into_a_rolled_view(viewer):
    flat = viewer.add_image(np.zeros((20, 30), np.uint8))
    view = ViewPoint.of(viewer)
    plane = plane_of(Grid.of(flat, view), view)
    viewer.add_image(np.zeros((4, 20, 30), np.uint8))
    viewer.dims.roll()
    camera = viewer.scene.camera.center
    bring_into_view(viewer, flat, plane, (2, 2, 9, 9))
    assert viewer.scene.camera.center == camera
