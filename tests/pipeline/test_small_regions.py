"""A 40-pixel thing in a 20,000-pixel image gets its name; little is read but its surroundings."""

import numpy as np
import pytest
from skimage.transform import resize

from napari_maskinversion import InversionConfig
from napari_maskinversion.base.regions import Region, Regions
from napari_maskinversion.images.plane_source import Level
from napari_maskinversion.images.sample_scenes import load_scene
from napari_maskinversion.images.windows import WindowConfig
from napari_maskinversion.language.labels.vocabulary import Vocabulary
from tests.scenes import demo_model, run

SIDE = 20_000
THING = 40


class Sea:
    """A plane of waves, computed where it is read, with small things on it."""

    shape = (SIDE, SIDE)
    levels = (Level((SIDE, SIDE)),)

    def __init__(self):
        self.things = []
        self.read_boxes = []

    def check(self):
        """Waves are worth looking at."""

    def read(self, level, box):
        y0, x0, y1, x1 = box
        self.read_boxes.append(box)
        waves = 120 + 20 * np.sin(np.arange(y0, y1)[:, None] / 37)
        waves = waves + 20 * np.cos(np.arange(x0, x1) / 53)
        out = np.stack([waves, waves + 15, waves + 30], -1)
        for y, x, colours, mask in self.things:
            rows, columns = np.nonzero(mask)
            seen = (rows + y >= y0) & (rows + y < y1) & (columns + x >= x0) & (columns + x < x1)
            rows, columns = rows[seen], columns[seen]
            out[rows + y - y0, columns + x - x0] = colours[rows, columns]
        return out.astype(np.uint8)


def small(scene, number):
    """One thing of a scene at `THING` pixels: colours and mask."""
    mask = scene.regions == number
    rows, columns = np.flatnonzero(mask.any(1)), np.flatnonzero(mask.any(0))
    box = np.s_[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
    size = np.round(np.array(mask[box].shape) * THING / max(mask[box].shape)).astype(int)
    shape = resize(mask[box].astype(float), size, anti_aliasing=True) > 0.5
    return resize(scene.image[box], size, anti_aliasing=True, preserve_range=True), shape


@pytest.fixture(scope="module")
def answers():
    """Names that the bundled model gives five things far apart; how much was read for them."""
    scene, sea, regions = load_scene("everyday-2"), Sea(), []
    for place, number in enumerate(scene.truth):
        colours, mask = small(scene, number)
        y, x = 1234 + 3900 * place, 17_000 - 3800 * place
        sea.things.append((y, x, colours, mask))
        regions.append(Region(number, (y, x, y + mask.shape[0], x + mask.shape[1]), mask))
    results = run(
        demo_model(),
        sea,
        Regions(sea.shape, regions),
        Vocabulary(scene.vocabulary),
        InversionConfig(steps=10),
        window=WindowConfig(),
    )
    return scene.truth, results, sea.read_boxes


def test_small_things_are_named_among_forty_names(answers):
    truth, results, _ = answers
    named = {region.id: region.ranking.labels[0] for region in results.regions}
    right = [truth[number] == name for number, name in named.items()]
    # Chance is one in forty. One miss is granted to weights that are trained anew.
    assert sum(right) >= len(truth) - 1, named
    assert not any(region.low_resolution or region.window.flat for region in results.regions)


def test_only_their_surroundings_are_read(answers):
    truth, results, boxes = answers
    assert len(results.windows) == len(truth)
    areas = {box: (box[2] - box[0]) * (box[3] - box[1]) for box in boxes}
    # Bands tell whether the demo model knows such images: a tenth of the plane, once.
    bands = [box for box in boxes if box[3] - box[1] == SIDE]
    assert len(bands) == len(set(bands))
    assert sum(areas[box] for box in bands) <= 0.11 * SIDE**2
    around = sum(areas[box] for box in boxes) - sum(areas[box] for box in bands)
    assert around <= len(truth) * (2 * THING + 2) ** 2
