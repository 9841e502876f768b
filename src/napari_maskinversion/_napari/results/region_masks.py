"""The pixels of the regions of the results shown."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...base.compressed_region import CompressedRegion

if TYPE_CHECKING:
    from ...base.regions import Region
    from ...results.region_result import RegionResult
    from ..session import ResultRecord, Session


class RegionMasks:
    """Finds the pixels of a region among those of the run that it came from.

    Parameters
    ----------
    session : Session
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._run: object = None
        self._masks: dict[int, Region | CompressedRegion] = {}

    def of(self, region: RegionResult) -> Region | None:
        """Return the region's pixels; None while a run goes on, or if a file had none."""
        record: ResultRecord | None = self._session.record
        if record is None or record.masks is None:
            return None
        results, masks = record.results, record.masks
        if results is not self._run:
            pixels = (
                masks
                if isinstance(masks, dict)
                else {(plane.position, one.id): one for plane in masks for one in plane.regions}
            )
            # By its embedding, which tells it from a region of another run under the same id.
            self._masks = {
                id(one.raw_embedding): pixels[one.position, one.id]
                for one in results.regions
                if (one.position, one.id) in pixels
            }
            self._run = results
        mask = self._masks.get(id(region.raw_embedding))
        if mask is None or tuple(mask.bbox) != tuple(region.bbox):
            return None
        return mask.unpack() if isinstance(mask, CompressedRegion) else mask
