"""What decisions say: which can be learned from, how well, and what is not known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..base.wording import counted
from ..language.labels.vocabulary import NONE_OF_THESE
from .fitting import interval

FloatArray = npt.NDArray[np.floating]
IntArray = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class ClassScore:
    """How many held-out regions got their class back."""

    regions: int  # Scored ones
    accuracy: float  # Share of them that is right
    low: float  # 95 % interval
    high: float

    @property
    def texts(self) -> tuple[str, str]:
        """The share and its interval for people."""
        return f"{100 * self.accuracy:.0f} %", f"{100 * self.low:.0f} to {100 * self.high:.0f} %"


@dataclass(frozen=True, slots=True)
class Scores:
    """Accuracy on regions that were not learned from."""

    all: ClassScore
    words: float  # Accuracy of the words alone on the same regions
    classes: dict[str, ClassScore]  # By class; those that could not be scored are missing
    over: str  # What was held out together: "images" or "regions"

    @property
    def summary(self) -> str:
        """One line for people."""
        right, interval = self.all.texts
        return (
            f"Right on {self.over} that were held out: {right} of {self.all.regions} regions "
            f"(95 %: {interval}); the words alone: {100 * self.words:.0f} %"
        )


def usable(embeddings: FloatArray, names: Sequence[str]) -> tuple[IntArray, tuple[str, ...]]:
    """Return the rows to learn from, and a line for each kind that is left out."""
    finite = np.isfinite(embeddings).all(1)
    by_region: dict[bytes, set[str]] = {}
    keys = [row.tobytes() for row in np.ascontiguousarray(embeddings, np.float32)]
    for key, name in zip(keys, names, strict=True):
        by_region.setdefault(key, set()).add(name)
    clear = np.array([len(by_region[key]) == 1 for key in keys], bool)
    notes = []
    if not finite.all():
        notes.append(
            f"Left out {counted(int((~finite).sum()), 'region')} whose embeddings are not "
            f"finite (the first one: number {int(np.argmin(finite)) + 1}); run the images again."
        )
    if not clear[finite].all():
        row = int(np.argmin(clear | ~finite))
        both = " and ".join(map(repr, sorted(by_region[keys[row]])))
        notes.append(
            f"Left out {np.count_nonzero(~clear & finite)} decisions that contradict one another: "
            f"the same region is {both}."
        )
    return np.flatnonzero(finite & clear), tuple(notes)


def cautions(
    seen: Sequence[str],
    names: Sequence[str],
    groups: IntArray,
    over: str,
    scores: Scores | None,
) -> tuple[str, ...]:
    """Return a line about each thing that the accuracy does not tell."""
    notes = []
    scored = {} if scores is None else scores.classes
    alone = [name for name in seen if name not in scored]
    single = [name for name in alone if names.count(name) == 1]
    if single:
        listed = ", ".join(map(repr, single))
        notes.append(f"One decision only, so nothing is known about its accuracy: {listed}")
    if in_one_image := [name for name in alone if name not in single]:
        listed = ", ".join(map(repr, in_one_image))
        notes.append(f"In one image only, so nothing is known about its accuracy: {listed}")
    if scores is not None and over == "regions":
        images = "images that share no class"
        if groups.max() == 0:
            images = "one image"
        notes.append(
            f"The decisions come from {images}: accuracy was measured on other regions of the same "
            "images, and is lower on new ones."
        )
    return tuple(notes)


def doubtful(chances: FloatArray, targets: IntArray) -> IntArray:
    """Return the rows whose class held-out probabilities contradict, the worst first.

    Confident learning (arXiv:1911.00068): a region counts for the class that it most likely is
    among those whose probability is at least their mean over the regions of the class. A class
    whose regions count for others has so many wrong labels; they are those with the greatest
    margins between that class and their own. Rows that were not held out are NaN.
    """
    rows = np.flatnonzero(np.isfinite(chances).all(1))
    shares = chances[rows]
    labels = targets[rows]
    classes = np.unique(labels)
    limits = np.full(shares.shape[1], np.inf)
    limits[classes] = [shares[labels == label, label].mean() for label in classes]
    confident = np.where(shares >= limits - 1e-6, shares, 0.0)
    is_clear = confident.any(1)
    joint = np.zeros((shares.shape[1],) * 2)
    np.add.at(joint, (labels[is_clear], confident[is_clear].argmax(1)), 1)
    for label in classes:  # as many as there are regions of the class
        joint[label] *= (labels == label).sum() / max(joint[label].sum(), 1)
    best = shares.copy()
    best[np.arange(len(rows)), labels] = -1
    margins = shares[np.arange(len(rows)), labels] - best.max(1)
    chosen: list[int] = []
    for label in classes:
        wrong_count = round(joint[label].sum() - joint[label, label])
        of_class = np.flatnonzero((labels == label) & (shares.argmax(1) != labels))
        chosen += of_class[np.argsort(margins[of_class], kind="stable")][:wrong_count].tolist()
    order = np.array(chosen, np.intp)
    return np.asarray(rows[order[np.argsort(margins[order], kind="stable")]])


def doubt_text(where: str, label: str | None, looks_like: str) -> str:
    """Return a line about a decision that looks wrong."""
    return f"{where} ({label or NONE_OF_THESE}, looks like {looks_like})"


def score(
    right: npt.NDArray[np.bool_],
    by_words: npt.NDArray[np.bool_],
    names: npt.NDArray[np.str_],
    groups: IntArray,
    over: str,
) -> Scores:
    """Return the accuracy on held-out regions: which are right, and which by words alone."""

    def of(rows: npt.NDArray[np.bool_]) -> ClassScore:
        low, high = interval(right[rows], groups[rows])
        return ClassScore(int(rows.sum()), float(right[rows].mean()), low, high)

    classes = {str(name): of(names == name) for name in dict.fromkeys(names.tolist())}
    return Scores(of(np.ones(len(right), bool)), float(by_words.mean()), classes, over)
