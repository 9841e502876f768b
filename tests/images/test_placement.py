"""A real inversion in a window of a large plane: the heatmap lies on the region."""

import numpy as np

from napari_maskinversion import InversionConfig
from napari_maskinversion.base.regions import Region, Regions
from napari_maskinversion.images.windows import WindowConfig
from tests.scenes import demo_model, picture, run


def test_the_heatmap_of_a_small_region_lies_on_it():
    plane = np.full((2000, 2000, 3), 120, np.uint8)
    # Far from the middle and off every grid: an error of scale or origin cannot hide.
    y, x, side = 1403, 377, 60
    plane[y - 60 : y + 120, x - 60 : x + 120] = picture(180, 180)
    plane[y : y + side, x : x + side] = (220, 30, 30)
    region = Region(1, (y, x, y + side, x + side), np.ones((side, side), bool))
    results = run(
        demo_model(),
        plane,
        Regions((2000, 2000), [region]),
        None,
        InversionConfig(steps=20),
        window=WindowConfig(),
    )
    placed = results.window_heatmap(0)
    y0, x0, y1, x1 = placed.box
    assert y0 <= y
    assert x0 <= x
    assert y1 >= y + side
    assert x1 >= x + side
    assert y1 - y0 < 500
    grid = results.regions[0].window.grid
    token = (y1 - y0) / grid[0], (x1 - x0) / grid[1]
    heat = results.heatmap(0)
    assert heat.shape == (2000, 2000)
    strong = np.where(heat > 0.5, heat, 0).astype(np.float64)
    centre = [
        float(strong.sum(1 - axis) @ np.arange(2000) / strong.sum()) for axis in (0, 1)
    ]  # fmt: skip
    assert abs(centre[0] - (y + (side - 1) / 2)) <= token[0]
    assert abs(centre[1] - (x + (side - 1) / 2)) <= token[1]
    # And the same by the formula that layers use.
    values = np.where(placed.values > 0.5, placed.values, 0)
    rows = y0 + (np.arange(len(values)) + 0.5) * (y1 - y0) / len(values) - 0.5
    assert abs(float(values.sum(1) @ rows / values.sum()) - centre[0]) < token[0] / 4
