"""Labels in order of how well they fit a region."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Ranking:
    """All labels of a vocabulary for one region, best first.

    Attributes
    ----------
    labels : tuple of str
    similarities : ndarray, shape (labels,), float32 in -1..1
        Cosine of region and label.
    probabilities : ndarray, shape (labels,), float32, sum 1
        Softmax of the similarities times the model's logit scale.
    """

    labels: tuple[str, ...]
    similarities: FloatArray
    probabilities: FloatArray

    @property
    def margin(self) -> float:
        """Best similarity less the second best; NaN for a single label."""
        if len(self.labels) < 2:
            return float("nan")
        return float(self.similarities[0] - self.similarities[1])


def rank(
    unit_embeddings: FloatArray, text: FloatArray, labels: Sequence[str], logit_scale: float
) -> list[Ranking]:
    """Rank labels for regions.

    Parameters
    ----------
    unit_embeddings : ndarray, shape (regions, e)
        L2 norm 1.
    text : ndarray, shape (labels, e)
        L2 norm 1.
    labels : sequence of str
    logit_scale : float
        The model's, exponentiated (about 100 for CLIP).

    Returns
    -------
    list of Ranking, one per region. Equal similarities keep the labels' order.
    """
    import torch

    # Torch's product: NumPy's threads would spin where the next inversion wants to compute.
    product = torch.from_numpy(np.ascontiguousarray(unit_embeddings)) @ torch.from_numpy(text).T
    similarities = product.float().numpy()
    logits = similarities.astype(np.float64) * logit_scale
    weights = np.exp(logits - logits.max(axis=1, keepdims=True))
    probabilities = (weights / weights.sum(axis=1, keepdims=True)).astype(np.float32)
    result = []
    for row, chances in zip(similarities, probabilities, strict=True):
        order = np.argsort(-row, kind="stable")
        result.append(Ranking(tuple(labels[i] for i in order), row[order], chances[order]))
    return result
