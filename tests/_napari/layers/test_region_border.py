"""The border of a region: where it runs, what it looks like, and that it is no layer."""

import numpy as np
import pytest

from napari_maskinversion._napari.layers.overlays import (
    RegionBorder,
    bands,
    border_of,
)
from napari_maskinversion.app.layer_input.coordinates import Grid, ViewPoint, plane_of
from napari_maskinversion.base.regions import Region


def area_of(pieces):
    """What closed straight pieces enclose, by the horizontal ones (signs lost: for convex ones)."""
    across = pieces[pieces[:, 0, 0] == pieces[:, 1, 0]]
    low, high = across[:, 0, 0].min(), across[:, 0, 0].max()
    return (high - low) * (across[:, 1, 1] - across[:, 0, 1]).max()


def test_the_border_runs_along_the_outer_edges_of_the_pixels_and_around_holes():
    mask = np.ones((4, 5), bool)
    pieces = border_of(Region(1, (10, 20, 14, 25), mask))
    assert len(pieces) == 4
    assert pieces.reshape(-1, 2).min(axis=0).tolist() == [9.5, 19.5]
    assert pieces.reshape(-1, 2).max(axis=0).tolist() == [13.5, 24.5]
    assert area_of(pieces) == 20
    mask[1:3, 1:3] = False
    assert len(border_of(Region(1, (10, 20, 14, 25), mask))) == 8


def test_a_ragged_border_is_traced_more_coarsely_and_a_large_region_keeps_its_box():
    rng = np.random.default_rng(0)
    noise = border_of(Region(1, (0, 0, 1000, 1000), rng.random((1000, 1000)) > 0.5))
    assert len(noise) <= 20_000
    large = border_of(Region(1, (0, 0, 3000, 2500), np.ones((3000, 2500), bool)))
    assert large.reshape(-1, 2).max(axis=0).tolist() == [2999.5, 2499.5]


def test_bands_have_the_width_asked_for():
    corners = bands(np.array([[[0.0, 0.0], [10.0, 0.0]]]), 2.0)[0]
    assert corners.min(axis=0).tolist() == [-1, -1]
    assert corners.max(axis=0).tolist() == [11, 1]


@pytest.fixture
def border(window):
    viewer = window
    image = viewer.add_image(np.zeros((3, 40, 60)), scale=(1, 2, 2), translate=(0, 5, 7))
    viewer.dims.set_point(0, 1)
    view = ViewPoint.of(viewer)
    plane = plane_of(Grid.of(image, view), view)
    made = RegionBorder(viewer)
    made.show(image, plane, Region(1, (10, 20, 14, 25), np.ones((4, 5), bool)))
    yield viewer, image, made
    made.remove()
    viewer.layers.clear()


def test_the_border_lies_on_the_region_in_two_tones_of_one_width_on_the_screen(border):
    viewer, _, made = border
    np.testing.assert_allclose(
        made.corners, [[2 * 9.5 + 5, 2 * 19.5 + 7], [32, 2 * 24.5 + 7]], rtol=0, atol=1e-9
    )
    data = made._node.mesh_data
    assert {tuple(tone) for tone in data.get_face_colors()} == {(0, 0, 0, 1), (1, 1, 1, 1)}
    widths = []
    for zoom in (1.0, 8.0):
        viewer.scene.camera.zoom = zoom
        x = made._node.mesh_data.get_vertices()[:, 0]
        widths.append((x.max() - made.corners[1, 1]) * zoom)
    assert widths == pytest.approx([3, 3], rel=1e-3)  # half the dark band


def test_the_border_is_no_layer_and_above_what_is_added_later(border):
    viewer, image, made = border
    assert list(viewer.layers) == [image]
    viewer.add_image(np.ones((40, 60)))
    visual = viewer.window._qt_viewer.canvas.layer_to_visual[viewer.layers[-1]]
    assert made._node.order > visual.node.order


def test_the_border_hides_where_its_plane_or_its_image_is_not_shown(border):
    viewer, image, made = border
    assert made.visible
    viewer.dims.set_point(0, 2)
    assert not made.visible
    viewer.dims.set_point(0, 1)
    assert made.visible
    viewer.dims.ndisplay = 3
    assert not made.visible
    viewer.dims.ndisplay = 2
    assert made.visible
    above = viewer.add_image(np.zeros((3, 40, 60)), scale=(1, 2, 2), translate=(0, 5, 7))
    assert not made.visible  # it would lie on another image
    for name, seen, hides in (("visible", False, True), ("opacity", 0.5, 1)):
        setattr(above, name, seen)
        assert made.visible
        setattr(above, name, hides)
        assert not made.visible
    above.blending = "additive"
    assert made.visible
    above.blending = "translucent"
    assert not made.visible
    viewer.layers.move(1, 0)
    assert made.visible
    viewer.layers.remove(above)
    assert made.visible
    viewer.layers.remove(image)
    assert not made.visible
