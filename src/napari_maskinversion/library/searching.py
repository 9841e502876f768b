"""The most similar of many vectors, exactly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import PurePath
from typing import Final

import numpy as np
import numpy.typing as npt

from ..base.errors import InputError

FloatArray = npt.NDArray[np.float32]
HalfArray = npt.NDArray[np.float16]
IntArray = npt.NDArray[np.int64]
# What a product of unit vectors in half precision, summed in single precision, can be off: the
# query is rounded (2**-11 of its length at most), and so is the sum (2**-12).
MARGIN: Final = 0.001
NOT: Final = "not "
_COPIED: Final = 16_384  # vectors at once


def wanted_and_not(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the words looked for, and those to be avoided ("not debris")."""
    wanted, unwanted = list[str](), list[str]()
    for word in map(str.strip, words):
        avoided = word.lower().startswith(NOT)
        (unwanted if avoided else wanted).append(word[len(NOT) * avoided :].strip())
    return wanted, unwanted


def short_names(images: Iterable[str]) -> dict[str, str]:
    """Return the file names of paths, with their folder where a name is there twice."""
    paths = {image: PurePath(image) for image in images}
    count = Counter(path.name for path in paths.values())
    return {
        image: path.name if count[path.name] == 1 else "/".join(path.parts[-2:])
        for image, path in paths.items()
    }


def direction(wanted: Sequence[FloatArray], unwanted: Sequence[FloatArray] = ()) -> FloatArray:
    """Return the unit vector of the mean of unit vectors minus the mean of others.

    Shapes: wanted, unwanted, returns (width,).
    """
    if not wanted:
        raise InputError("Name a word or a region to look for, besides those to avoid.")
    mean = np.asarray(wanted, np.float64).mean(0)
    if len(unwanted):
        mean = mean - np.asarray(unwanted, np.float64).mean(0)
    length = float(np.linalg.norm(mean))
    if length < 1e-6:
        raise InputError("What is looked for and what is to be avoided are the same.")
    return np.asarray(mean / length, np.float32)


def nearest(
    vectors: HalfArray, query: FloatArray, top: int, rows: IntArray | None = None
) -> tuple[IntArray, FloatArray]:
    """Return the rows most similar to a query and their similarities, best first.

    All are multiplied in half precision, which reads half of the memory; those that may be among
    the best by `MARGIN` again in single precision, so that the answer is that of single precision.
    Shapes: vectors (count, width) of unit length; rows those that count (default: all).
    """
    import torch

    from ..engine.compute.compute_lock import end_threads

    all_vectors, exact_query = torch.from_numpy(vectors), torch.from_numpy(query)
    places = None if rows is None else torch.from_numpy(rows)
    few = places is not None and 4 * len(places) < len(all_vectors)
    scores = (all_vectors[places] if few else all_vectors).mv(exact_query.half()).float()
    if places is not None and not few:
        scores = scores[places]
    top = min(top, len(scores))
    if top < 1:
        return np.zeros(0, np.int64), np.zeros(0, np.float32)
    scores = scores.nan_to_num(nan=-torch.inf)  # of vectors that are damaged
    least = scores.topk(top).values[-1] - 2 * MARGIN
    near = (scores >= least).nonzero()[:, 0]
    near = near if places is None else places[near]
    exact = torch.cat(
        [all_vectors[part].float().mv(exact_query) for part in torch.split(near, _COPIED)]
    )
    order = exact.nan_to_num(nan=-torch.inf).argsort(descending=True, stable=True)[:top]
    end_threads()
    return near[order].numpy(), exact[order].numpy()
