"""The JSON record inside ``results.npz``: everything but the arrays."""

from __future__ import annotations

from typing import Any, Final, Self

from pydantic import BaseModel, NonNegativeInt

from ...base.compressed_region import CompressedRegion
from ...base.validation import FiniteOrNull
from ..region_result import RegionResult, WindowRecord

FORMAT: Final = "napari-maskinversion results"
VERSION: Final = 2  # 1: version 0.1, where the settings were fields of ``info``
PLAIN_FIELDS: Final = (
    *("id", "bbox", "area", "iou", "low_resolution", "index", "position", "centroid", "members"),
    *("source_label", "source_id"),
)
"""Fields of `RegionResult` that the record holds as they are."""


class MaskRecord(BaseModel):
    """How a mask is stored in the array ``masks``; see `CompressedRegion`."""

    bytes: NonNegativeInt
    coverage: bool


class CaptionsRecord(BaseModel):
    """Captions of a region."""

    texts: tuple[str, ...]
    similarities: list[float]
    rows: tuple[int, ...]


class RegionRecord(BaseModel):
    """A region; the fields of `RegionResult` that are not arrays.

    ``window`` is an index into `ArchiveRecord.windows`. ``losses``, ``grid`` and ``mask`` tell how
    many elements of the flat arrays belong to the region.
    """

    id: int
    bbox: tuple[int, int, int, int]
    area: float
    iou: FiniteOrNull
    low_resolution: bool
    window: NonNegativeInt
    index: int
    position: tuple[tuple[str, int], ...]
    centroid: tuple[float, float]
    members: tuple[int, ...]
    source_label: str = ""  # before version 0.2 there was none
    source_id: str = ""
    losses: NonNegativeInt
    grid: tuple[NonNegativeInt, NonNegativeInt]
    captions: CaptionsRecord | None
    mask: MaskRecord | None

    @classmethod
    def of(cls, region: RegionResult, window: int, mask: CompressedRegion | None) -> Self:
        """Create the record of a region."""
        captions = region.captions
        return cls.model_validate(
            {name: getattr(region, name) for name in PLAIN_FIELDS}
            | {
                "window": window,
                "losses": len(region.losses),
                "grid": region.grid_map.shape,
                "captions": captions
                and {
                    "texts": captions.captions,
                    "similarities": captions.similarities.tolist(),
                    "rows": captions.rows,
                },
                "mask": mask and {"bytes": len(mask.data), "coverage": mask.coverage},
            }
        )


class ArchiveRecord(BaseModel):
    """The whole record. ``info`` is a `RunInfo`; the other fields are those of `Bundle`."""

    format: str = FORMAT
    version: int = VERSION
    provenance: dict[str, Any]
    info: dict[str, Any]
    windows: tuple[WindowRecord, ...]
    image: dict[str, Any]
    records: list[dict[str, Any]]
    columns: dict[str, list[Any]]
    regions: list[RegionRecord]
