"""The most similar of many vectors, exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import PurePath
from typing import Final

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float32]
HalfArray = npt.NDArray[np.float16]
IntArray = npt.NDArray[np.int64]
# What a product of unit vectors in half precision, summed in single precision, can be off: the
# query is rounded (2**-11 of its length at most), and so is the sum (2**-12).
MARGIN: Final = 0.001


def short_names(images: Iterable[str]) -> dict[str, str]:
    """Return the file names of paths, with their folder where a name is there twice."""
    paths = {image: PurePath(image) for image in images}
    count = Counter(path.name for path in paths.values())
    return {
        image: path.name if count[path.name] == 1 else "/".join(path.parts[-2:])
        for image, path in paths.items()
    }


def nearest(
    parts: Iterable[HalfArray], query: FloatArray, top: int, rows: IntArray | None = None
) -> tuple[IntArray, FloatArray]:
    """Return the rows most similar to a query and their similarities, best first.

    All are multiplied in half precision, which reads half of the memory; those that may be among
    the best by `MARGIN` again in single precision, so that the answer is that of single precision.
    Shapes: parts (some rows, width), vectors of unit length; rows those that count, in ascending
    order (default: all).
    """
    import torch

    from ..engine.compute.compute_lock import end_threads

    half_query, start = torch.from_numpy(query.astype(np.float16)), 0
    places, similarities = np.zeros(0, np.int64), np.zeros(0, np.float32)
    for part in parts:
        own = np.arange(len(part))
        if rows is not None:
            first, end = np.searchsorted(rows, (start, start + len(part)))
            own = rows[first:end] - start
        few = 4 * len(own) < len(part)
        halves = torch.from_numpy(part[own] if few else part).mv(half_query).numpy()
        scores = halves.astype(np.float32)
        scores = scores if few else scores[own]
        scores[np.isnan(scores)] = -np.inf  # of vectors that are damaged
        least = np.partition(scores, -top)[-top] if len(scores) > top else -np.inf
        if len(similarities) == top:
            least = max(least, similarities[-1])
        near = own[scores >= least - 2 * MARGIN]
        exact = (part[near].astype(np.float32) * query).sum(1)
        places, similarities = np.append(places, start + near), np.append(similarities, exact)
        order = np.argsort(-similarities, kind="stable")[:top]  # NaN last
        places, similarities = places[order], similarities[order]
        start += len(part)
    end_threads()
    return places, similarities
