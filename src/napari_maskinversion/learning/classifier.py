"""A classifier of regions: the words, plus what decisions teach."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Self

import numpy as np
import numpy.typing as npt

from ..base.errors import InputError
from ..language.labels.vocabulary import NONE_OF_THESE
from .fitting import balanced, folds, held_out, interval, minimise, temperature_of

FloatArray = npt.NDArray[np.floating]
IntArray = npt.NDArray[np.intp]

STRENGTHS: Final = (0.1, 1.0, 10.0, 100.0)  # Tried by cross-validation, the most cautious first
STRENGTH: Final = 1.0  # Where decisions are too few for it
_FOLDS: Final = 5


@dataclass(frozen=True, slots=True)
class ClassScore:
    """How many held-out regions got their class back."""

    regions: int  # Scored ones
    accuracy: float  # Share of them that is right
    low: float  # 95 % interval
    high: float


@dataclass(frozen=True, slots=True)
class Scores:
    """Accuracy on regions that were not learned from."""

    all: ClassScore
    words: float  # Accuracy of the words alone on the same regions
    classes: dict[str, ClassScore]  # By class; those that could not be scored are missing
    over: str  # What was held out together: "images" or "regions"


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Classifier:
    """Logistic regression on unit embeddings that begins as the words' ranking.

    The logits of a class are those of its word (cosine times the model's logit scale; of several
    synonyms, the best) plus a learned difference. Without decisions they are the words'.

    Shapes: texts (synonyms, e); learned (classes, e + features + 1), the bias last; centre, spread
    (e + features,).
    """

    words: tuple[str, ...]
    texts: FloatArray  # Unit text embeddings of the words and their synonyms
    owners: tuple[int, ...]  # Which word a text is of
    scale: float  # The model's logit scale
    classes: tuple[str, ...]  # The words, and "none of these" once regions were rejected
    learned: FloatArray
    centre: FloatArray  # Subtracted from inputs of the learned part,
    spread: FloatArray  # which are then multiplied by this
    temperature: float = 1.0  # Logits are divided by it, to be calibrated
    strength: float = 0.0  # How far decisions may lead away from the words; 0: no decision
    counts: dict[str, int] = field(default_factory=dict)  # Decisions by class
    scores: Scores | None = None
    notes: tuple[str, ...] = ()  # What the user should know about the decisions
    # Of decided regions, by row of `fit`: probabilities by classifiers that did not see them
    held_out: FloatArray | None = None

    @classmethod
    def of_words(
        cls,
        words: Sequence[str],
        texts: FloatArray,
        scale: float,
        owners: Sequence[int] | None = None,
    ) -> Self:
        """Create a classifier without decisions: the ranking by words."""
        inputs = texts.shape[1]
        return cls(
            words=tuple(words),
            texts=np.asarray(texts, np.float32),
            owners=tuple(range(len(words)) if owners is None else owners),
            scale=scale,
            classes=tuple(words),
            learned=np.zeros((len(words), inputs + 1)),
            centre=np.zeros(inputs),
            spread=np.ones(inputs),
        )

    def fit(
        self,
        embeddings: FloatArray,
        labels: Sequence[str | None],
        groups: Sequence[str | int],
        *,
        features: FloatArray | None = None,
        strength: float | None = None,
        validate: bool = True,
    ) -> Self:
        """Return the classifier of these words that learned from these decisions only.

        ``labels`` has a word for each region, or None where it is none of these; ``groups`` has its
        image. Without ``strength``, cross-validation chooses it; without ``validate``, nothing is
        held out, and there are no scores.

        Shapes: embeddings (N, e), unit norm; features (N, f).
        """
        from ..engine.compute.compute_lock import end_threads

        names = [NONE_OF_THESE if label is None else label for label in labels]
        if missing := sorted({*names} - {*self.words, NONE_OF_THESE}):
            raise InputError(
                f"{missing[0]!r} was decided, but is not among the words; add it to them."
            )
        kept, notes = _usable(embeddings, names)
        names = [names[row] for row in kept]
        seen = [name for name in (*self.words, NONE_OF_THESE) if name in set(names)]
        if not kept.size:
            return replace(self, notes=notes)
        if len(seen) < 2:
            raise InputError(
                f"All {len(kept)} decisions are {seen[0]!r}: there is nothing to tell apart. "
                "Accept another word, too, or reject some regions."
            )
        classes = self.words + (NONE_OF_THESE,) * (NONE_OF_THESE in seen)
        targets = np.array([classes.index(name) for name in names])
        inputs = _joined(embeddings, features)[kept]
        group = np.unique([str(groups[row]) for row in kept], return_inverse=True)[1]
        begun = replace(self, classes=classes, **_standard(inputs, self.texts.shape[1]))
        task = _Task(begun, begun._inputs(inputs), begun._offsets(inputs), targets)
        held, scores = None, None
        if validate:
            over, fold = _folds(targets, group)
            logits, strength = task.cross_validate(fold, strength)
            tested = np.isfinite(logits[:, 0])
            if tested.any():
                scores = _scores(task, logits, tested, group, over)
                begun = replace(begun, temperature=temperature_of(logits[tested], targets[tested]))
            held = np.full((len(labels), len(classes)), np.nan)
            held[kept] = _softmax(logits / begun.temperature)
            notes += _cautions(seen, names, group, over, scores)
        strength = STRENGTH if strength is None else strength
        learned = task.learned(np.arange(len(targets)), strength, begun._start(task.offsets))
        end_threads()
        return replace(
            begun,
            learned=learned,
            strength=strength,
            counts={name: names.count(name) for name in seen},
            scores=scores,
            notes=notes,
            held_out=held,
        )

    def with_words(
        self, words: Sequence[str], texts: FloatArray, owners: Sequence[int] | None = None
    ) -> Self:
        """Return a classifier that knows further words, as the words they are."""
        count = len(self.words)
        number = range(len(words)) if owners is None else owners
        new = (*self.words, *words)
        if len(set(new)) < len(new):
            raise InputError("These words are among the classifier's already.")
        return replace(
            self,
            words=new,
            texts=np.vstack([self.texts, np.asarray(texts, np.float32)]),
            owners=(*self.owners, *(count + one for one in number)),
            classes=(*new, *self.classes[count:]),
            learned=np.insert(self.learned, [count] * len(words), 0.0, axis=0),
        )

    def logits(self, embeddings: FloatArray, features: FloatArray | None = None) -> FloatArray:
        """Return the calibrated logits, (N, classes)."""
        inputs = _joined(embeddings, features)
        if inputs.shape[1] != len(self.centre):
            raise InputError(
                f"The classifier takes {len(self.centre)} numbers a region; got {inputs.shape[1]}."
            )
        return (self._offsets(inputs) + _product(self._inputs(inputs), self.learned)) / (
            self.temperature
        )

    def probabilities(
        self, embeddings: FloatArray, features: FloatArray | None = None
    ) -> npt.NDArray[np.float32]:
        """Return the probabilities of the classes, (N, classes); rows sum to 1."""
        from ..engine.compute.compute_lock import end_threads

        chances = _softmax(self.logits(embeddings, features))
        end_threads()
        return np.asarray(chances, np.float32)

    def _inputs(self, inputs: FloatArray) -> FloatArray:
        return (inputs - self.centre) * self.spread

    def _offsets(self, inputs: FloatArray) -> FloatArray:
        """Logits of the words; 0 for none of these."""
        import torch

        embeddings = torch.from_numpy(inputs[:, : self.texts.shape[1]].astype(np.float32))
        cosines = (embeddings @ torch.from_numpy(self.texts).T).numpy().astype(np.float64)
        offsets = np.zeros((len(inputs), len(self.classes)))
        for word in range(len(self.words)):
            own = [place for place, owner in enumerate(self.owners) if owner == word]
            offsets[:, word] = cosines[:, own].max(1) * self.scale
        return offsets

    def _start(self, offsets: FloatArray) -> npt.NDArray[np.float64]:
        """No difference; none of these is as likely as all words together are on average."""
        start = np.zeros((len(self.classes), len(self.centre) + 1))
        if len(self.classes) > len(self.words):
            from scipy.special import logsumexp

            start[-1, -1] = logsumexp(offsets[:, : len(self.words)], axis=1).mean()
        return start


@dataclass(frozen=True, slots=True)
class _Task:
    """Decided regions, ready to be learned from."""

    classifier: Classifier
    inputs: FloatArray
    offsets: FloatArray
    targets: IntArray

    def learned(
        self, rows: IntArray, strength: float, start: npt.NDArray[np.float64]
    ) -> npt.NDArray[np.float64]:
        classes, words = self.classifier.classes, self.classifier.words
        targets = self.targets[rows]
        weights = balanced(targets, len(classes))
        free = [*range(len(words), len(classes))]
        return minimise(
            self.inputs[rows], self.offsets[rows], targets, weights, strength, start, free
        )

    def cross_validate(
        self, fold: IntArray, strength: float | None
    ) -> tuple[npt.NDArray[np.float64], float]:
        """Return logits of held-out regions (NaN: could not be held out) and the best strength."""
        tried = STRENGTHS if strength is None else (strength,)
        logits = np.full((len(tried), *self.offsets.shape), np.nan)
        for known, tested in held_out(fold, self.targets):
            learned = self.classifier._start(self.offsets[known])
            for place, one in enumerate(tried):
                learned = self.learned(known, one, learned)  # Begins near, from the last one
                logits[place, tested] = self.offsets[tested] + _product(
                    self.inputs[tested], learned
                )
        tested = np.flatnonzero(np.isfinite(logits[0, :, 0]))
        if not len(tested):
            return logits[0], STRENGTH if strength is None else strength
        targets = self.targets[tested]
        weights = balanced(targets, self.offsets.shape[1])
        losses = [_loss(one[tested], targets, weights) for one in logits]
        best = int(np.argmin(losses))
        return logits[best], tried[best]


def _folds(targets: IntArray, groups: IntArray) -> tuple[str, IntArray]:
    """Return what is held out together, and the folds: of images where that tests anything."""
    images = int(groups.max()) + 1
    if images > 1:
        by_image = folds(targets, groups, min(_FOLDS, images))
        if next(held_out(by_image, targets), None) is not None:
            return "images", by_image
    count = min(_FOLDS, int(np.bincount(targets).max()))
    return "regions", folds(targets, np.zeros_like(groups), max(2, count))


def _usable(embeddings: FloatArray, names: Sequence[str]) -> tuple[IntArray, tuple[str, ...]]:
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
            f"Left out {np.count_nonzero(~finite)} regions whose embeddings are not finite "
            f"(the first one: number {int(np.argmin(finite)) + 1}); run their images again."
        )
    if not clear[finite].all():
        row = int(np.argmin(clear | ~finite))
        both = " and ".join(map(repr, sorted(by_region[keys[row]])))
        notes.append(
            f"Left out {np.count_nonzero(~clear & finite)} decisions that contradict one another: "
            f"the same region is {both}."
        )
    return np.flatnonzero(finite & clear), tuple(notes)


def _cautions(
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
    if rest := [name for name in alone if name not in single]:
        listed = ", ".join(map(repr, rest))
        notes.append(f"In one image only, so nothing is known about its accuracy: {listed}")
    if scores is not None and over == "regions":
        images = "one image" if groups.max() == 0 else "images that share no class"
        notes.append(
            f"The decisions come from {images}: accuracy was measured on other regions of the same "
            "images, and is lower on new ones."
        )
    return tuple(notes)


def _scores(
    task: _Task,
    logits: FloatArray,
    tested: npt.NDArray[np.bool_],
    groups: IntArray,
    over: str,
) -> Scores:
    targets, groups = task.targets[tested], groups[tested]
    words = task.offsets[tested][:, : len(task.classifier.words)].argmax(1)
    right = logits[tested].argmax(1) == targets

    def score(rows: npt.NDArray[np.bool_]) -> ClassScore:
        low, high = interval(right[rows], groups[rows])
        return ClassScore(int(rows.sum()), float(right[rows].mean()), low, high)

    return Scores(
        score(np.ones(len(targets), bool)),
        float((words == targets).mean()),
        {task.classifier.classes[one]: score(targets == one) for one in np.unique(targets)},
        over,
    )


def _standard(inputs: FloatArray, width: int) -> dict[str, FloatArray]:
    """Return centre and spread: embeddings, and all features together, get a mean square of 1."""
    centre = inputs.mean(0)
    deviation = inputs - centre
    spread = np.ones(inputs.shape[1])
    spread[:width] = 1 / max(float(np.sqrt((deviation[:, :width] ** 2).sum(1).mean())), 1e-12)
    if inputs.shape[1] > width:
        each = np.sqrt((deviation[:, width:] ** 2).mean(0))
        spread[width:] = np.where(each > 0, 1 / np.maximum(each, 1e-12), 0.0) / np.sqrt(len(each))
    return {"centre": centre, "spread": spread}


def _joined(embeddings: FloatArray, features: FloatArray | None) -> FloatArray:
    parts = [embeddings] if features is None else [embeddings, features]
    return np.hstack([np.asarray(one, np.float64) for one in parts])


def _product(inputs: FloatArray, learned: FloatArray) -> FloatArray:
    import torch

    # Not NumPy's product: its idle threads would slow the next inversion.
    weights = torch.from_numpy(np.ascontiguousarray(learned))
    logits = torch.from_numpy(np.ascontiguousarray(inputs)) @ weights[:, :-1].T + weights[:, -1]
    return np.asarray(logits.numpy())


def _softmax(logits: FloatArray) -> FloatArray:
    from scipy.special import softmax

    return np.asarray(softmax(logits, axis=1))


def _loss(logits: FloatArray, targets: IntArray, weights: FloatArray) -> float:
    from scipy.special import log_softmax

    chances = log_softmax(logits, axis=1)[np.arange(len(targets)), targets]
    return float(-(weights @ chances))
