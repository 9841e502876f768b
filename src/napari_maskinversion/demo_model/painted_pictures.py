"""Painted pictures for training: the code of the sample scenes, with other seeds and sizes."""

from __future__ import annotations

from typing import Final

import numpy as np
from scipy import ndimage

from .domains import NAMES, Picture
from .samples import PAINTED, PaintedSample

COUNT: Final = 12  # of each kind
SIZES: Final = (384, 704)  # pixels of a side; the layout of the land is stretched
FIRST_SEED: Final = 10_000  # those of the sample scenes are below 10


def painted_pictures(count: int = COUNT) -> list[Picture]:
    """Paint land from above and blood smears, ``count`` of each."""
    return [_picture(sample, FIRST_SEED + number) for sample in PAINTED for number in range(count)]


def _picture(sample: PaintedSample, seed: int) -> Picture:
    high, wide = (int(side) for side in np.random.default_rng(seed).integers(*SIZES, size=2))
    image, regions = sample.paint(seed, (high, wide))
    pixels = np.round(255 * image).astype(np.uint8)
    boxes = [
        (rows.start, columns.start, rows.stop, columns.stop)
        for rows, columns in ndimage.find_objects(regions)
    ]
    labels = [NAMES.index(name) for name in sample.names]
    everywhere = np.ones(regions.shape, bool)  # cells without a number are cells too
    return Picture(
        sample.group,
        f"{sample.name}-{seed}",
        pixels,
        np.array(boxes),
        np.array(labels),
        regions.astype(np.int32),
        everywhere,
    )
