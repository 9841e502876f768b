"""Results as annotations: labels, scores and masks as COCO, GeoJSON and label images."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ...base.errors import InputError
from ...base.validation import encodable
from ...language.labels.label import fill_colors
from ...language.labels.vocabulary import NONE_OF_THESE
from ...language.ranking.ranking import Ranking
from ...regions.annotations import coco_writing
from ...regions.annotations.annotation import Annotation, Annotations, CocoFacts
from ...regions.annotations.geojson import write_geojson
from ...regions.annotations.label_maps import map_files, write_label_maps
from ..columns import source_columns
from ..region_result import RegionResult
from .bundle import (
    AddImage,
    Bundle,
    CompressedRegion,
    ExportFormat,
    ImageOfMany,
    ManyImages,
    Masks,
)

DECISION_COLUMNS: Final = ("decision", "accepted_label")
"""Columns that hold a review's decision and its label."""


def to_annotations(bundle: Bundle) -> Annotations:
    """Convert results to annotations.

    The label is the accepted one, or else the suggestion; its score is its probability among the
    labels of the run. The other columns of the table become attributes.
    """
    results = bundle.results
    info = bundle.results.info
    brought = source_columns(info, results.regions)
    rows = bundle.table().drop(columns=["region", *brought.values()]).to_dict("records")
    items = []
    for region, row in zip(results.regions, rows, strict=True):
        columns = {str(name): value for name, value in row.items()}
        label = export_label(region, columns)
        items.append(
            Annotation(
                region=_mask(region, bundle.masks).unpack(),
                label=label,
                score=_score(region.ranking, label),
                position=region.position,
                values={brought[name]: value for name, value in region.source_values.items()},
                columns=columns,
                source_id=encodable(region.source_id),
            )
        )
    vocabulary = info.vocabulary
    colors = {}
    if vocabulary is not None:
        filled = fill_colors(vocabulary.colors or ("",) * len(vocabulary.labels))
        colors = dict(zip(vocabulary.labels, filled, strict=True))
    return Annotations(
        shape=info.image_shape,
        items=tuple(items),
        image=encodable(_image_name(bundle)),
        geo=None if info.units is None else info.units.geo,
        colors=colors,
        coco=CocoFacts.among(bundle.source),
        about={"provenance": bundle.provenance()},
    )


def export_label(region: RegionResult, row: Mapping[str, Any]) -> str:
    """Return the label a region is exported with; "" for none."""
    decision, accepted = (row.get(name) for name in DECISION_COLUMNS)
    if decision == "accepted":
        return str(accepted)
    if decision == "rejected" or region.suggestion == NONE_OF_THESE:
        return ""
    return region.suggestion


def _score(ranking: Ranking | None, label: str) -> float | None:
    if ranking is None or label not in ranking.labels:
        return None
    score = float(ranking.probabilities[ranking.labels.index(label)])
    if math.isfinite(score):
        return score
    return None


def _mask(region: RegionResult, masks: Masks) -> CompressedRegion:
    mask = masks.get((region.position, region.id))
    if mask is None or mask.bbox != tuple(region.bbox):
        raise InputError(
            f"The pixels of region {region.id} are unknown here; run again, then export."
        )
    return mask


def _image_name(bundle: Bundle) -> str:
    image = bundle.source.get("image")
    if isinstance(image, Mapping):
        return str(image.get("file") or image.get("folder") or "")
    source = bundle.source
    return str(source.get("image_file") or bundle.image.name or source.get("image_layer") or "")


def _write_coco(bundle: Bundle, path: Path) -> None:
    coco_writing.write_coco(to_annotations(bundle), path, polygons=bundle.polygons)


@contextmanager
def _joining_coco(path: Path) -> Iterator[AddImage]:
    """Write one COCO file of all images; each has its path in the project as its file name."""
    parts: list[coco_writing.PartOfMany] = []
    polygons = False

    def add(image: ImageOfMany, bundle: Bundle) -> None:
        nonlocal polygons
        polygons = bundle.polygons
        about: dict[str, Any] = {"name": image.name}
        if image.series is not None:
            about["series"] = image.series
        annotations = replace(to_annotations(bundle), image=image.path)
        parts.append((image.number, annotations, about))

    yield add
    coco_writing.write_coco_of_many(parts, path, polygons=polygons)


def _write_world(bundle: Bundle, path: Path) -> None:
    """Write outlines in world coordinates; in pixels where the image has no georeference."""
    annotations = to_annotations(bundle)
    write_geojson(annotations, path, world=annotations.geo is not None)


FORMATS: Final = (
    ExportFormat(
        "coco",
        "COCO (.json)",
        "coco.json",
        _write_coco,
        many=ManyImages(title="COCO (.json)", file="coco.json", writing=_joining_coco),
    ),
    ExportFormat("geojson", "GeoJSON (.geojson)", "regions.geojson", _write_world),
    ExportFormat(
        "qupath",
        "GeoJSON in pixels, for QuPath (.geojson)",
        "regions_pixels.geojson",
        lambda bundle, path: write_geojson(to_annotations(bundle), path),
    ),
    ExportFormat(
        "masks",
        "Label images: regions and classes (.tif)",
        "labels.tif",
        lambda bundle, path: write_label_maps(to_annotations(bundle), path),
        more_files=lambda path: map_files(path)[1:],
    ),
)
