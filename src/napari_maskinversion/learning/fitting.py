"""Logistic regression beside fixed logits, its folds and its calibration, on plain arrays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.intp]

_FOLDS: Final = 5
_STEPS: Final = 100
# Strengths where words name decisions well, and no better than chance; and what a strength e times
# as far from the one before cross-validation has to gain in loss. See docs/concepts/learning.md.
_GOOD_WORDS: Final = 0.2
_BAD_WORDS: Final = 10.0
_CAUTION: Final = 1.0
# Words are softened until their loss is this share of the loss by chance, while decisions teach
_HEARD: Final = 0.8
_SOFTEST: Final = 14.0  # Logarithm
_KEPT: Final = 0.5  # Of what softened words learn: the rest holds for the decided images only
_TOLERANCE: Final = 1e-5  # Of the gradient's largest entry, for a mean loss


def minimise(
    inputs: FloatArray,
    offsets: FloatArray,
    targets: IntArray,
    weights: FloatArray,
    strength: float,
    start: FloatArray,
    free: IntArray | Sequence[int] = (),
) -> FloatArray:
    """Return (classes, f + 1) the learned difference with its bias in the last column.

    Minimises the weighted cross entropy of ``offsets + inputs @ difference`` plus the squared
    difference over twice the strength. Biases of the classes ``free`` are not drawn to zero.

    Shapes: inputs (N, f); offsets (N, classes); start as returned.
    """
    import torch
    from scipy.optimize import minimize

    x = torch.from_numpy(np.hstack([inputs, np.ones((len(inputs), 1))]))
    fixed = torch.from_numpy(offsets)
    truth = torch.from_numpy(targets.astype(np.int64))[:, None]
    share = torch.from_numpy(weights / weights.sum())[:, None]
    penalty = torch.full(start.shape, 0.5 / (strength * float(weights.sum())), dtype=torch.float64)
    penalty[list(free), -1] = 0

    def loss(values: FloatArray) -> tuple[float, FloatArray]:
        learned = torch.from_numpy(values).view(start.shape)
        chances = torch.log_softmax(fixed + x @ learned.T, dim=1)
        value = (penalty * learned**2).sum() - (share * chances.gather(1, truth)).sum()
        surplus = share * chances.exp_().scatter_add_(1, truth, -torch.ones_like(share))
        return float(value), (surplus.T @ x + 2 * penalty * learned).flatten().numpy()

    limits = {"maxiter": _STEPS, "gtol": _TOLERANCE, "ftol": 1e-12}
    solved = minimize(loss, start.flatten(), jac=True, method="L-BFGS-B", options=limits)
    return np.asarray(solved.x.reshape(start.shape))


def balanced(targets: IntArray, classes: int) -> FloatArray:
    """Return weights that give every class that occurs the same sum; their mean is 1."""
    counts = np.bincount(targets, minlength=classes)
    return np.asarray(len(targets) / (np.count_nonzero(counts) * counts[targets]), np.float64)


def folds(groups: IntArray, count: int) -> IntArray:
    """Return the fold of each row: groups stay whole, the largest first into the emptiest fold."""
    sizes = np.bincount(groups)
    fold_of = np.zeros(len(sizes), np.intp)
    filled = np.zeros(count)
    for group in np.argsort(-sizes, kind="stable"):
        fold_of[group] = filled.argmin()
        filled[fold_of[group]] += sizes[group]
    return np.asarray(fold_of[groups])


def held_out(fold: IntArray, targets: IntArray) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield rows to learn from and rows to test, whose classes are among the former."""
    for number in range(int(fold.max()) + 1):
        taught_rows = np.flatnonzero(fold != number)
        tested = np.flatnonzero((fold == number) & np.isin(targets, targets[taught_rows]))
        if len(tested) and len(np.unique(targets[taught_rows])) > 1:
            yield taught_rows, tested


