"""Decided regions as a classifier learns from them, wherever they are kept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from ..base.identity import RegionKey
from .classifier import Classifier
from .features import HasMeasures, measured

FloatArray = npt.NDArray[np.float32]
IntArray = npt.NDArray[np.intp]
RegionOfImage = tuple[str, RegionKey]  # Hash of the image, and its region
LabelledEmbedding = tuple[FloatArray, str]  # Unit embedding, and the accepted word


class TrainingSample(NamedTuple):
    """A decided region."""

    embedding: FloatArray  # (e,), of length 1
    label: str | None  # None: it was rejected, so it teaches "none of these"
    image_hash: str  # Accuracy is measured on images that were held out
    key: RegionKey
    measures: HasMeasures


class FittedSamples(NamedTuple):
    """A classifier, and which samples it learned from."""

    classifier: Classifier
    kept: IntArray  # Samples that have the measures that it learned from


def fit_samples(
    untrained: Classifier, samples: Sequence[TrainingSample], kinds: Sequence[str] = ()
) -> FittedSamples:
    """Learn from samples, and from measures of these kinds, see `kinds_of`."""
    names, kept, features, left_out = measured(kinds, [sample.measures for sample in samples])
    classifier = fit_embeddings(
        untrained, [samples[row] for row in kept], features=features, names=names
    )
    return FittedSamples(replace(classifier, notes=(*left_out, *classifier.notes)), kept)


def fit_embeddings(
    untrained: Classifier,
    samples: Sequence[TrainingSample],
    *,
    features: npt.NDArray[np.float64] | None = None,
    names: Sequence[str] = (),
    validate: bool = True,
) -> Classifier:
    """Learn from samples and features of them, see `Classifier.fit`."""
    vectors = np.array([sample.embedding for sample in samples], np.float32)
    labels = [sample.label for sample in samples]
    image_hashes = [sample.image_hash for sample in samples]
    return untrained.fit(
        vectors.reshape(-1, untrained.texts.shape[1]),
        labels,
        image_hashes,
        features=features,
        names=names,
        validate=validate,
    )
