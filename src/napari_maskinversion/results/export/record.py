"""``result.json``: how results were computed, and each region; everything but the arrays."""

from __future__ import annotations

import math
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from ...base.units import Units
from ...regions.annotations.json_files import write_json
from ..agreement import agreement_of
from ..region_result import RegionResult
from ..sizes import equivalent_diameter, physical_size
from .bundle import Bundle
from .embeddings import npy_bytes
from .export_format import ExportFormat


def write_record(bundle: Bundle, path: Path) -> None:
    """Write provenance and regions as JSON; NaN becomes null."""
    results = bundle.results
    regions = [_region(region, results.info.units) for region in results.regions]
    extra = bundle.records or [{} for _ in regions]
    record = bundle.provenance()
    record["embeddings"] = {"sha256": sha256(npy_bytes(results.embeddings)).hexdigest()}
    agreement = agreement_of(results)
    if agreement is not None:
        record["agreement"] = asdict(agreement) | {"accuracy": agreement.accuracy}
    record["regions"] = [region | dict(more) for region, more in zip(regions, extra, strict=True)]
    write_json(record, path)


def _region(region: RegionResult, units: Units | None) -> dict[str, Any]:
    ranking = region.ranking
    return {
        "id": region.id,
        "bbox_yxyx": list(region.bbox),
        **_sizes(region, units),
        "plane": dict(region.position),
        "members": list(region.members),
        "source": {"label": region.source_label, "id": region.source_id},
        "window": {
            "box_yxyx": list(region.window.box),
            "whole": region.window.whole,
            "model_input": list(region.window.input_size),
            "grid": list(region.window.grid),
            "resolution": region.window.resolution,
            "device": region.window.device,
            "route": region.window.route,
            "memory_note": region.window.memory_note,
        },
        "suggestion": region.suggestion,
        "status": region.status,
        "sure": None if ranking is None else region.uncertainty.sure,
        "fits": region.uncertainty.fits,
        "unsure": list(region.uncertainty.reasons),
        "entropy": _number(region.uncertainty.entropy),
        "heatmap_iou": _number(region.iou),
        "norm": region.norm,
        "losses": [float(loss) for loss in region.losses],
        "margin": None if ranking is None else _number(ranking.margin),
        "ranking": []
        if ranking is None
        else [
            {"label": label, "similarity": float(similarity), "probability": float(probability)}
            for label, similarity, probability in zip(
                ranking.labels, ranking.similarities, ranking.probabilities, strict=True
            )
        ],
        "captions": _captions(region),
        "generated_caption": region.generated_caption,
    }


def _sizes(region: RegionResult, units: Units | None) -> dict[str, Any]:
    sizes: dict[str, Any] = {
        "area_px": region.area,
        "diameter_px": equivalent_diameter(region.area),
        "centroid_yx": list(region.centroid),
    }
    size = physical_size(region, units)
    if size is not None:
        sizes |= {"area": size.area, "diameter": size.diameter, "unit": size.unit}
    if units is not None and units.geo is not None:
        sizes["world_xy"] = list(units.geo.world(*region.centroid))
    return sizes


def _captions(region: RegionResult) -> list[dict[str, Any]]:
    captions = region.captions
    if captions is None:
        return []
    pairs = zip(captions.captions, captions.similarities, strict=True)
    return [{"caption": text, "similarity": float(value)} for text, value in pairs]


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None  # JSON has no NaN


FORMATS: Final = (ExportFormat("json", "Record (.json)", "result.json", write_record),)