def temperature_of(logits: FloatArray, targets: IntArray) -> float:
    """Return what logits are divided by to be calibrated; few rows leave it near 1."""
    from scipy.optimize import minimize_scalar
    from scipy.special import log_softmax

    rows = np.arange(len(targets))

    def loss(log: float) -> float:
        chances = log_softmax(logits / np.exp(log), axis=1)
        return float(-chances[rows, targets].sum() + log**2 / 2)

    return float(np.exp(minimize_scalar(loss, bounds=(-4, 4), method="bounded").x))


def interval(correct: npt.NDArray[np.bool_], groups: IntArray) -> tuple[float, float]:
    """Return the 95 % interval of a share: Wilson's, of as many rows as the groups are worth.

    Rows of one group (image) are right or wrong together; the design effect of clusters says how
    many independent rows they are worth.
    """
    count = float(len(correct))
    share = float(correct.mean())
    _, group = np.unique(groups, return_inverse=True)
    several = int(group.max()) + 1
    if several > 1 and 0 < share < 1:
        surplus = np.bincount(group, correct - share)  # Right answers above the mean's, by group
        variance = several / (several - 1) * float(surplus @ surplus) / count**2
        count /= max(1.0, variance / (share * (1 - share) / count))
    z = 1.96
    middle = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z * np.sqrt(share * (1 - share) / count + z**2 / (4 * count**2)) / (1 + z**2 / count)
    return float(max(0.0, middle - half)), float(middle + half if share < 1 else 1.0)


def standard(inputs: FloatArray, width: int) -> tuple[FloatArray, FloatArray]:
    """Return centre and spread: embeddings, and all features together, get a mean square of 1."""
    centre = inputs.mean(0)
    deviation = inputs - centre
    spread = np.ones(inputs.shape[1])
    spread[:width] = 1 / max(float(np.sqrt((deviation[:, :width] ** 2).sum(1).mean())), 1e-12)
    if inputs.shape[1] > width:
        each = np.sqrt((deviation[:, width:] ** 2).mean(0))
        spread[width:] = np.where(each > 0, 1 / np.maximum(each, 1e-12), 0.0) / np.sqrt(len(each))
    return centre, spread


def product(inputs: FloatArray, learned: FloatArray) -> FloatArray:
    """Return the logits (N, classes) of a learned difference."""
    import torch

    # Not NumPy's product: its idle threads would slow the next inversion.
    weights = torch.from_numpy(np.ascontiguousarray(learned))
    logits = torch.from_numpy(np.ascontiguousarray(inputs)) @ weights[:, :-1].T + weights[:, -1]
    return np.asarray(logits.numpy())


def joined(embeddings: FloatArray, features: FloatArray | None) -> FloatArray:
    """Return embeddings with the features beside them."""
    if features is None:
        parts = [embeddings]
    else:
        parts = [embeddings, features]
    return np.hstack([np.asarray(part, np.float64) for part in parts])


def softmax(logits: FloatArray) -> FloatArray:
    """Return probabilities (N, classes)."""
    from scipy.special import softmax

    return np.asarray(softmax(logits, axis=1))


class Prior(NamedTuple):
    """How far fixed logits are trusted, by decisions, before anything is learned."""

    sure: float  # These are divided by it, to be calibrated; at least 1
    softer: float  # And by this while decisions teach
    strength: float


def prior_of(offsets: FloatArray, targets: IntArray) -> Prior:
    """Return how far fixed logits (N, fixed) are trusted, by decisions about their classes.

    Where logits are sure and right, a decision has no gradient, and only mistakes teach. So they
    are softened until most of the loss by chance is left. The larger the loss is without that, the
    weaker is the penalty on what is learned.
    """
    weights = balanced(targets, offsets.shape[1])
    chance = len(targets) * np.log(offsets.shape[1])
    sure = max(1.0, temperature_of(offsets, targets))

    def surplus(log: float) -> float:
        return float(_loss(offsets / (sure * np.exp(log)), targets, weights) - _HEARD * chance)

    left = surplus(0.0)
    if left < 0:
        from scipy.optimize import brentq

        return Prior(sure, float(np.exp(brentq(surplus, 0.0, _SOFTEST))), _GOOD_WORDS)
    share = 1.0
    if chance:
        share = min(1.0, left / ((1 - _HEARD) * chance))
    return Prior(sure, 1.0, float(_GOOD_WORDS * (_BAD_WORDS / _GOOD_WORDS) ** share))


