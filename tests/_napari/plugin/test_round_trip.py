"""From a world point to a region, its window, its heatmap, and back to the world point."""

import numpy as np
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from napari.components import ViewerModel

from napari_maskinversion._napari.layers.coordinates import Grid, ViewPoint, plane_of
from napari_maskinversion._napari.layers.heatmap import HeatmapLayer
from napari_maskinversion._napari.layers.pictures import copy_picture
from napari_maskinversion._napari.layers.tasks import RunInput, copy_regions
from napari_maskinversion.images.windows import WindowConfig, plan_windows

NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
SHAPE = (600, 800)
numbers = st.floats(-0.4, 0.4)


@st.composite
def placements(draw):
    """Scale, translate, rotate, shear and an affine that is not the identity."""
    affine = np.eye(3)
    affine[:2, :2] += np.array([[draw(numbers), draw(numbers)], [draw(numbers), draw(numbers)]])
    affine[:2, 2] = draw(st.floats(-50, 50)), draw(st.floats(-50, 50))
    return {
        "scale": (draw(st.floats(0.3, 3)), draw(st.floats(0.3, 3))),
        "translate": (draw(st.floats(-90, 90)), draw(st.floats(-90, 90))),
        "rotate": draw(st.floats(-170, 170)),
        "shear": [draw(numbers)],
        "affine": affine,
    }


@settings(max_examples=20, deadline=None, phases=NO_SHRINKING)
@given(
    place=placements(),
    other=placements(),
    where=st.tuples(st.floats(0.1, 0.9), st.floats(0.1, 0.9)),
    size=st.floats(6, 60),
    order=st.sampled_from([(0, 1), (1, 0)]),
    mode=st.sampled_from(["auto", "whole"]),
)
def test_the_heatmap_lies_on_what_was_drawn_within_half_a_token(
    place, other, where, size, order, mode
):
    viewer = ViewerModel()
    image = viewer.add_image(np.zeros(SHAPE, np.uint8), **place)
    layer = viewer.add_shapes(None, ndim=2, **other)
    viewer.dims.order = order
    # Drawn around a point of the world, in the layer's own coordinates.
    middle = np.asarray(where) * SHAPE
    box = middle + np.array([(-1, -1), (-1, 1), (1, 1), (1, -1)]) * size / 2
    world = np.asarray(image.data_to_world(middle))
    layer.add_polygons(np.array([layer.world_to_data(image.data_to_world(c)) for c in box]))

    view = ViewPoint.of(viewer)
    run_input = RunInput(
        view=view, picture=copy_picture(image, view), regions=copy_regions(layer, view)
    )
    (task,) = run_input.tasks()
    plane = plane_of(Grid.of(image, view), view)
    centre = np.asarray(task.regions[0].centroid)
    np.testing.assert_allclose(plane.to_data(centre)[0], middle, atol=0.75)

    (window,) = plan_windows(
        task.regions, task.source.levels, resolution=96, patch=8, config=WindowConfig(mode=mode)
    )
    y0, x0, y1, x1 = window.box
    token = np.array([(y1 - y0) / 12, (x1 - x0) / 12])
    grid = np.zeros((12, 12))
    # The token that holds the region's centre, as a model that looks there would say.
    grid[tuple(((centre + 0.5 - (y0, x0)) / token).astype(int))] = 1
    heat = HeatmapLayer(viewer)
    heat.show(grid, image, plane, window.box)
    peak = np.unravel_index(heat.layer.data.argmax(), heat.layer.data.shape)
    off = image.world_to_data(heat.layer.data_to_world(peak)) - np.asarray(
        image.world_to_data(world)
    )
    off = off[list(plane.cut.axes)]
    assert (np.abs(off) <= token / 2 + 0.75).all()
