"""The record of a run: one model of everything but the arrays.

``results.npz`` holds it beside the arrays, ``result.json`` with what they say about each region.
"""

from __future__ import annotations

from dataclasses import asdict, fields
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Final, Self

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, model_validator
from pydantic.dataclasses import dataclass

from ...base.identity import ImageIdentity
from ...base.units import Units
from ...base.validation import PlainText
from ...language.captions.bank import CaptionMatches
from ...regions.annotations.annotation import CocoFacts
from ...regions.annotations.json_files import write_json
from ..agreement import agreement_of
from ..region_result import (
    RegionFacts,
    RegionResult,
    WindowRecord,
    equivalent_diameter,
    physical_size,
)
from ..results import Results
from ..run_info import RunInfo
from .bundle import Bundle, CompressedRegion, ExportFormat
from .embeddings import npy_bytes

FORMAT: Final = "napari-maskinversion results"
VERSION: Final = 2
_FINITE: Final = ConfigDict(allow_inf_nan=False)
_Number = Annotated[int, Field(ge=-(2**63), lt=2**63)] | float
_Texts = list[PlainText | None]


class _Mask(BaseModel):
    """How a mask is stored in the array ``masks``; see `CompressedRegion`."""

    bytes: NonNegativeInt
    coverage: bool


class _Captions(BaseModel):
    model_config = _FINITE

    texts: tuple[PlainText, ...]
    similarities: list[float]
    rows: tuple[int, ...]

    @classmethod
    def of(cls, captions: CaptionMatches) -> Self:
        similarities = captions.similarities.tolist()
        return cls(texts=captions.captions, similarities=similarities, rows=captions.rows)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not len(self.texts) == len(self.similarities) == len(self.rows):
            raise ValueError("there are not as many texts as similarities and rows")
        return self


@dataclass(config=_FINITE, frozen=True, kw_only=True)
class RegionRecord(RegionFacts):
    """A region: ``losses``, ``grid`` and ``mask`` tell how much of the flat arrays is its own."""

    window: NonNegativeInt  # Index into `RunRecord.windows`
    losses: NonNegativeInt
    grid: tuple[NonNegativeInt, NonNegativeInt]
    captions: _Captions | None
    mask: _Mask | None

    @classmethod
    def of(cls, region: RegionResult, window: int, mask: CompressedRegion | None) -> Self:
        """Create the record of a region."""
        return cls(
            **facts_of(region),
            window=window,
            losses=len(region.losses),
            grid=(region.grid_map.shape[0], region.grid_map.shape[1]),
            captions=None if region.captions is None else _Captions.of(region.captions),
            mask=None if mask is None else _Mask(bytes=len(mask.data), coverage=mask.coverage),
        )


def facts_of(region: RegionFacts) -> dict[str, Any]:
    """Return the values of the fields of `RegionFacts`."""
    return {field.name: getattr(region, field.name) for field in fields(RegionFacts)}


class RunRecord(BaseModel):
    """The whole record; its fields are those of `Bundle` and its results."""

    model_config = _FINITE

    format: str = FORMAT
    version: int = VERSION
    provenance: dict[str, Any]
    info: RunInfo
    windows: tuple[WindowRecord, ...]
    image: ImageIdentity
    records: list[dict[str, Any]]
    unknown_words: list[str] = []  # Those that the model was not taught
    # Those without the decisions of a review, which teach some
    unknown_before: list[str] = []
    columns: dict[PlainText, _Texts | list[bool | None] | list[_Number | None]]
    regions: list[RegionRecord]

    @classmethod
    def of(cls, bundle: Bundle) -> Self:
        """Create the record of a bundle."""
        results = bundle.results
        windows = {window: number for number, window in enumerate(results.windows)}
        regions = []
        for region, mask in zip(results.regions, bundle.region_masks(), strict=True):
            regions.append(RegionRecord.of(region, windows[region.window], mask))
        records = [dict(entries) for entries in bundle.records]
        return cls(
            provenance=bundle.provenance(),
            info=results.info,
            windows=results.windows,
            image=bundle.image,
            records=records,
            columns={name: list(values) for name, values in bundle.columns.items()},
            unknown_words=_unknown_words(results),
            unknown_before=_unknown_words(results.without_decisions()),
            regions=regions,
        )

    @model_validator(mode="after")
    def _check(self) -> Self:
        CocoFacts.among(self.provenance.get("source", {}))
        count = len(self.regions)
        for name, values in self.columns.items():
            if len(values) != count:
                raise ValueError(f"its column {name!r} has not one value a region")
        if len(self.records) not in (0, count):
            raise ValueError("it has not one record a region")
        if len({(region.position, region.id) for region in self.regions}) < count:
            raise ValueError("two regions of a plane have one id")
        height, width = self.info.image_shape
        for region in self.regions:
            y0, x0, y1, x1 = region.bbox
            if not (y0 < y1 <= height and x0 < x1 <= width):
                raise ValueError(f"region {region.id} lies outside the image")
        return self


