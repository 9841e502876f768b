"""Compute figures from records: accuracies, class averages, and regions found by words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .retrieval import FIRST, retrieval_figures
from .statistics import share


def figures(records: Sequence[tuple[str, dict[str, Any]]], classes: int) -> dict[str, Any]:
    """Compute the figures of one model and entry."""
    sources, labels, ranks, overlaps = [], [], [], []
    seconds, small = 0.0, 0
    for image, record in records:
        sources += [image] * len(record["ranks"])
        small += record.get("small", 0)
        labels += record["labels"]
        ranks += record["ranks"]
        overlaps += record.get("iou", [])
        seconds += record["seconds"]
    order = np.array(ranks)
    summary: dict[str, Any] = {
        f"acc{k}": share(order < k, sources) for k in FIRST if k == 1 or k < classes
    }
    summary["macro"] = share(order < 1, sources, labels)
    if len(overlaps) == len(sources):
        summary["iou"] = share(overlaps, sources)
    if by_words := retrieval_figures(records, "mask"):
        summary["expressions"] = by_words
    summary |= {"images": len(records), "regions": len(sources), "small": small}
    summary["seconds"] = seconds / max(len(sources), 1)
    return summary