@dataclass(frozen=True, slots=True)
class Task:
    """Decided regions, ready to be learned from; the logits of the first classes are fixed."""

    inputs: FloatArray
    offsets: FloatArray  # Calibrated
    targets: IntArray
    fixed: int
    prior: Prior
    classes_taught: Sequence[int] = ()  # Those that there were decisions about before

    def learned(
        self, rows: IntArray, strength: float, start: FloatArray | None = None
    ) -> FloatArray:
        """Return the difference that these rows teach; a start that is near takes fewer steps."""
        if start is None:
            start = np.zeros((self.offsets.shape[1], self.inputs.shape[1] + 1))
        targets = self.targets[rows]
        classes = self.offsets.shape[1]
        softer = self.prior.softer
        weights = balanced(targets, classes)
        free = range(self.fixed, classes)
        inputs = self.inputs[rows]
        soft = self.offsets[rows] / softer
        # Good words: what is learned says nothing against one without decisions. But the more
        # decisions there are and none is about it, the less likely it is: by their square root,
        # since users decide about some words before others.
        absent = (softer > 1) & ~np.isin(np.arange(classes), targets)
        soft = np.where(absent, -np.inf, soft)
        # Further classes have no words to fall back on: all that they learn counts.
        back = np.where(np.arange(classes) < self.fixed, max(1.0, _KEPT * softer), softer)[:, None]
        learned = back * minimise(inputs, soft, targets, weights, strength, start / back, free)
        absent[list(self.classes_taught)] = False
        learned[absent, -1] = -0.5 * np.log1p(len(targets) / len(np.unique(targets)))
        return learned

    def cross_validate(
        self, fold: IntArray, strengths: Sequence[float]
    ) -> tuple[FloatArray, float | None]:
        """Return logits of held-out regions (NaN: could not be held out) and the best strength."""
        logits = np.full((len(strengths), *self.offsets.shape), np.nan)
        for taught_rows, tested in held_out(fold, self.targets):
            learned = None
            for place, strength in enumerate(strengths):
                # Begins near, from the last one.
                learned = self.learned(taught_rows, strength, learned)
                difference = product(self.inputs[tested], learned)
                logits[place, tested] = self.offsets[tested] + difference
        rows = np.flatnonzero(np.isfinite(logits[0, :, 0]))
        if not len(rows):
            return logits[0], None
        targets = self.targets[rows]
        weights = balanced(targets, self.offsets.shape[1])
        # Each calibrated: else the strength would be chosen that is sure enough, not right.
        losses = []
        for logits_of_strength in logits[:, rows]:
            calibrated = logits_of_strength / temperature_of(logits_of_strength, targets)
            losses.append(_loss(calibrated, targets, weights))
        away = np.abs(np.log(np.array(strengths) / self.prior.strength))
        best = int(np.argmin(losses + _CAUTION * away))
        return logits[best], strengths[best]


def chosen_folds(targets: IntArray, groups: IntArray) -> tuple[str, IntArray]:
    """Return what is held out together, and the folds: of images where that tests anything."""
    images = int(groups.max()) + 1
    if images > 1:
        by_image = folds(groups, min(_FOLDS, images))
        if next(held_out(by_image, targets), None) is not None:
            return "images", by_image
    count = max(2, min(_FOLDS, int(np.bincount(targets).max())))
    fold = np.empty(len(targets), np.intp)
    fold[np.argsort(targets, kind="stable")] = np.arange(len(targets)) % count
    return "regions", fold


def _loss(logits: FloatArray, targets: IntArray, weights: FloatArray) -> float:
    from scipy.special import log_softmax

    chances = log_softmax(logits, axis=1)[np.arange(len(targets)), targets]
    return float(-(weights @ chances))