def _unknown_words(results: Results) -> list[str]:
    rankings = [region.ranking for region in results.regions if region.ranking is not None]
    return sorted({word for ranking in rankings for word in ranking.unknown})


def write_result(bundle: Bundle, path: Path) -> None:
    """Write provenance and regions as JSON; NaN becomes null."""
    results = bundle.results
    record = bundle.provenance()
    record["embeddings"] = {"sha256": sha256(npy_bytes(results.embeddings)).hexdigest()}
    agreement = agreement_of(results)
    if agreement is not None:
        record["agreement"] = asdict(agreement) | {"accuracy": agreement.accuracy}
    extra = bundle.records or [{} for _ in results.regions]
    records = []
    for region, more in zip(results.regions, extra, strict=True):
        records.append(_region(region, results.info.units) | dict(more))
    record["regions"] = records
    write_json(record, path)


def _region(region: RegionResult, units: Units | None) -> dict[str, Any]:
    ranking = region.ranking
    captions = region.captions
    window = region.window
    ranked = []
    if ranking is not None:
        for label, similarity, probability in zip(
            ranking.labels, ranking.similarities, ranking.probabilities, strict=True
        ):
            ranked.append({"label": label, "similarity": similarity, "probability": probability})
    matches = []
    if captions is not None:
        for caption, similarity in zip(captions.captions, captions.similarities, strict=True):
            matches.append({"caption": caption, "similarity": similarity})
    source: dict[str, Any] = {"label": region.source_label, "id": region.source_id}
    if region.source_values:
        source["values"] = region.source_values
    return {
        "id": region.id,
        "bbox_yxyx": region.bbox,
        **_sizes(region, units),
        "plane": dict(region.position),
        "members": region.members,
        "source": source,
        **({"measures": region.measures} if region.measures else {}),
        "window": {
            "box_yxyx": window.box,
            "whole": window.whole,
            "model_input": window.input_size,
            "grid": window.grid,
            "resolution": window.resolution,
            "device": window.device,
            "route": window.route,
            "memory_note": window.memory_note,
        },
        "suggestion": region.suggestion,
        **({"changed_from": ranking.changed_from} if ranking and ranking.changed_from else {}),
        "status": region.status,
        "sure": None if ranking is None else region.uncertainty.sure,
        "fits": region.uncertainty.fits,
        "unsure": region.uncertainty.reasons,
        "entropy": region.uncertainty.entropy,
        "heatmap_iou": region.iou,
        "norm": region.norm,
        "losses": region.losses,
        "margin": region.margin,
        "ranking": ranked,
        "captions": matches,
        "generated_caption": region.generated_caption,
    }


def _sizes(region: RegionResult, units: Units | None) -> dict[str, Any]:
    sizes: dict[str, Any] = {
        "area_px": region.area,
        "diameter_px": equivalent_diameter(region.area),
        "centroid_yx": region.centroid,
    }
    size = physical_size(region, units)
    if size is not None:
        sizes |= {"area": size.area, "diameter": size.diameter, "unit": size.unit}
    if units is not None and units.geo is not None:
        sizes["world_xy"] = units.geo.world(*region.centroid)
    return sizes


FORMATS: Final = (ExportFormat("json", "Record (.json)", "result.json", write_result),)
