"""One heatmap, four ways to its pixels: on the canvas, within a region, in files and in the loss.

What is saved is what is shown, and what the inversion has made fit the mask.
"""

from dataclasses import replace

import numpy as np
import pytest
import tifffile
import torch

from napari_maskinversion._napari.layers.heatmap import HeatmapLayer, map_in_region
from napari_maskinversion._napari.layers.results_on_canvas import ResultsOnCanvas
from napari_maskinversion.app.layer_input.coordinates import Grid, ViewPoint, plane_of
from napari_maskinversion.base.regions import Region
from napari_maskinversion.engine.invert.dice import MaskTargets
from napari_maskinversion.results.export.bundle import Bundle
from napari_maskinversion.results.export.heatmaps import write_heatmaps
from napari_maskinversion.results.results import Results
from tests._napari.made import made_info, made_region

PLANE, ZOOM = (140, 150), 2
INPUT, TOKENS = (64, 80), (4, 5)
REGION = (6, 14, 134, 142)  # 128 x 128 pixels
# What the model saw as one image
BOXES = {
    "a window": (4.0, 10.0, 136.0, 146.0),
    "the whole image": (0.0, 0.0, 140.0, 150.0),
    "the whole image, read in blocks of 9 pixels": (0.0, 0.0, 144.0, 153.0),
}


class Planes:
    """The one plane of an image, as results find it."""

    all_planes = False

    def __init__(self, image, viewer):
        self._view = ViewPoint.of(viewer)
        self.image = Grid.of(image, self._view)

    def plane(self, position):
        return plane_of(self.image, self._view)


@pytest.fixture(scope="module")
def region():
    y, x = np.mgrid[:128, :128]
    disc = (y - 60) ** 2 + (x - 70) ** 2 < 50**2
    disc[0, :] = disc[:, 0] = disc[-1, :] = disc[:, -1] = True  # so that the box is all of it
    return Region(1, REGION, disc)


@pytest.fixture(scope="module", params=BOXES)
def results(request):
    """A region whose map has a sharp peak, a second one, and slopes."""
    grid_map = np.random.default_rng(3).random(TOKENS, np.float32)
    grid_map[1, 3], grid_map[3, 0] = 4, 2.5
    region = made_region(1, shape=PLANE, bbox=REGION, grid_map=grid_map)
    whole = request.param != "a window"
    seen = replace(region.window, box=BOXES[request.param], whole=whole)
    info = made_info(shape=PLANE, input_size=INPUT, grid=TOKENS)
    return Results(info, (replace(region, window=seen),))


@pytest.fixture(scope="module")
def saved(results, tmp_path_factory):
    """The pixels (H, W) of the plane as they are exported."""
    file = tmp_path_factory.mktemp("saved") / "heatmaps.tif"
    write_heatmaps(Bundle(results=results), file)
    return tifffile.imread(file).reshape(PLANE)


def test_a_file_holds_the_heatmap_on_the_plane_at_its_peak_1_and_0_outside_the_window(
    results, saved
):
    np.testing.assert_array_equal(saved, results.heatmap(0))
    y0, x0, y1, x1 = map(int, results.regions[0].window.box)
    assert saved[y0:y1, x0:x1].max() > 0.98
    assert not saved[:y0].any()
    assert not saved[:, x1:].any()


def test_the_canvas_shows_the_pixels_that_are_saved(window, viewer, results, saved):
    image = viewer.add_image(np.zeros(PLANE), contrast_limits=(0, 1))
    view = ViewPoint.of(viewer)
    shown, layer = results.regions[0], HeatmapLayer(viewer)
    layer.show(shown.heatmap(), image, plane_of(Grid.of(image, view), view), shown.window.box)
    layer.layer.colormap, layer.layer.opacity, layer.layer.blending = "gray", 1, "opaque"
    window.show()
    camera = viewer.scene.camera
    camera.zoom, camera.center = ZOOM, (0, *((np.asarray(PLANE) - 1) / 2))
    shot = viewer.screenshot(canvas_only=True, flash=False, size=(501, 601))[..., 0] / 255
    # With odd sides and an even zoom, centres of the image's pixels are centres on the screen.
    rows, columns = (
        np.round((np.arange(side) - (side - 1) / 2) * ZOOM + (pixels - 1) / 2).astype(int)
        for side, pixels in zip(PLANE, shot.shape, strict=True)
    )
    difference = np.abs(shot[np.ix_(rows, columns)] - saved)
    assert difference.max() < 1.5 / 255  # the canvas rounds to eight bits


def test_within_a_region_the_pixels_are_those_that_are_saved(results, saved, region):
    shown = results.regions[0]
    cut_off = map_in_region(shown.heatmap(), shown.window.box, region)
    y0, x0, y1, x1 = REGION
    np.testing.assert_allclose(cut_off, saved[y0:y1, x0:x1] * region.mask, atol=1e-6)


def test_the_loss_and_the_overlap_are_those_of_the_pixels_that_are_saved(results, region):
    shown = results.regions[0]
    seen = results.window_heatmap(0).values.astype(float)
    mask = np.zeros(INPUT, bool)
    mask[10:40, 20:70] = True
    on_input = Region(1, (10, 20, 40, 70), mask[10:40, 20:70])
    targets = MaskTargets([on_input], INPUT, INPUT, TOKENS, torch.zeros(1, dtype=torch.float64))
    maps = torch.from_numpy(shown.grid_map.reshape(1, -1)).double()
    loss, _ = targets.dice(maps, slice(None))
    dice = (2 * (seen * mask).sum() + 1) / (seen.sum() + mask.sum() + 1)
    assert float(loss[0]) == pytest.approx(1 - dice, abs=1e-6)
    hot = seen > 0.5
    iou = (hot & mask).sum() / (hot | mask).sum()
    assert float(targets.overlaps(maps)[0]) == pytest.approx(iou, rel=1e-6)


def test_the_layer_of_a_selected_region_holds_the_window_that_is_saved(viewer, results):
    image = viewer.add_image(np.zeros(PLANE))
    canvas = ResultsOnCanvas(viewer)
    canvas.belong_to(image, Planes(image, viewer))
    canvas.show(results.regions[0], outlined=False)
    np.testing.assert_array_equal(canvas.heatmap.layer.data, results.window_heatmap(0).values)


def test_an_input_that_no_screen_has_room_for_is_shown_with_fewer_pixels(viewer, results):
    (shown,) = results.regions
    claimed = replace(shown, window=replace(shown.window, input_size=(100_000, 50_000)))
    image = viewer.add_image(np.zeros(PLANE))
    canvas = ResultsOnCanvas(viewer)
    canvas.belong_to(image, Planes(image, viewer))
    canvas.show(claimed, outlined=False)
    height, width = canvas.heatmap.layer.data.shape
    assert height * width <= 1 << 22
    assert height / width == pytest.approx(2, rel=1e-3)
    assert canvas.heatmap.layer.data.max() == 1
