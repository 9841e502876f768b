"""Compute figures from records: accuracies, class averages, and regions found by words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from .statistics import ratio, share

FIRST: Final = (1, 5, 10)


def figures(records: Sequence[tuple[str, dict[str, Any]]], classes: int) -> dict[str, Any]:
    """Compute the figures of one model and entry.

    Parameters
    ----------
    records : sequence of (str, dict)
        Image and its record from `Measuring`.
    classes : int
        Number of candidate names; top-k accuracies with k of that size or more are left out.

    Returns
    -------
    dict
        ``acc1``, ``acc5``, ``acc10``, ``macro`` (Acc@1 averaged over classes), ``iou`` (heatmaps
        against masks), ``expressions`` (``acc1``, ``miou``, ``oiou``), each with its 95 % interval
        from resampling images; ``images``, ``regions``, ``small`` (regions left out since they are
        too small), ``seconds`` (per region).
    """
    sources, labels, ranks, overlaps = [], [], [], []
    words: list[tuple[str, list[float]]] = []
    seconds, small = 0.0, 0
    for image, record in records:
        sources += [image] * len(record["ranks"])
        small += record.get("small", 0)
        labels += record["labels"]
        ranks += record["ranks"]
        overlaps += record.get("iou", [])
        words += [(image, row) for row in record.get("expressions", [])]
        seconds += record["seconds"]
    order = np.array(ranks)
    summary: dict[str, Any] = {
        f"acc{k}": share(order < k, sources) for k in FIRST if k == 1 or k < classes
    }
    summary["macro"] = share(order < 1, sources, labels)
    if len(overlaps) == len(sources):
        summary["iou"] = share(overlaps, sources)
    if words:
        rows = np.array([row for _, row in words])
        places = [image for image, _ in words]
        summary["expressions"] = {
            "count": len(words),
            "acc1": share(rows[:, 0], places),
            "miou": share(rows[:, 1] / np.maximum(rows[:, 2], 1), places),
            "oiou": ratio(rows[:, 1], rows[:, 2], places),
        }
    summary |= {"images": len(records), "regions": len(sources), "small": small}
    summary["seconds"] = seconds / max(len(sources), 1)
    return summary
