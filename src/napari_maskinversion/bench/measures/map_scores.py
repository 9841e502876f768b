"""How well a sentence's explainability map fits regions: GradCAM as ReCLIP compares with it."""

from __future__ import annotations

from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.functional import interpolate

from ...base.regions import Regions
from ...engine.invert.inverter import MaskInverter

EXPONENT: Final = 0.5  # of a box's area: between the sum (0), for large boxes, and the mean (1)


def map_scores(
    inverter: MaskInverter, texts: NDArray[np.float32], regions: Regions, explainer: str
) -> NDArray[np.float32]:
    """Return the sum of each text's map in each region's box, over the root of the box's area.

    As in ReCLIP: the map is brought to the size of the image bicubically, and not stretched.
    ReCLIP's code takes CheferCAM of the last layer for a vision transformer, and calls it GradCAM.

    Shapes: texts (T, e); returns (T, N), float32.
    """
    maps = inverter.explain(texts, explainer=explainer)
    rows = []
    for grid_map in maps:
        tokens = torch.from_numpy(grid_map)[None, None]
        heat = interpolate(tokens, size=regions.shape, mode="bicubic", align_corners=False)[0, 0]
        boxes = (region.bbox for region in regions)
        sums = ((heat[y0:y1, x0:x1], y0, x0, y1, x1) for y0, x0, y1, x1 in boxes)
        rows.append(
            [float(cut.sum()) / ((y1 - y0) * (x1 - x0)) ** EXPONENT for cut, y0, x0, y1, x1 in sums]
        )
    return np.array(rows, np.float32)
