"""A layer to draw regions on, with the brush or the lasso ready."""

from __future__ import annotations

from math import prod
from typing import Any, Final

import numpy as np

from ..layers.layers import is_shapes, levels_of
from ..layers.placing import REGIONS_OPACITY, place_of

# A label image of more pixels would take gigabytes: shapes instead.
_MOST_PIXELS: Final = 2**28


def draw_regions(viewer: Any, image: Any, regions: Any = None) -> Any:
    """Make a layer for regions ready to be drawn on, and return it."""
    if regions is None:
        regions = _new_layer(viewer, image)
    viewer.layers.selection.active = regions
    if is_shapes(regions):
        regions.mode = "add_polygon_lasso"
    else:
        highest = int(np.max(regions.data)) if isinstance(regions.data, np.ndarray) else 0
        regions.selected_label = highest + 1
        regions.mode = "paint"
    return regions


def _new_layer(viewer: Any, image: Any) -> Any:
    shape = levels_of(image)[0].shape[: image.ndim]
    place = place_of(image)
    name = f"{image.name}: regions"
    if prod(shape) > _MOST_PIXELS:
        return viewer.add_shapes(ndim=image.ndim, name=name, **place)
    blank = np.zeros(shape, dtype=np.int32)
    return viewer.add_labels(blank, name=name, opacity=REGIONS_OPACITY, **place)
