"""Figures from records: accuracies, regions for sentences, and sentences for regions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from ..datasets.base import Sample
from .statistics import ratio, share

READINGS: Final[dict[str, str]] = {
    "mask": "the mask for a sentence",
    "sentence": "the sentence for a mask",
}
Ties = Literal["last", "first"]
TIES: Final[tuple[Ties, ...]] = get_args(Ties)
TIE: Final = 1e-6  # cosines that differ less are equal except for rounding
FIRST: Final = (1, 5, 10)
Row = list[float]
"""Place of the right answer, intersection and union with the first answer's mask, where ties
count against the right answer; then the same where the first of tied answers counts."""


class Overlaps:
    """Intersections and unions of the masks of a sample; each pair is counted once."""

    def __init__(self, sample: Sample) -> None:
        self._sample = sample
        self._masks: dict[int, NDArray[np.bool_]] = {}
        self._pairs: dict[tuple[int, int], tuple[float, float]] = {}

    def of(self, one: int, other: int) -> tuple[float, float]:
        """Return the intersection and the union of two regions in pixels."""
        if one == other:
            area = float(self._sample.regions[one].area)
            return area, area
        pair = (min(one, other), max(one, other))
        if pair not in self._pairs:
            first, second = (self._mask(place) for place in pair)
            self._pairs[pair] = (float((first & second).sum()), float((first | second).sum()))
        return self._pairs[pair]

    def _mask(self, place: int) -> NDArray[np.bool_]:
        if place not in self._masks:
            self._masks[place] = np.asarray(self._sample.regions.full_mask(place) >= 0.5)
        return self._masks[place]


def masks_for_sentences(sample: Sample, scores: NDArray[Any], overlaps: Overlaps) -> list[Row]:
    """Rank all regions for each sentence by scores (sentences, regions)."""
    places = list(range(scores.shape[1]))
    return [
        _row(row, [true], places, true, overlaps)
        for row, (_, true) in zip(scores, sample.expressions, strict=True)
    ]


def sentences_for_masks(sample: Sample, scores: NDArray[Any], overlaps: Overlaps) -> list[Row]:
    """Rank all sentences for each region that has one, by scores (sentences, regions).

    Any of the region's own sentences is right. The mask of an answer is that of its region.
    """
    places = [place for _, place in sample.expressions]
    return [
        _row(
            scores[:, true], [i for i, p in enumerate(places) if p == true], places, true, overlaps
        )
        for true in dict.fromkeys(places)
    ]


def _row(
    scores: NDArray[Any],
    own: Sequence[int],
    places: Sequence[int],
    true: int,
    overlaps: Overlaps,
) -> Row:
    """Rank candidates by their scores; ``places`` says which region each one is about."""
    best = scores[own].max()
    other = np.ones(len(scores), bool)
    other[own] = False
    ahead, level = scores > best + TIE, scores >= best - TIE
    earliest = min(place for place in own if scores[place] >= best - TIE)
    before = np.arange(len(scores)) < earliest
    last = int((other & level).sum())
    first = int((other & (ahead | (level & before))).sum())
    tied = np.flatnonzero(scores >= scores.max() - TIE).tolist()
    areas = [overlaps.of(true, places[candidate]) for candidate in tied]
    worst = min(areas, key=lambda pair: (pair[0] / max(pair[1], 1), -pair[1]))
    return [float(last), *worst, float(first), *areas[0]]


def retrieval_figures(
    records: Sequence[tuple[str, dict[str, Any]]], reading: str, ties: Ties = "last"
) -> dict[str, Any]:
    """Compute Acc@1, @5, @10, mIoU and oIoU from records of images with sentences.

    ``reading`` is one of `READINGS`, or "caption".
    """
    listed = [(image, row) for image, one in records for row in one.get(reading, ())]
    if not listed:
        return {}
    images = [image for image, _ in listed]
    start = 3 * TIES.index(ties)
    place, both, either = np.array([row for _, row in listed])[:, start : start + 3].T
    return {
        **{f"acc{k}": share(place < k, images) for k in FIRST},
        "miou": share(both / np.maximum(either, 1), images),
        "oiou": ratio(both, either, images),
        "count": len(listed),
    }


def figures(records: Sequence[tuple[str, dict[str, Any]]], classes: int) -> dict[str, Any]:
    """Compute the figures of one model and entry."""

    def every(name: str) -> list[Any]:
        return [value for _, record in records for value in record.get(name, ())]

    sources = [image for image, record in records for _ in record["ranks"]]
    order, overlaps = np.array(every("ranks")), every("iou")
    summary: dict[str, Any] = {
        f"acc{k}": share(order < k, sources) for k in FIRST if k == 1 or k < classes
    }
    summary["macro"] = share(order < 1, sources, every("labels"))
    if len(overlaps) == len(sources):
        summary["iou"] = share(overlaps, sources)
    if by_words := retrieval_figures(records, "mask"):
        summary["expressions"] = by_words
    small = sum(record.get("small", 0) for _, record in records)
    summary |= {"images": len(records), "regions": len(sources), "small": small}
    summary["seconds"] = sum(record["seconds"] for _, record in records) / max(len(sources), 1)
    return summary
