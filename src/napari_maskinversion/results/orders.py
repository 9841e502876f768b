"""Orders of regions, for tables, the review, the gallery and searches.

Each function returns the rows of regions, the one that comes first at the front. Equal ones stay in
the order of their rows, and those whose number is not known (NaN) come last.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]
Numbers = npt.NDArray[np.floating]
Vectors = npt.NDArray[np.float16] | FloatArray
Rows = npt.NDArray[np.intp]
Order = Literal["given", "different", "margin", "entropy", "smallest", "largest", "label"]
"""The orders of a review; `most_similar` is that of a search."""

# What a product of unit vectors in half precision, summed in single precision, can be off: the
# query is rounded (2**-11 of its length at most), and so is the sum (2**-12).
ROUNDING_OF_HALVES: Final = 0.001
# Regions that `different_first` tells apart; the others follow by margin.
_MOST_TOLD_APART: Final = 100


# -- by a number or a word -------------------------------------------------------------------------


def smallest_first(numbers: npt.ArrayLike) -> Rows:
    """Order by a number: a size, or a margin, where the least certain region comes first."""
    return np.argsort(np.asarray(numbers, np.float64), kind="stable")


def largest_first(numbers: npt.ArrayLike) -> Rows:
    """Order by a number, the largest first: an entropy, a confidence, or a similarity."""
    return smallest_first(-np.asarray(numbers, np.float64))


def by_word(ranks: npt.ArrayLike, certainties: npt.ArrayLike) -> Rows:
    """Order by the rank of each region's word; of one word, the least certain comes first."""
    return np.lexsort((np.asarray(certainties, np.float64), np.asarray(ranks)))


def alphabetical_ranks(words: npt.NDArray[np.object_]) -> Rows:
    """Return the rank of each word in the alphabet."""
    return np.unique(words, return_inverse=True)[1]


# -- by embeddings ---------------------------------------------------------------------------------


def different_first(
    embeddings: Numbers, is_decided: npt.NDArray[np.bool_], margins: Numbers
) -> Rows:
    """Begin with what looks least like the decided regions and those before; then by margin."""
    unlike = np.full(len(margins), _MOST_TOLD_APART)
    first = farthest(embeddings, is_decided, _MOST_TOLD_APART)
    unlike[first] = np.arange(len(first))
    return np.lexsort((margins, unlike))


def farthest(embeddings: Numbers, is_decided: npt.NDArray[np.bool_], count: int) -> Rows:
    """Return undecided rows, each the farthest from what is decided and from those before it.

    A greedy core-set (k-centre): of the orders measured, the one that needs the fewest decisions to
    learn from. Without a decision, the first row is the farthest from the mean.

    Shapes: embeddings (N, e), unit norm.
    """
    undecided = np.flatnonzero(~is_decided)
    rows = embeddings[undecided]
    decided = embeddings.mean(0, keepdims=True)
    if is_decided.any():
        decided = embeddings[is_decided]
    nearest = (rows @ decided.T).max(1, initial=-np.inf)  # Cosine of the nearest decided row
    chosen: list[int] = []
    for _ in range(min(count, len(undecided))):
        chosen.append(int(nearest.argmin()))
        nearest = np.maximum(nearest, rows @ rows[chosen[-1]])
        nearest[chosen] = np.inf
    return undecided[chosen]


def most_similar(
    parts: Iterable[Vectors], query: FloatArray, top: int, rows: Rows | None = None
) -> tuple[Rows, FloatArray]:
    """Return the rows most similar to a query and their similarities, best first.

    All are multiplied as they are stored: half precision reads half of the memory. Those that may
    be among the best by `ROUNDING_OF_HALVES` are multiplied again in single precision, so the
    answer is that of single precision. Shapes: parts (some rows, width), vectors of unit length;
    rows those that count, in ascending order (default: all).
    """
    import torch

    from ..engine.compute.compute_lock import end_threads

    start = 0
    best_rows, similarities = np.zeros(0, np.intp), np.zeros(0, np.float32)
    for part in parts:
        counting = np.arange(len(part))
        if rows is not None:
            first, end = np.searchsorted(rows, (start, start + len(part)))
            counting = rows[first:end] - start
        are_few = 4 * len(counting) < len(part)
        multiplied = torch.from_numpy(part[counting] if are_few else part)
        products = multiplied.mv(torch.from_numpy(query.astype(part.dtype)))
        scores = products.numpy().astype(np.float32)
        if not are_few:
            scores = scores[counting]
        scores[np.isnan(scores)] = -np.inf  # of vectors that are damaged
        least = -np.inf
        if len(scores) > top:
            least = np.partition(scores, -top)[-top]
        if len(similarities) == top:
            least = max(least, similarities[-1])
        near = counting[scores >= least - 2 * ROUNDING_OF_HALVES]
        exact = (part[near].astype(np.float32) * query).sum(1)
        best_rows, similarities = np.append(best_rows, start + near), np.append(similarities, exact)
        best = np.argsort(-similarities, kind="stable")[:top]  # NaN last
        best_rows, similarities = best_rows[best], similarities[best]
        start += len(part)
    end_threads()
    return best_rows, similarities
