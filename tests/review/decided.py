"""Regions, images and runs for the tests of reviewing."""

import numpy as np

from napari_maskinversion import InversionConfig
from napari_maskinversion.base.identity import RegionKey, identify, identify_image
from napari_maskinversion.base.regions import Region, Regions
from napari_maskinversion.language.labels.vocabulary import Vocabulary
from napari_maskinversion.results.run_info import RunInfo
from napari_maskinversion.results.settings import RunSettings

CELLS = 12


def picture(seed=0):
    return np.random.default_rng(seed).integers(0, 255, (60, 80, 3), dtype=np.uint8)


def image(seed=0, name="cells.png"):
    return identify_image(name, picture(seed))


def label_image(count=CELLS):
    """Squares of 6 px with the labels 1 to 12, three rows of four."""
    labels = np.zeros((60, 80), np.uint8)
    for place in range(count):
        y, x = 4 + 18 * (place // 4), 4 + 18 * (place % 4)
        labels[y : y + 6, x : x + 6] = place + 1
    return labels


def regions(labels=None):
    image = label_image() if labels is None else labels
    return [identify(region) for region in Regions.from_labels(image)]


def square(key, y, x, side=6):
    mask = np.ones((side, side), bool)
    return identify(Region(key, (y, x, y + side, x + side), mask))


def info(words=("red cell", "white cell"), fingerprint="abc123", embed_dim=4):
    return RunInfo(
        fingerprint=fingerprint,
        settings=RunSettings(inversion=InversionConfig(steps=3), window="whole"),
        vocabulary=Vocabulary(tuple(words)),
        image_shape=(60, 80),
        input_size=(64, 64),
        grid=(8, 8),
        embed_dim=embed_dim,
        device="cpu",
    )


def key(number):
    return RegionKey(number)
