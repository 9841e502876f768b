"""Embeddings in two dimensions, where similar regions lie near one another: PCA, or t-SNE."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Final, Literal

import numpy as np
import numpy.typing as npt

from ..base.errors import InputError
from ..base.progress import tell, tick

FloatArray = npt.NDArray[np.float32]
Way = Literal["pca", "tsne"]

WITHOUT_TSNE: Final = (
    't-SNE needs openTSNE: pip install "napari-maskinversion[map]"; PCA is shown instead.'
)
TSNE: Final = "t-SNE step"
_STEPS: Final = (250, 500)  # with exaggeration, and after it
_TOLD: Final = 10  # steps between two chances to stop
_PERPLEXITY: Final = 30  # neighbours that count; fewer where there are few points
_FEWEST: Final = 5  # different points; below, t-SNE says nothing
_KEPT: Final = 50  # axes whose distances t-SNE keeps
_AT_ONCE: Final = 16_384  # vectors


@dataclass(frozen=True, slots=True, eq=False)
class EmbeddingMap:
    """Where each embedding lies on the map."""

    points: FloatArray  # (N, 2), x and y; NaN for embeddings that are no vectors
    way: Way
    note: str = ""  # What was left out or done otherwise, in whole sentences


def embedding_map(embeddings: npt.NDArray[np.floating], way: Way = "pca") -> EmbeddingMap:
    """Map embeddings (N, e), of any length; their directions count.

    The same embeddings give the same map.
    """
    vectors = np.asarray(embeddings, np.float32)
    if not len(vectors):
        raise InputError("There are no embeddings to map; suggest words or add regions first.")
    lengths = np.linalg.norm(vectors, axis=1)
    good = np.isfinite(lengths) & (lengths > 0)
    if not good.any():
        raise InputError("None of the embeddings has a direction: they are zero or not finite.")
    unit = vectors[good] / lengths[good, None]
    notes = []
    if left := int((~good).sum()):
        notes.append(f"{left:,} of {len(good):,} embeddings are no vectors and are left out.")
    axes = principal(unit, _KEPT if way == "tsne" else 2)
    flat = axes[:, :2]
    different = len(np.unique(flat, axis=0))
    if different == 1 < len(unit):
        notes.append("All embeddings are the same: they lie on one point.")
    if way == "tsne" and different < _FEWEST:
        way = "pca"
        notes.append(f"t-SNE needs {_FEWEST} different embeddings; PCA is shown instead.")
    elif way == "tsne" and find_spec("openTSNE") is None:
        way = "pca"
        notes.append(WITHOUT_TSNE)
    elif way == "tsne":
        flat = _tsne(axes)
    points = np.full((len(vectors), 2), np.nan, np.float32)
    points[good] = flat
    return EmbeddingMap(points, way, " ".join(notes))


def principal(vectors: FloatArray, count: int) -> FloatArray:
    """Project vectors (N, e) on the axes along which they differ most; returns (N, count).

    On each axis the vectors' largest coordinate counts as positive: its sign is arbitrary.
    """
    import torch

    from ..engine.compute.compute_lock import end_threads

    data = torch.from_numpy(vectors)
    mean = data.mean(0, dtype=torch.float64)
    spread = torch.zeros(data.shape[1], data.shape[1], dtype=torch.float64)
    parts = torch.split(data, _AT_ONCE)
    for part in parts:
        centred = part.double() - mean
        spread += centred.T @ centred
    values, directions = torch.linalg.eigh(spread)
    # Axes of what is only rounding would be noise.
    directions = directions * (values > 1e-10 * len(data))
    directions = directions.flip(1)[:, :count]
    projected = torch.cat([(part.double() - mean) @ directions for part in parts])
    ends = projected.gather(0, projected.abs().argmax(0, keepdim=True))
    projected = torch.where(ends < 0, -projected, projected).float()
    end_threads()
    return np.asarray(
        torch.nn.functional.pad(projected, (0, max(count - projected.shape[1], 0))).numpy()
    )


def _tsne(axes: FloatArray) -> FloatArray:
    """Arrange points (N, axes) by t-SNE, from where PCA has them; the work may end at any tick."""
    import openTSNE

    done = 0
    steps = sum(_STEPS)

    def told(*_: object) -> None:
        nonlocal done
        done += _TOLD
        tick(TSNE, done, steps)

    tell("Looking for neighbours")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it suggests other settings
        arranged = openTSNE.TSNE(
            perplexity=min(_PERPLEXITY, (len(axes) - 1) / 3),
            initialization=axes[:, :2] / axes[:, 0].std() * 1e-4,  # as small as openTSNE's own
            early_exaggeration_iter=_STEPS[0],
            n_iter=_STEPS[1],
            callbacks=told,
            callbacks_every_iters=_TOLD,
            random_state=0,
            # Several threads give another map each time, and wait for one another on busy cores.
            n_jobs=1,
        ).fit(axes)
    return np.asarray(arranged, np.float32)
