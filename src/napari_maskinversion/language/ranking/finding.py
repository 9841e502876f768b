"""Rank regions by how well an expression fits them ("the dog on the left")."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from ...base.errors import InputError
from ...base.validation import without_hidden
from ..labels.label import check_templates

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone

FloatArray = npt.NDArray[np.float32]

# Best in the paper for expressions that mention the surroundings of a region (RefCOCO: 41.7 % at
# alpha 0, 56.2 % at 5, 20.5 % at 20); see `InversionConfig.alpha`.
EXPRESSION_ALPHA: Final = 5.0


@dataclass(frozen=True, slots=True)
class RegionMatch:
    """A region and how well an expression fits it."""

    row: int  # Index of the region
    similarity: float  # Cosine of region and expression, -1..1
    margin: float  # Similarity minus that of the next region; NaN for the last one


def check_expression(expression: str, templates: Sequence[str] = ("{}",)) -> None:
    """Refuse an invalid expression before a model is loaded."""
    if not without_hidden(expression).strip():
        raise InputError(
            "The expression is blank; describe the region, for example: the dog on the left."
        )
    check_templates(templates)


def embed_expression(
    model: Backbone, expression: str, templates: Sequence[str] = ("{}",)
) -> FloatArray:
    """Embed an expression: the normalised mean over templates, shape (e,), float32."""
    check_expression(expression, templates)
    words = " ".join(expression.split())
    mean = model.encode_text([template.replace("{}", words) for template in templates]).mean(axis=0)
    return np.asarray(mean / max(float(np.linalg.norm(mean)), 1e-12), dtype=np.float32)


def find(
    model: Backbone,
    unit_embeddings: FloatArray,
    expression: str,
    templates: Sequence[str] = ("{}",),
) -> list[RegionMatch]:
    """Rank regions by how well an expression fits them, best first.

    Shapes: unit_embeddings (regions, e), float32.
    """
    words = embed_expression(model, expression, templates)
    if unit_embeddings.ndim != 2 or unit_embeddings.shape[1] != len(words):
        raise InputError(
            f"{model.name} needs embeddings of shape (regions, {len(words)}); got "
            f"{unit_embeddings.shape}."
        )
    import torch

    # Torch multiplies: NumPy's threads would keep spinning into the next inversion.
    regions = torch.from_numpy(np.ascontiguousarray(unit_embeddings, np.float32))
    similarities = (regions @ torch.from_numpy(words)).tolist()
    order = sorted(range(len(similarities)), key=lambda row: -similarities[row])
    values = [similarities[row] for row in order]
    margins = [value - next_value for value, next_value in pairwise(values)]
    return [
        RegionMatch(row, value, margin)
        for row, value, margin in zip(order, values, [*margins, math.nan], strict=False)
    ]
