"""The JSON record inside ``results.npz``: everything but the arrays."""

from __future__ import annotations

from typing import Annotated, Any, Final, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    TypeAdapter,
    model_validator,
)

from ...base.label_blocks import LARGEST
from ...base.validation import FiniteOrNull, PlainText
from ...regions.annotations.annotation import CATEGORY_IDS, IMAGE_ID
from ..compressed_region import CompressedRegion
from ..region_result import RegionResult, WindowRecord

FORMAT: Final = "napari-maskinversion results"
VERSION: Final = 2
PLAIN_FIELDS: Final = (
    *("id", "bbox", "area", "iou", "low_resolution", "index", "position", "centroid", "members"),
    *("source_label", "source_id", "generated_caption"),
)
"""Fields of `RegionResult` that the record holds as they are."""


_FINITE: Final = ConfigDict(allow_inf_nan=False)
_MOST_PIXELS: Final = 100_000  # of a side of the model's input
_Id = Annotated[int, Field(ge=0, le=LARGEST)]
_CATEGORY_IDS: Final = TypeAdapter(dict[str, _Id])
_IMAGE_ID: Final = TypeAdapter(_Id | None)


class MaskRecord(BaseModel):
    """How a mask is stored in the array ``masks``; see `CompressedRegion`."""

    bytes: NonNegativeInt
    coverage: bool


class CaptionsRecord(BaseModel):
    """Captions of a region."""

    model_config = _FINITE

    texts: tuple[PlainText, ...]
    similarities: list[Annotated[float, Field(ge=-1.01, le=1.01)]]
    rows: tuple[int, ...]

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not len(self.texts) == len(self.similarities) == len(self.rows):
            raise ValueError("there are not as many texts as similarities and rows")
        return self


class RegionRecord(BaseModel):
    """A region; the fields of `RegionResult` that are not arrays.

    ``window`` is an index into `ArchiveRecord.windows`. ``losses``, ``grid`` and ``mask`` tell how
    many elements of the flat arrays belong to the region.
    """

    model_config = _FINITE

    id: _Id
    bbox: tuple[NonNegativeInt, NonNegativeInt, NonNegativeInt, NonNegativeInt]
    area: NonNegativeFloat
    iou: FiniteOrNull
    low_resolution: bool
    window: NonNegativeInt
    index: NonNegativeInt
    position: tuple[tuple[str, NonNegativeInt], ...]
    centroid: tuple[float, float]
    members: tuple[_Id, ...]
    source_label: PlainText = ""
    source_id: PlainText = ""
    generated_caption: PlainText = ""
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


class _Image(BaseModel):
    """An `ImageIdentity`; empty in results of an unknown image."""

    name: str = ""
    shape: tuple[NonNegativeInt, ...] = ()
    dtype: str = ""
    content: str = ""


class ArchiveRecord(BaseModel):
    """The whole record.

    ``info`` is a `RunInfo`; ``unknown_words`` are those that the model was not taught; the other
    fields are those of `Bundle`.
    """

    model_config = _FINITE

    format: str = FORMAT
    version: int = VERSION
    provenance: dict[str, Any]
    info: dict[str, Any]
    windows: tuple[WindowRecord, ...]
    image: dict[str, Any]
    records: list[dict[str, Any]]
    unknown_words: list[str] | None = None
    columns: dict[PlainText, list[PlainText | int | float | bool | None]]
    regions: list[RegionRecord]

    @model_validator(mode="after")
    def _check(self) -> Self:
        _Image.model_validate(self.image)
        source = self.provenance.get("source", {})
        if not isinstance(source, dict):
            raise ValueError("provenance.source must be an object")
        _CATEGORY_IDS.validate_python(source.get(CATEGORY_IDS, {}))
        _IMAGE_ID.validate_python(source.get(IMAGE_ID))
        for window in self.windows:
            sides = (*window.input_size, *window.grid)
            if not 0 < min(sides) <= max(sides) <= _MOST_PIXELS or min(window.pixels) < 1:
                raise ValueError(f"a window has an input of {window.input_size} px")
        for name, values in self.columns.items():
            if len(values) != len(self.regions):
                raise ValueError(f"its column {name!r} has not one value a region")
        if len(self.records) not in (0, len(self.regions)):
            raise ValueError("it has not one record a region")
        if any(region.window >= len(self.windows) for region in self.regions):
            raise ValueError("a region has no window")
        places = {(region.position, region.id) for region in self.regions}
        if len(places) < len(self.regions):
            raise ValueError("two regions of a plane have one id")
        return self
