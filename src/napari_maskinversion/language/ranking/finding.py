"""Regions in order of how well an expression fits them ("the dog on the left")."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from ...base.errors import InputError
from ..labels.templates import check_templates

if TYPE_CHECKING:
    from ...engine.models.backbone import Backbone

FloatArray = npt.NDArray[np.float32]

# The paper's best for expressions that name a region by its surroundings (RefCOCO: 41.7 % at
# alpha 0, 56.2 % at 5, 20.5 % at 20); see `InversionConfig.alpha`.
EXPRESSION_ALPHA: Final = 5.0
MOST_ALPHA: Final = 20.0  # as far as the paper looked


@dataclass(frozen=True, slots=True)
class Found:
    """A region and how well the expression fits it.

    Attributes
    ----------
    row : int
        Its place among the regions given.
    similarity : float
        Cosine of region and expression, -1..1.
    margin : float
        Similarity less that of the next region; NaN for the last.
    """

    row: int
    similarity: float
    margin: float


def check_expression(expression: str, templates: Sequence[str] = ("{}",)) -> None:
    """Refuse words that cannot be looked for, before anything heavy is loaded.

    Raises
    ------
    InputError
        If the expression is blank, there is no template, or one lacks its ``{}``.
    """
    if not expression.strip():
        raise InputError(
            "There is nothing to look for; say what the region is, for example: the dog on the "
            "left."
        )
    check_templates(templates)


def embed_expression(
    model: Backbone, expression: str, templates: Sequence[str] = ("{}",)
) -> FloatArray:
    """Embed an expression: the unit mean over the templates, shape (e,), float32.

    Raises
    ------
    InputError
        See `check_expression`.
    """
    check_expression(expression, templates)
    words = " ".join(expression.split())
    mean = model.encode_text([template.replace("{}", words) for template in templates]).mean(axis=0)
    return np.asarray(mean / max(float(np.linalg.norm(mean)), 1e-12), dtype=np.float32)


def find(
    model: Backbone,
    unit_embeddings: FloatArray,
    expression: str,
    templates: Sequence[str] = ("{}",),
) -> list[Found]:
    """Rank regions by how well an expression fits them, best first.

    Parameters
    ----------
    model : Backbone
        The one that embedded the regions.
    unit_embeddings : ndarray, shape (regions, e), float32
        L2 norm 1, as `Results.unit_embeddings`. Regions inverted with an alpha of about 5 keep
        what is around them, which such expressions speak of (`EXPRESSION_ALPHA`).
    expression : str
    templates : sequence of str
        Sentences with one ``{}`` each; the bare expression unless given.

    Returns
    -------
    list of Found, one per region.

    Raises
    ------
    InputError
        If the expression is blank, a template will not do, or the embeddings are of another size
        than the model's.
    """
    words = embed_expression(model, expression, templates)
    if unit_embeddings.ndim != 2 or unit_embeddings.shape[1] != len(words):
        raise InputError(
            f"{model.name} needs embeddings of shape (regions, {len(words)}); got "
            f"{unit_embeddings.shape}."
        )
    import torch

    # Torch's product: NumPy's threads would spin where the next inversion wants to compute.
    regions = torch.from_numpy(np.ascontiguousarray(unit_embeddings, np.float32))
    similarities = (regions @ torch.from_numpy(words)).tolist()
    order = sorted(range(len(similarities)), key=lambda row: -similarities[row])
    values = [similarities[row] for row in order]
    margins = [best - then for best, then in pairwise(values)]
    return [
        Found(row, value, margin)
        for row, value, margin in zip(order, values, [*margins, math.nan], strict=False)
    ]
