"""What an export is made from, and results as annotations."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...base.compressed_region import CompressedRegion
from ...base.errors import InputError
from ...language.labels.colors import fill_colors
from ...language.labels.vocabulary import NONE_OF_THESE
from ...regions.annotations.annotation import Annotation, Annotations, Position
from ...regions.masks.label_images import PlaneRegions
from ..region_result import RegionResult
from ..results import Results

Masks = Mapping[tuple[Position, int], CompressedRegion]
DECIDED = ("decision", "accepted_label")
"""Columns in which a review says what was decided and as what."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """Results and all that is saved with them.

    Parameters
    ----------
    results : Results
    masks : mapping
        The regions of the run by plane and id, see `pack`; empty where nobody knows them.
    source : mapping
        What the results were made from (file names, hashes).
    image : mapping
        The image: ``name``, ``shape``, ``dtype``, ``content`` (a hash of its pixels).
    columns : mapping
        More columns of the table, one value a row; decisions among them.
    records : sequence of mapping
        More entries of each region in the JSON record; empty for none.
    decisions : bytes
        What a review has saved about the regions.
    """

    results: Results
    masks: Masks = field(default_factory=dict)
    source: Mapping[str, Any] = field(default_factory=dict)
    image: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    records: Sequence[Mapping[str, Any]] = ()
    decisions: bytes = b""


def pack(planes: Iterable[PlaneRegions | Any]) -> dict[tuple[Position, int], CompressedRegion]:
    """Keep the regions of a run in few bytes, by plane and id.

    Parameters
    ----------
    planes : iterable
        Of anything with ``position`` and ``regions``: `PlaneRegions`, `PlaneTask`.
    """
    return {
        (plane.position, region.id): CompressedRegion.of(region)
        for plane in planes
        for region in plane.regions
    }


def annotations_of(bundle: Bundle) -> Annotations:
    """Give results as annotations: a region's label is the accepted one, else the suggestion.

    Its score is the label's probability among the labels of the run.

    Raises
    ------
    InputError
        If the pixels of a region are not known.
    """
    results, info = bundle.results, bundle.results.info
    table = results.to_frame().assign(**bundle.columns)
    columns = table.drop(columns="region")
    rows = [{str(k): v for k, v in row.items()} for row in columns.to_dict("records")]
    items = []
    for region, row in zip(results.regions, rows, strict=True):
        label = label_of(region, row)
        items.append(
            Annotation(
                region=_mask_of(region, bundle.masks).unpack(),
                label=label,
                score=_score(region, label),
                position=region.position,
                values=row,
            )
        )
    words = info.vocabulary
    colors = {}
    if words is not None:
        filled = fill_colors(words.colors or ("",) * len(words.labels))
        colors = dict(zip(words.labels, filled, strict=True))
    return Annotations(
        shape=info.image_shape,
        items=tuple(items),
        image=_image_name(bundle),
        geo=None if info.units is None else info.units.geo,
        colors=colors,
    )


def label_of(region: RegionResult, row: Mapping[str, Any]) -> str:
    """The label a region is exported with; "" for none."""
    decision, accepted = (row.get(name) for name in DECIDED)
    if decision == "accepted":
        return str(accepted)
    if decision == "rejected" or region.suggestion == NONE_OF_THESE:
        return ""
    return region.suggestion


def _score(region: RegionResult, label: str) -> float | None:
    ranking = region.ranking
    if ranking is None or label not in ranking.labels:
        return None
    value = float(ranking.probabilities[ranking.labels.index(label)])
    return value if math.isfinite(value) else None


def _mask_of(region: RegionResult, masks: Masks) -> CompressedRegion:
    found = masks.get((region.position, region.id))
    if found is None or found.bbox != tuple(region.bbox):
        raise InputError(
            f"The pixels of region {region.id} are not known here; run again, then export."
        )
    return found


def _image_name(bundle: Bundle) -> str:
    image = bundle.source.get("image")
    if isinstance(image, Mapping):
        return str(image.get("file") or image.get("folder") or "")
    return str(bundle.image.get("name") or bundle.source.get("image_layer") or "")
