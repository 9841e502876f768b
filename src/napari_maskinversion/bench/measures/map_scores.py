"""How well a sentence's explainability map fits regions: GradCAM as ReCLIP compares with it."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...base.regions import Regions
from ...engine.invert.dice import upsample_heatmap
from ...engine.invert.inverter import MaskInverter


def map_scores(
    inverter: MaskInverter, texts: NDArray[np.float32], regions: Regions, explainer: str
) -> NDArray[np.float32]:
    """Return the mean of each text's map in each region's box.

    ReCLIP's code takes CheferCAM of the last layer for a vision transformer, and calls it GradCAM.

    Parameters
    ----------
    inverter : MaskInverter
        With the image set.
    texts : ndarray, shape (T, e)
    regions : Regions
    explainer : str
        Name of an explainability map.

    Returns
    -------
    ndarray, shape (T, N), float32
        0 to 1, from maps stretched to that range.
    """
    maps = inverter.explain(texts, explainer=explainer)
    rows = []
    for grid_map in maps:
        heat = upsample_heatmap(grid_map, inverter.input_size, regions.shape)
        boxes = (region.bbox for region in regions)
        rows.append([heat[y0:y1, x0:x1].mean() for y0, x0, y1, x1 in boxes])
    return np.array(rows, np.float32)
