"""Small images and regions for tests, and the bundled model."""

from functools import cache

import numpy as np
import skimage.io

from napari_maskinversion import load_model
from napari_maskinversion.base.regions import Regions
from napari_maskinversion.images.channels import as_source
from napari_maskinversion.pipeline.run import PlaneTask, run_planes
from napari_maskinversion.results.settings import RunSettings

from .device import DEVICE


@cache
def demo_model(device=DEVICE):
    return load_model("demo", device=device)


def picture(height=60, width=80, seed=0):
    """A coloured picture (height, width, 3) uint8 with structure."""
    rng = np.random.default_rng(seed)
    rows, columns = np.mgrid[:height, :width]
    waves = [np.sin(rows / 9 + seed), np.cos(columns / 7), np.sin((rows + columns) / 11)]
    noise = rng.normal(0, 8, (height, width, 3))
    return np.clip(np.stack(waves, -1) * 90 + 128 + noise, 0, 255).astype(np.uint8)


def label_image(count=5, height=60, width=80):
    """Squares labelled 1..count in a row-wise grid."""
    labels = np.zeros((height, width), dtype=np.uint16)
    across = int(np.ceil(np.sqrt(count * width / height)))
    side = width // across
    for number in range(count):
        y, x = (number // across) * side, (number % across) * side
        labels[y : y + side - 1, x : x + side - 1] = number + 1
    return labels


def write_scene(folder, count=5):
    """Write ``image.png`` and ``masks.png``; return the folder."""
    skimage.io.imsave(folder / "image.png", picture(), check_contrast=False)
    skimage.io.imsave(folder / "masks.png", label_image(count), check_contrast=False)
    return folder


def regions(count=5, **size):
    return Regions.from_labels(label_image(count, **size))


def settings_of(settings=None, **changes):
    """Return settings with changes; without `RunSettings` the model sees whole planes."""
    if not isinstance(settings, RunSettings):
        changes = {"window": "whole"} | {k: v for k, v in changes.items() if v is not None}
    return RunSettings.of(settings, **changes)


def run(model, image, regions, vocabulary, settings=None, *, units=None, bank=None, **changes):
    """Run the regions of one image; see `run_planes`."""
    tasks = [PlaneTask(source=as_source(image), regions=regions)]
    settings = settings_of(settings, **changes)
    return run_planes(model, tasks, vocabulary, settings, units=units, bank=bank)
