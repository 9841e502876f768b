"""Shares with 95 % intervals, and simple baselines.

Regions of one image are correlated, so intervals come from resampling whole images (percentile
bootstrap), not regions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..datasets.scenes import Case

DRAWS: Final = 2000
NORMAL: Final = 1.959964  # standard deviations around 95 % of a normal distribution
FloatArray = NDArray[np.float64]


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
        return certain(0.0, 0)
    _, source = np.unique(np.asarray(sources), return_inverse=True)
    kinds = np.zeros(len(source), int) if classes is None else np.asarray(classes)
    _, kind = np.unique(kinds, return_inverse=True)
    images, count = int(source.max()) + 1, kind.max() + 1
    sums, counts = np.zeros((images, count)), np.zeros((images, count))
    np.add.at(sums, (source, kind), np.asarray(above, float))
    np.add.at(counts, (source, kind), np.maximum(below, 1e-12))
    value = float((sums.sum(0) / counts.sum(0)).mean())
    if value in (0.0, 1.0):
        return certain(value, images)
    weights = np.random.default_rng(0).multinomial(images, np.full(images, 1 / images), DRAWS)
    with np.errstate(invalid="ignore"):  # a class that a resample misses does not count in it
        drawn = np.nanmean((weights @ sums) / (weights @ counts), axis=1)
    low, high = np.percentile(drawn, (2.5, 97.5))
    return {"value": value, "low": float(low), "high": float(high)}


def certain(value: float, images: int) -> dict[str, float]:
    """Return a share of 0 or 1, with Wilson's interval for as many trials as images.

    Without images the interval is 0 to 1.
    """
    if not images:
        return {"value": 0.0, "low": 0.0, "high": 1.0}
    open_end = NORMAL**2 / (images + NORMAL**2)
    low, high = (1 - open_end, 1.0) if value else (0.0, open_end)
    return {"value": value, "low": low, "high": high}


def hits(
    embeddings: NDArray[np.float32], texts: NDArray[np.float32], labels: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Return (N, 2): whether the right name is first, and among the first five."""
    order = (-(embeddings @ texts.T)).argsort(1)[:, :5] == labels[:, None]
    return np.stack([order[:, 0], order.any(1)], 1)


def size_and_colour(cases: Iterable[Case]) -> tuple[FloatArray, NDArray[np.int64]]:
    """Return log area, mean and standard deviation of each channel, (N, 7), and labels (N,)."""
    rows, labels = [], []
    for case in cases:
        for mask, label in zip(case.masks, case.labels, strict=True):
            inside = case.image[mask].astype(np.float64) / 255
            rows.append([np.log(len(inside)), *inside.mean(0), *inside.std(0)])
            labels.append(int(label))
    return np.array(rows), np.array(labels)


def discriminant(x: FloatArray, y: NDArray[np.int64], z: FloatArray) -> NDArray[np.int64]:
    """Name rows z (K, f) by linear discriminants fitted to x (N, f), every class as likely."""
    classes = np.unique(y)
    means = np.array([x[y == label].mean(0) for label in classes])
    spread = x - means[np.searchsorted(classes, y)]
    inverse = np.linalg.inv(spread.T @ spread / len(x) + 1e-6 * np.eye(x.shape[1]))
    away = z[:, None] - means[None]
    nearest = np.einsum("nkf,fg,nkg->nk", away, inverse, away).argmin(1)
    return np.asarray(classes[nearest], np.int64)


def merge(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """Join dicts of arrays row by row."""
    listed = list(parts)
    return {key: np.concatenate([p[key] for p in listed]) for key in listed[0]}
