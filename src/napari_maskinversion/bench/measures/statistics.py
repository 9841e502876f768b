"""Figures from records: shares with 95 % intervals, ranks of regions and sentences.

Regions of one image are correlated, so intervals come from resampling whole images (percentile
bootstrap), not regions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..datasets.dataset import Sample

DRAWS: Final = 2000
NORMAL: Final = 1.959964  # standard deviations around 95 % of a normal distribution


def share(
    values: ArrayLike, sources: Sequence[str], classes: ArrayLike | None = None
) -> dict[str, float]:
    """Return the mean of values with its 95 % interval, averaged over classes if there are any.

    Shapes: values (N,).
    """
    return ratio(values, np.ones(len(sources)), sources, classes)


def ratio(
    above: ArrayLike,
    below: ArrayLike,
    sources: Sequence[str],
    classes: ArrayLike | None = None,
) -> dict[str, float]:
    """Return the ratio of two sums (N,) as `share` returns a mean."""
    if not len(sources):
        return {"value": 0.0, "low": 0.0, "high": 1.0}
    _, source = np.unique(np.asarray(sources), return_inverse=True)
    if classes is None:
        kinds = np.zeros(len(source), int)
    else:
        kinds = np.asarray(classes)
    _, kind = np.unique(kinds, return_inverse=True)
    images = int(source.max()) + 1
    count = kind.max() + 1
    sums = np.zeros((images, count))
    counts = np.zeros((images, count))
    np.add.at(sums, (source, kind), np.asarray(above, float))
    np.add.at(counts, (source, kind), np.maximum(below, 1e-12))
    value = float((sums.sum(0) / counts.sum(0)).mean())
    if value in (0.0, 1.0):  # Wilson's interval, for as many trials as images
        end = NORMAL**2 / (images + NORMAL**2)
        return {"value": value, "low": (1 - end) * value, "high": max(value, end)}
    weights = np.random.default_rng(0).multinomial(images, np.full(images, 1 / images), DRAWS)
    with np.errstate(invalid="ignore"):  # a class that a resample misses does not count in it
        drawn = np.nanmean((weights @ sums) / (weights @ counts), axis=1)
    low, high = np.percentile(drawn, (2.5, 97.5))
    return {"value": value, "low": float(low), "high": float(high)}


# -- sentences and regions --------------------------------------------------------------------

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
Overlaps = Callable[[int, int], tuple[float, float]]  # pixels of two regions


def overlaps_of(sample: Sample) -> Overlaps:
    """Return what counts the intersection and the union of two regions; each pair is kept."""
    regions = sample.regions

    @cache
    def mask(place: int) -> NDArray[np.bool_]:
        return np.asarray(regions.full_mask(place) >= 0.5)

    @cache
    def pair(first_place: int, second_place: int) -> tuple[float, float]:
        if first_place == second_place:
            return float(regions[first_place].area), float(regions[first_place].area)
        first = mask(first_place)
        second = mask(second_place)
        return float((first & second).sum()), float((first | second).sum())

    return lambda first_place, second_place: pair(
        min(first_place, second_place), max(first_place, second_place)
    )


def masks_for_sentences(sample: Sample, scores: NDArray[Any], overlaps: Overlaps) -> list[Row]:
    """Rank all regions for each sentence by scores (sentences, regions)."""
    places = list(range(scores.shape[1]))
    rows = []
    for row, (_, true) in zip(scores, sample.expressions, strict=True):
        rows.append(_row(row, [true], places, true, overlaps))
    return rows


def sentences_for_masks(sample: Sample, scores: NDArray[Any], overlaps: Overlaps) -> list[Row]:
    """Rank all sentences for each region that has one, by scores (sentences, regions).

    Any of the region's own sentences is right. The mask of an answer is that of its region.
    """
    places = [place for _, place in sample.expressions]
    candidates_of: dict[int, list[int]] = {place: [] for place in places}
    for candidate, place in enumerate(places):
        candidates_of[place].append(candidate)
    rows = []
    for true, candidates in candidates_of.items():
        rows.append(_row(scores[:, true], candidates, places, true, overlaps))
    return rows


def _row(
    scores: NDArray[Any],
    right_candidates: Sequence[int],
    places: Sequence[int],
    true: int,
    overlaps: Overlaps,
) -> Row:
    """Rank candidates by their scores; ``places`` says which region each one is about."""
    best = scores[right_candidates].max()
    other = np.ones(len(scores), bool)
    other[right_candidates] = False
    ahead = scores > best + TIE
    level = scores >= best - TIE
    earliest = min(place for place in right_candidates if scores[place] >= best - TIE)
    before = np.arange(len(scores)) < earliest
    last = int((other & level).sum())
    first = int((other & (ahead | (level & before))).sum())
    tied = np.flatnonzero(scores >= scores.max() - TIE).tolist()
    areas = [overlaps(true, places[candidate]) for candidate in tied]
    worst = min(areas, key=lambda pair: (pair[0] / max(pair[1], 1), -pair[1]))
    return [float(last), *worst, float(first), *areas[0]]


def retrieval_figures(
    records: Sequence[tuple[str, dict[str, Any]]], reading: str, ties: Ties = "last"
) -> dict[str, Any]:
    """Compute Acc@1, @5, @10, mIoU and oIoU from records of images with sentences.

    ``reading`` is one of `READINGS`, or "caption".
    """
    listed = []
    for image, record in records:
        for row in record.get(reading, ()):
            listed.append((image, row))
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
        values = []
        for _, record in records:
            values.extend(record.get(name, ()))
        return values

    sources = []
    for image, record in records:
        for _ in record["ranks"]:
            sources.append(image)
    order = np.array(every("ranks"))
    overlaps = every("iou")
    summary: dict[str, Any] = {}
    for k in FIRST:
        if k == 1 or k < classes:
            summary[f"acc{k}"] = share(order < k, sources)
    summary["macro"] = share(order < 1, sources, every("labels"))
    if len(overlaps) == len(sources):
        summary["iou"] = share(overlaps, sources)
    if by_words := retrieval_figures(records, "mask"):
        summary["expressions"] = by_words
    small = sum(record.get("small", 0) for _, record in records)
    summary |= {"images": len(records), "regions": len(sources), "small": small}
    summary["seconds"] = sum(record["seconds"] for _, record in records) / max(len(sources), 1)
    return summary
