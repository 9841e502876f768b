"""The pixels of the regions of results."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..layers.results_on_canvas import Masks
    from ..session import ResultRecord


def masks_of(record: ResultRecord) -> Masks:
    """Return the pixels of regions by the ``id()`` of their embedding; empty while a run goes on.

    An embedding tells a region from one of another run under the same number.
    """
    results, masks = record.results, record.masks
    if masks is None:
        return {}
    pixels = (
        masks
        if isinstance(masks, dict)
        else {(plane.position, one.id): one for plane in masks for one in plane.regions}
    )
    return {
        id(one.raw_embedding): pixels[one.position, one.id]
        for one in results.regions
        if (one.position, one.id) in pixels
    }
