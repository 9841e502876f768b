"""A classifier of regions: the words, plus what decisions teach."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from ..base.errors import InputError
from ..language.labels.learned import SUFFIX
from ..language.labels.vocabulary import NONE_OF_THESE, Vocabulary
from ..language.ranking.ranking import Ranking, cosines
from . import fitting
from .classifier_file import read, write
from .evidence import Scores, cautions, doubtful, score, usable
from .features import HasMeasures, features_of

FloatArray = npt.NDArray[Any]
IntArray = npt.NDArray[np.intp]

# Tried by cross-validation, the most cautious first
STRENGTHS: Final = (0.05, 0.1, 0.2, 0.5, 1.0, 3.0, 10.0)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Classifier:
    """Logistic regression on unit embeddings that begins as the words' ranking.

    The logits of a class are those of its word (cosine times the model's logit scale; of several
    synonyms, the best) plus a learned difference. Without decisions they are the words'.
    `Library.train` makes one of decisions; a file of it is a list of words wherever one is taken.

    Examples
    --------
    >>> classifier = Library.open("cells").train()
    >>> print(classifier.summary)
    >>> file = classifier.save("cells.safetensors")
    >>> results = label_regions(rgb, masks, labels=str(file))

    Shapes: texts (synonyms, e); learned (classes, e + features + 1), the bias last; centre, spread
    (e + features,).
    """

    vocabulary: Vocabulary  # The words, with synonyms, prompts and colours
    texts: FloatArray  # Of words and synonyms; norms are 1, or less if they were sure and wrong
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
    doubts: tuple[str, ...] = ()  # Decisions that may be wrong, a line each, the worst first
    features: tuple[str, ...] = ()  # What it takes besides embeddings, see `features`
    space: str = ""  # What the embeddings were computed with, see `Space.about`; "": unknown

    @property
    def words(self) -> tuple[str, ...]:
        """The words, without "none of these"."""
        return self.vocabulary.labels

    @classmethod
    def of_words(
        cls,
        words: Vocabulary | Sequence[str],
        texts: FloatArray,
        scale: float,
        space: str = "",
    ) -> Self:
        """Create a classifier without decisions: the ranking by words.

        Parameters
        ----------
        words : Vocabulary or sequence of str
            The words.
        texts : ndarray, shape (words and synonyms, e)
            Their unit text embeddings.
        scale : float
            The model's logit scale.
        space : str
            What the embeddings were computed with; "": anything.

        Returns
        -------
        Classifier
        """
        if isinstance(words, Vocabulary):
            vocabulary = words
        else:
            vocabulary = Vocabulary(tuple(words))
        inputs = texts.shape[1]
        return cls(
            vocabulary=vocabulary,
            space=space,
            texts=np.asarray(texts, np.float32),
            scale=scale,
            classes=vocabulary.labels,
            learned=np.zeros((len(vocabulary.labels), inputs + 1)),
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
        names: Sequence[str] = (),
        validate: bool = True,
    ) -> Self:
        """Return a classifier that begins as this one and learned from these decisions.

        Parameters
        ----------
        embeddings : ndarray, shape (N, e)
            Of L2 norm 1.
        labels : sequence of str or None
            The word of each region, or a synonym of it; None: none of these.
        groups : sequence
            The image of each region: images are held out as a whole.
        features : ndarray, shape (N, f), optional
            Numbers to learn from besides.
        names : sequence of str
            What these are; runs compute those of ``Library.train``.
        validate : bool
            Hold regions out, to choose the strength, calibrate and measure ``scores``.

        Returns
        -------
        Classifier
            With ``scores``, and ``notes`` about what was left out and what is not known.

        Raises
        ------
        InputError
            If there is one class only, or a label is not among the words.
        """
        from ..engine.compute.compute_lock import end_threads

        wanted = self._names(labels)
        if missing := sorted({*wanted} - {*self.words, NONE_OF_THESE}):
            raise InputError(
                f"{missing[0]!r} was decided, but is not among the words; add it to them."
            )
        kept, notes = usable(embeddings, wanted)
        of_kept = [wanted[row] for row in kept]
        seen = []
        for name in (*self.words, NONE_OF_THESE):
            if name in set(of_kept):
                seen.append(name)
        if not kept.size:
            return replace(self, notes=notes)
        if len(seen) < 2:
            raise InputError(
                f"All {len(kept)} decisions are {seen[0]!r}: there is nothing to tell apart. "
                "Accept another word, too, or reject some regions."
            )
        inputs = fitting.joined(embeddings, features)[kept]
        start = self._with_classes(inputs, (NONE_OF_THESE,) if NONE_OF_THESE in seen else ())
        targets = np.array([start.classes.index(name) for name in of_kept])
        group = np.unique([str(groups[row]) for row in kept], return_inverse=True)[1]
        offsets = start._logits(inputs)
        words = len(self.words)
        fixed = len(self.classes)
        is_fixed = targets < fixed
        prior = fitting.prior_of(offsets[is_fixed, :fixed], targets[is_fixed])
        start = start._divided(prior.sure)
        classes_taught = []
        for place, name in enumerate(start.classes):
            if name in self.counts:
                classes_taught.append(place)
        calibrated = offsets / prior.sure
        task = fitting.Task(
            start._inputs(inputs), calibrated, targets, fixed, prior, classes_taught
        )
        held = None
        scores = None
        strength = prior.strength
        if validate:
            over, fold = fitting.chosen_folds(targets, group)
            logits, best = task.cross_validate(fold, STRENGTHS)
            strength = best or strength
            tested = np.isfinite(logits[:, 0])
            if tested.any():
                by_words = offsets[tested, :words].argmax(1) == targets[tested]
                right = logits[tested].argmax(1) == targets[tested]
                scores = score(right, by_words, np.array(of_kept)[tested], group[tested], over)
                temperature = fitting.temperature_of(logits[tested], targets[tested])
                start = replace(start, temperature=temperature)
            held = np.full((len(labels), len(start.classes)), np.nan)
            held[kept] = fitting.softmax(logits / start.temperature)
            notes += cautions(seen, of_kept, group, over, scores)
        every = np.arange(len(targets))
        learned = task.learned(every, strength)
        end_threads()
        return replace(
            start,
            features=tuple(names),
            learned=start.learned + learned,
            strength=strength,
            counts=self.counts | {name: of_kept.count(name) for name in seen},
            scores=scores,
            notes=notes,
            held_out=held,
        )

    @property
    def summary(self) -> str:
        """One line about its accuracy."""
        if self.scores is None:
            return "Too few decisions to measure the accuracy: accept more regions of each word."
        return self.scores.summary

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Return a table for people: class, decisions, share that is right, its interval."""
        scored = {} if self.scores is None else self.scores.classes
        return [
            (name, str(count), *(scored[name].texts if name in scored else ("", "")))
            for name, count in self.counts.items()
        ]

    def doubtful(self, labels: Sequence[str | None]) -> list[tuple[int, str]]:
        """Return the rows of `fit` that look wrong, and what they look like; the worst first."""
        if self.held_out is None:
            return []
        names = self._names(labels)
        column = {name: place for place, name in enumerate(self.classes)}
        # A class all of whose decisions were left out is none; their rows are NaN.
        targets = np.array([column.get(name, 0) for name in names], np.intp)
        rows = doubtful(self.held_out, targets).tolist()
        return [(row, self.classes[int(self.held_out[row].argmax())]) for row in rows]

    def with_words(self, words: Vocabulary | Sequence[str], texts: FloatArray) -> Self:
        """Return a classifier that knows further words, as the words they are.

        Parameters
        ----------
        words : Vocabulary or sequence of str
            The words.
        texts : ndarray, shape (words and synonyms, e)
            Their unit text embeddings.

        Returns
        -------
        Classifier
        """
        count = len(self.words)
        if isinstance(words, Vocabulary):
            new = words
        else:
            new = Vocabulary(tuple(words))
        labels = (*self.vocabulary.full_labels, *new.full_labels)
        vocabulary = Vocabulary.of(labels, self.vocabulary.templates)
        return replace(
            self,
            vocabulary=vocabulary,
            texts=np.vstack([self.texts, np.linalg.norm(self.texts[0]) * texts], dtype=np.float32),
            classes=(*vocabulary.labels, *self.classes[count:]),
            learned=np.insert(self.learned, [count] * len(new.labels), 0.0, axis=0),
        )

    def rank(
        self,
        embeddings: FloatArray,
        labels: Sequence[str],
        unknown: Collection[str] = (),
        regions: Iterable[HasMeasures] = (),
        threshold: float | None = None,
        *,
        rejects: bool = False,
    ) -> list[Ranking]:
        """Rank some of the classes for regions.

        The similarity of a class is its logit over the model's logit scale: the cosine of its word
        plus what was learned. ``regions`` are for classifiers that learned measures of them; one
        that is missing counts as the mean. With ``rejects`` the rankings say where "none of these"
        is likelier than all labels, though it is none of them.
        """
        columns = [self.classes.index(label) for label in labels]
        every = self.logits(embeddings, self.features_of(regions))
        logits = every[:, columns]
        is_none = np.zeros(len(every), bool)
        if rejects and NONE_OF_THESE in self.classes:
            is_none = every[:, self.classes.index(NONE_OF_THESE)] > logits.max(1)
        chances = fitting.softmax(logits)
        similarities = (logits * (self.temperature / self.scale)).astype(np.float32)
        orders = np.argsort(-logits, axis=1, kind="stable")
        names = np.array(labels, object)
        still_unknown = frozenset(unknown) - self.counts.keys()
        return [
            Ranking(
                tuple(names[order].tolist()),
                row[order],
                shares[order].astype(np.float32),
                threshold,
                unknown=still_unknown,
                is_none=none_is_best,
            )
            for order, row, shares, none_is_best in zip(
                orders, similarities, chances, is_none.tolist(), strict=True
            )
        ]

    def features_of(self, regions: Iterable[HasMeasures]) -> FloatArray | None:
        """Return the features of regions that it takes; None if it takes none."""
        if not self.features:
            return None
        features = features_of(regions, self.features)
        return np.where(np.isnan(features), self.centre[-len(self.features) :], features)

    def logits(self, embeddings: FloatArray, features: FloatArray | None = None) -> FloatArray:
        """Return the calibrated logits, (N, classes)."""
        from ..engine.compute.compute_lock import end_threads

        logits = self._logits(fitting.joined(embeddings, features)) / self.temperature
        end_threads()
        return logits

    def probabilities(
        self, embeddings: FloatArray, features: FloatArray | None = None
    ) -> npt.NDArray[np.float32]:
        """Compute the probability of each class.

        Parameters
        ----------
        embeddings : ndarray, shape (N, e)
            Of L2 norm 1.
        features : ndarray, shape (N, f), optional
            As in `fit`.

        Returns
        -------
        ndarray, shape (N, classes), float32
            In the order of ``classes``; rows sum to 1.
        """
        return np.asarray(fitting.softmax(self.logits(embeddings, features)), np.float32)

    @property
    def content_hash(self) -> str:
        """The hash of everything that its ranking depends on."""
        digest = hashlib.sha256(repr((self.classes, self.features, self.space)).encode())
        digest.update(repr((self.scale, self.temperature)).encode())
        for array in (self.texts, self.learned, self.centre, self.spread):
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def save(self, path: str | Path, *, overwrite: bool = False) -> Path:
        """Write a file, whole or not at all.

        Parameters
        ----------
        path : str or Path
            Where to; ``.safetensors`` is added unless it ends so.
        overwrite : bool
            Replace a file.

        Returns
        -------
        Path
            The file.
        """
        file = Path(path)
        if file.suffix.lower() != SUFFIX:
            file = file.with_name(file.name + SUFFIX)
        if file.exists() and not overwrite:
            raise InputError(f"{file} exists; choose another name, or say to overwrite it.")
        write(file, {field.name: getattr(self, field.name) for field in fields(self)})
        return file

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read a file that `save` wrote.

        Parameters
        ----------
        path : str or Path
            The file.

        Returns
        -------
        Classifier
            Without what only training knows, ``held_out`` and ``doubts``.

        Raises
        ------
        InputError
            If it is damaged, of another version, or something else.
        """
        return cls(**read(Path(path)))

    def _names(self, labels: Sequence[str | None]) -> list[str]:
        """Return the classes of decisions: a synonym counts for its word."""
        names = {}
        for label in self.vocabulary.full_labels:
            for word in label.words:
                names[word] = label.name
        return [NONE_OF_THESE if name is None else names.get(name, name) for name in labels]

    def _with_classes(self, inputs: FloatArray, more: tuple[str, ...]) -> Self:
        """Return the same classifier, not yet calibrated, with more classes; these are inputs."""
        classes = tuple(dict.fromkeys((*self.classes, *more)))
        extended = self
        if not self.learned.any():
            centre, spread = fitting.standard(inputs, self.texts.shape[1])
            extended = replace(self, centre=centre, spread=spread)
        learned = np.zeros((len(classes), inputs.shape[1] + 1))
        extended = replace(extended, classes=classes, learned=learned, temperature=1.0)
        extended._check(inputs)
        if self.learned.any():
            learned[: len(self.learned)] = self.learned
        return extended._divided(self.temperature)

    def _divided(self, by: float) -> Self:
        return replace(self, texts=self.texts / np.float32(by), learned=self.learned / by)

    def _check(self, inputs: FloatArray) -> None:
        if inputs.shape[1] != len(self.centre):
            raise InputError(
                f"The classifier takes {len(self.centre)} numbers a region; got {inputs.shape[1]}."
            )

    def _logits(self, inputs: FloatArray) -> FloatArray:
        self._check(inputs)
        embeddings = inputs[:, : self.texts.shape[1]].astype(np.float32)
        by_words = self.scale * cosines(embeddings, self.texts, self.vocabulary.owners).astype(
            float
        )
        offsets = np.pad(by_words, ((0, 0), (0, len(self.classes) - len(self.words))))
        return offsets + fitting.product(self._inputs(inputs), self.learned)

    def _inputs(self, inputs: FloatArray) -> FloatArray:
        return (inputs - self.centre) * self.spread
